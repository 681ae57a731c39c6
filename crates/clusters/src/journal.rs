//! Journal: the phases of the creation of a cluster, in the status of its Cluster. It reports; what is done next follows from what there is, so that a journal
//! that was lost delays nothing.

use std::fmt;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use settled_controller::Clock;
use settled_machines::types::{JournalEntry, whole_second};

use crate::error::Error;
use crate::kinds::api;
use crate::management::{MANAGER, Management};

/// A phase of the creation of a cluster.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Phase {
    /// The Cluster and what it refers to are applied.
    Cluster,
    /// The first machine of the control plane is made.
    FirstControlPlane,
    /// The API server of the cluster answers.
    Endpoint,
    /// The other machines of the control plane are made, one by one.
    ControlPlane,
    /// Workers are made, all at the same time.
    Workers,
    /// The objects are moved into the cluster.
    Pivot,
    /// Everything is done.
    Complete,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 7] = [
        Self::Cluster,
        Self::FirstControlPlane,
        Self::Endpoint,
        Self::ControlPlane,
        Self::Workers,
        Self::Pivot,
        Self::Complete,
    ];

    /// The name in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::FirstControlPlane => "FirstControlPlane",
            Self::Endpoint => "Endpoint",
            Self::ControlPlane => "ControlPlane",
            Self::Workers => "Workers",
            Self::Pivot => "Pivot",
            Self::Complete => "Complete",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The journal with a phase that begins, or is done.
fn with(mut journal: Vec<JournalEntry>, phase: Phase, is_done: bool, clock: &Clock) -> Vec<JournalEntry> {
    let now = whole_second(clock.now());
    if !journal.iter().any(|entry| entry.step == phase.as_str()) {
        journal.push(JournalEntry {
            step: phase.as_str().to_owned(),
            started_at: now.clone(),
            completed_at: None,
        });
    }
    let entry = journal.iter_mut().find(|entry| entry.step == phase.as_str());
    if let Some(entry) = entry.filter(|entry| is_done && entry.completed_at.is_none()) {
        entry.completed_at = Some(now);
    }
    journal
}

/// Records in the status of a Cluster that a phase begins, or is done.
pub(crate) async fn record(
    management: &Management,
    namespace: &str,
    cluster: &str,
    phase: Phase,
    is_done: bool,
) -> Result<(), Error> {
    let clusters = api(&management.client, "Cluster", namespace);
    let failed = || format!("record phase {phase} of Cluster {cluster}");
    let read = clusters.get_opt(cluster).await.map_err(Error::request(failed()))?;
    let Some(read) = read else { return Err(Error::Deleted(format!("Cluster {cluster}"))) };
    let journal: Vec<JournalEntry> =
        serde_json::from_value(read.data["status"]["journal"].clone()).unwrap_or_default();
    let new = with(journal.clone(), phase, is_done, &management.options.clock);
    if new == journal {
        return Ok(());
    }
    // Nobody else writes this field, and the controller writes no status that it has not read.
    let patch = json!({"metadata": {"uid": read.metadata.uid}, "status": {"journal": new}});
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    clusters
        .patch_status(cluster, &parameters, &Patch::Merge(patch))
        .await
        .map_err(Error::request(failed()))?;
    Ok(())
}
