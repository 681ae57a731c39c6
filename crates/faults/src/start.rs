//! Start of a run: a server, its clock, and its content.

use std::sync::Arc;

use settled_apiserver::Server;

use crate::cluster::Cluster;
use crate::kinds::Kinds;

/// Initial state of one run.
pub(crate) struct Start {
    pub(crate) server: Server,
    pub(crate) clock: settled_apiserver::Clock,
    pub(crate) cluster: Cluster,
    /// The kinds of the scenario's edits.
    pub(crate) kinds: Arc<Kinds>,
    /// Number of edits that have been made.
    pub(crate) edits_done: usize,
}
