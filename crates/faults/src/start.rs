//! Start of a run: a server, its clock, and what is in it.

use std::sync::Arc;

use settled_apiserver::Server;

use crate::cluster::Cluster;
use crate::kinds::Kinds;

/// What one run starts from.
pub(crate) struct Start {
    pub(crate) server: Server,
    pub(crate) clock: settled_apiserver::Clock,
    pub(crate) cluster: Cluster,
    /// The kinds of the scenario's edits.
    pub(crate) kinds: Arc<Kinds>,
    /// How many edits of the scenario have been made.
    pub(crate) edits_done: usize,
}
