//! Logs of played containers, through `pods/log` of the server that they are played on.

use std::sync::Arc;

use settled_apiserver::{ApiError, Server};
use settled_simulator::{LogError, Simulator};

/// Lets the server answer requests for logs with what the containers of the simulation log.
pub fn serve_logs(server: &Server, simulator: &Simulator) {
    let logs = simulator.logs();
    server.set_pod_logs(Arc::new(move |wanted| {
        let log = logs.read(wanted.namespace, wanted.pod, wanted.container, wanted.previous);
        log.map_err(|error| match error {
            LogError::NoPod(_) => ApiError::new(404, "NotFound", error.to_string()),
            _ => ApiError::bad_request(error.to_string()),
        })
    }));
}
