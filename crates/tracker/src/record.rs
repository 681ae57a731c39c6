//! Records: what is kept of an object. Its identity, its owners, the verdict on it, and the few facts that explanations need.

use std::sync::Arc;

use jiff::Timestamp;
use kstatus::{FailureClass, Node, Status, Verdict};

use crate::condition::ConditionResult;
use crate::facts::Facts;
use crate::id::{ObjectId, Uid};

/// What is kept of an object.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which object.
    pub id: ObjectId,
    /// Its `metadata.uid`.
    pub uid: Uid,
    /// `resourceVersion` where it is a number, as all servers of today have it; else 0.
    pub resource_version: u64,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When its deletion was asked for.
    pub deleted: Option<Timestamp>,
    /// The UIDs in `metadata.ownerReferences`.
    pub owners: Arc<[Uid]>,
    /// Whether its status has an observedGeneration.
    pub observes: bool,
    /// Whether it has any status at all.
    pub has_status: bool,
    /// The verdict on it.
    pub verdict: Arc<Verdict>,
    /// Whether it is what is waited for, one condition after another. Empty for what is no target.
    pub results: Arc<[ConditionResult]>,
    /// The same if the object counts as Failed; empty where no condition waits for that.
    pub results_if_failed: Arc<[ConditionResult]>,
    /// What explanations need besides.
    pub facts: Option<Box<Facts>>,
}

impl Record {
    /// Since when it is so, by its own times.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        self.deleted.or_else(|| self.facts.as_ref()?.since).or(self.created)
    }
}

/// The UIDs in a list of owner references.
pub(crate) fn owners(references: Option<Node<'_>>) -> Vec<Uid> {
    let list = references.into_iter().flat_map(Node::elements);
    list.filter_map(|owner| Some(Uid::from(&*owner.get("uid")?.as_str()?))).collect()
}

/// The verdict on an object that isn't there.
#[must_use]
pub fn not_found() -> Verdict {
    Verdict::new(Status::NotFound, kstatus::Basis::Nothing, "NotFound", "it does not exist")
}

/// An object that others refer to and that does not exist.
pub(crate) fn missing(id: ObjectId) -> Record {
    let class = match &*id.kind {
        "StorageClass" | "PersistentVolume" | "PersistentVolumeClaim" => FailureClass::Storage,
        "Service" | "IngressClass" | "GatewayClass" | "Gateway" => FailureClass::Network,
        _ => FailureClass::Configuration,
    };
    let (reason, message) =
        (format!("{}NotFound", id.kind), format!("{} \"{}\" not found", id.kind, id.name));
    let verdict = Verdict::new(Status::NotFound, kstatus::Basis::Nothing, reason, message);
    Record {
        uid: Uid::from(""),
        resource_version: 0,
        generation: None,
        created: None,
        deleted: None,
        owners: Arc::default(),
        observes: false,
        has_status: false,
        id,
        verdict: Arc::new(verdict.failure(class, false)),
        results: Arc::default(),
        results_if_failed: Arc::default(),
        facts: None,
    }
}

/// Why the state of an object is not known: the reason of its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The server has not answered yet.
    NotYetListed,
    /// The user may not read it.
    Forbidden,
    /// The server cannot be reached, or fails.
    Unreachable,
}

impl Unread {
    /// The verdict's reason.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotYetListed => "NotYetListed",
            Self::Forbidden => "Forbidden",
            Self::Unreachable => "Unreachable",
        }
    }

    /// The verdict on an object that could not be read. It may exist.
    #[must_use]
    pub fn verdict(self, message: impl Into<String>) -> Verdict {
        Verdict::new(Status::Unknown, kstatus::Basis::Nothing, self.as_str(), message.into())
    }

    /// Whether a verdict is of an object that could not be read.
    #[must_use]
    pub fn of(verdict: &Verdict) -> Option<Self> {
        let is = |unread: &Self| verdict.reason == unread.as_str();
        if verdict.status != Status::Unknown || verdict.basis != kstatus::Basis::Nothing {
            return None;
        }
        [Self::NotYetListed, Self::Forbidden, Self::Unreachable].into_iter().find(is)
    }
}
