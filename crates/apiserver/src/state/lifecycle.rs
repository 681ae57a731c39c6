//! Lifecycle: feature gates, notices and shutdown of a running server.

use std::future::Future;

use tokio::sync::watch;

use crate::features::FeatureGates;
use crate::notice::{Listener, Notices};

pub(crate) struct Lifecycle {
    pub(crate) gates: FeatureGates,
    pub(crate) notices: Notices,
    /// True once the server is to stop.
    pub(crate) stopping: watch::Sender<bool>,
    /// Everything that runs, and every connection, holds a receiver.
    pub(crate) running: watch::Sender<()>,
}

impl Lifecycle {
    pub(crate) fn new(gates: FeatureGates, listener: Option<Listener>) -> Self {
        Self {
            gates,
            notices: Notices::new(listener),
            stopping: watch::Sender::new(false),
            running: watch::Sender::new(()),
        }
    }

    /// Runs this beside the requests. It is dropped, wherever it is, as soon as the server is to stop.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut stopping = self.stopping.subscribe();
        let running = self.running.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                // An error means that the server is gone altogether.
                _ = stopping.wait_for(|stopping| *stopping) => {}
                () = work => {}
            }
            drop(running);
        });
    }
}
