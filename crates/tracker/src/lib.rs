#![doc = include_str!("../README.md")]

mod apply;
mod cluster;
mod condition;
mod connect;
mod definitions;
mod dependents;
mod download;
mod evaluation;
mod evaluator;
mod event_note;
mod events;
mod evidence;
mod exchange;
mod exec;
mod explain;
mod facts;
mod graph;
mod id;
mod ids;
mod inventory;
mod limits;
mod link;
mod logs;
mod names;
mod observation;
mod order;
mod policy;
mod proxy;
mod record;
mod release;
mod report;
mod resources;
mod shared;
mod stream;
mod target;
mod tracker;
mod unmatched;
mod wire;

pub use apply::{
    Applied, AppliedState, ApplyError, ApplyEvent, ApplyOptions, ApplyReport, ApplySetError, Conflict,
    Versions, apply, apply_set_id,
};
pub use cluster::{Cluster, RequestError, Traffic};
pub use condition::{For, ForError, Met};
pub use connect::{Access, ConnectError, KubeconfigNames, Token, client};
pub use download::{DownloadError, download};
pub use evaluator::Judge;
pub use event_note::EventNote;
pub use events::{Wanted, events_of, log_tail};
pub use exchange::{Exchange, Verb};
pub use explain::{advisory, branch, causes, excuse, failures, own_failure, summary};
pub use facts::{Completion, Crash, Facts, KindFacts, Labels, PodFacts, Ref};
pub use graph::{Graph, Put};
pub use id::{IdParts, ObjectId, Uid};
pub use ids::{StreamId, TargetId};
pub use inventory::{
    ApplySet, Contents, HelmStorage, Hook, Inventory, InventoryError, KindName as ListedKind, Member,
    Revisions, newest_revisions,
};
pub use limits::{Limits, Missing, grace};
pub use link::Link;
pub use observation::{Evidence, Floor, Moment, ObservedFailure, Sight};
pub use order::{Wave, apply_rank, waves};
pub use policy::Policy;
pub use record::{Record, Unread, not_found};
pub use release::{Keeper, Release, ReleaseError, ReleaseTargets};
pub use report::{
    Branch, Connection, Counts, Event, Explanation, ForeignChange, LogLines, LogTail, Notice, Outcome,
    Report, Snapshot, State, Step, TargetReport,
};
pub use resources::{Document, Resource, Resources, read_document, read_resource_list};
pub use target::{KindName, Selection, Target, TargetError};
pub use tracker::{Causes, JudgeOptions, Overview, Request, StartError, Tracker, wait};
pub use unmatched::Unmatched;
