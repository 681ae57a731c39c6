//! State of the driver: phases, followed targets, streams and responses.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use settled_watch::{RequestError, Resource, Resources};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::discovery::Listed;
use super::missing::Findings;
use crate::events::FetchedEvidence;
use crate::id::{ObjectId, Uid};
use crate::ids::{StreamId, TargetId};
use crate::observation::Evidence;
use crate::record::Record;
use crate::report::{Event, Notice, Outcome};
use crate::stream::Spec;

#[derive(Debug, PartialEq)]
pub(super) enum Phase {
    Following,
    /// The wait is over; dependents are still being watched for explanations, until this time.
    Looking(Outcome, Instant),
    /// The wait is over; evidence is being fetched, until this time.
    Gathering(Outcome, Instant),
    Over,
}

/// Order of targets in the same state, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Failed, within its grace period.
    Failing,
    /// Blocked by something else.
    Blocked,
    Waiting,
    /// Not observed by its controller yet.
    NotObserved,
}

#[derive(Debug)]
pub(super) struct Followed {
    pub(super) id: ObjectId,
    pub(super) kind: Option<Arc<Resource>>,
    /// The stream that reports it, and the epoch of its last report.
    pub(super) stream: Option<(StreamId, u32)>,
    /// Other streams that report it.
    pub(super) also: Vec<(StreamId, u32)>,
    /// Whether it is a target only while it is selected.
    pub(super) selected: bool,
    /// Its last record before its deletion.
    pub(super) last: Option<Box<Record>>,
    /// Hash of its last report.
    pub(super) reported: Option<NonZeroU64>,
    /// The UID whose dependents are watched.
    pub(super) explored: Option<Uid>,
}

/// A queued event.
#[derive(Debug)]
pub(super) enum Queued {
    Event(Box<Event>),
    /// State of a target. Its report is created on demand: thousands of reports would need more memory than all records.
    Target(TargetId),
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) spec: Spec,
    pub(super) role: Role,
    /// Whether its initial list, or its relist, is complete.
    pub(super) synced: bool,
    /// Whether its initial list was ever complete.
    pub(super) seen: bool,
    pub(super) epoch: u32,
    pub(super) down: Option<Down>,
    pub(super) down_reported: bool,
    /// Set if it cannot be read.
    pub(super) denied: Option<Denied>,
    /// Whether it is one of many kinds, so that an empty list is not reported.
    pub(super) of_category: bool,
    /// Notice when it works: it replaces another stream that was forbidden.
    pub(super) substitute: Option<Notice>,
    /// Whether the server no longer serves its kind in this version.
    pub(super) no_kind: bool,
    pub(super) ended: bool,
    pub(super) task: AbortHandle,
}

/// Temporary failure of a stream.
#[derive(Debug)]
pub(super) struct Down {
    pub(super) since: Instant,
    pub(super) error: RequestError,
    /// Number of server responses by then.
    pub(super) answers: u64,
}

/// Permanent failure of a stream.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) since: Instant,
    pub(super) message: String,
}

impl Stream {
    pub(super) fn is_of_targets(&self) -> bool {
        matches!(self.role, Role::Targets | Role::Selection)
    }

    /// Whether its targets have not been read yet.
    pub(super) fn is_unread(&self) -> bool {
        !self.seen && !self.ended && self.is_of_targets()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Named targets.
    Targets,
    /// All selected objects are targets.
    Selection,
    /// Dependents and references, for explanations.
    Children,
    /// CRDs, for targets whose kind is not served yet.
    Crds,
}

#[derive(Debug, Default)]
pub(super) struct Covered {
    pub(super) whole: bool,
    pub(super) selectors: HashSet<String>,
}

/// Response to a request beside the streams.
#[derive(Debug)]
pub(super) enum Answer {
    Resources(Resources),
    Evidence(Arc<str>, Arc<str>, Evidence),
    Gathered(FetchedEvidence),
    Prefetched(FetchedEvidence),
    Missing(Findings),
    /// Metadata of candidates for dependents in a namespace.
    Listed(String, Listed),
}
