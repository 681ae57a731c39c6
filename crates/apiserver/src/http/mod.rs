//! HTTP: connections, limits, content negotiation, and routing of requests to the verbs.

pub(crate) mod answer;
pub(crate) mod api;
pub(crate) mod body;
pub(crate) mod compress;
pub(crate) mod fair;
pub(crate) mod gather;
pub(crate) mod incoming;
pub(crate) mod limits;
pub(crate) mod list_body;
pub(crate) mod metrics;
pub(crate) mod negotiate;
pub(crate) mod nonresource;
pub(crate) mod pod_logs;
pub(crate) mod protobuf;
pub(crate) mod request_body;
pub(crate) mod resource;
pub(crate) mod route;
pub(crate) mod stalled;
pub(crate) mod trace;
pub(crate) mod weight;
pub(crate) mod workers;
