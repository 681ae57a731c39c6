#![doc = include_str!("../README.md")]

pub mod apply;
mod condition;
mod crd_rules;
mod dependents;
mod evaluation;
mod evaluator;
mod event_note;
mod events;
mod evidence;
mod explain;
mod facts;
mod graph;
mod id;
mod ids;
mod inventory;
mod limits;
mod link;
mod logs;
mod observation;
mod order;
mod policy;
mod record;
mod release_names;
mod releases;
pub mod report;
mod shared;
mod stream;
mod target;
mod tracker;
mod unmatched;

pub use apply::apply;
pub use condition::WaitCondition;
pub use id::ObjectId;
pub use limits::Limits;
pub use report::{Event, Outcome, Report, State, TargetReport};
pub use settled_watch::{Cluster, KubeconfigOptions, RequestError};
pub use target::Target;
pub use tracker::{Request, StartError, Tracker, wait};

/// What a [`Request`] is made of: targets, conditions, limits, evidence.
pub mod request {
    pub use crate::condition::{ConditionError, ConditionResult};
    pub use crate::events::EvidenceOptions;
    pub use crate::id::Uid;
    pub use crate::limits::{Missing, grace};
    pub use crate::observation::MinVersion;
    pub use crate::target::{KindName, Selection, TargetError};
    pub use crate::tracker::{Causes, EvaluationOptions, Overview};
}

/// Connections to clusters, and single questions to them.
pub mod connection {
    pub use settled_watch::{
        ConnectError, Document, DownloadError, Exchange, KubeconfigNames, Resource, Resources, Token,
        Traffic, Verb, client, download, read_document, read_resource_list,
    };

    pub use crate::events::{events_of, log_tail};
}

/// Releases of Helm, Flux and Argo CD, ApplySets and the like: the objects that they consist of.
pub mod release {
    pub use crate::inventory::{
        ApplySet, Contents, HelmStorage, Hook, Inventory, InventoryError, KindName as ListedKind, Member,
        Revisions, newest_revisions,
    };
    pub use crate::release_names::release_names;
    pub use crate::releases::{Release, ReleaseError, ReleaseKind, ReleaseTargets};
}

/// The parts of a [`Tracker`], for programs that need one of them alone. They do no I/O.
pub mod parts {
    pub use crate::evaluator::Evaluator;
    pub use crate::explain::{advisory, branch, causes, excuse, failures, own_failure, summary};
    pub use crate::facts::{Completion, Crash, Facts, KindFacts, Labels, PodFacts, Ref};
    pub use crate::graph::{Graph, Put};
    pub use crate::id::IdParts;
    pub use crate::ids::{StreamId, TargetId};
    pub use crate::observation::{Evidence, Now, Observation, ObservedFailure, Reported};
    pub use crate::policy::Policy;
    pub use crate::record::{Record, Unread, not_found};
}
