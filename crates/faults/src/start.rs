//! Start of a run: a server, its clock, and what is in it.

use settled_apiserver::Server;

use crate::cluster::Cluster;

/// What one run starts from.
pub(crate) struct Start {
    pub(crate) server: Server,
    pub(crate) clock: settled_apiserver::Clock,
    pub(crate) cluster: Cluster,
    /// How many edits of the scenario have been made.
    pub(crate) edits_done: usize,
}
