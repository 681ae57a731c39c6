#![doc = include_str!("../README.md")]

mod advice;
mod apply;
mod cluster;
mod condition;
mod connect;
mod definitions;
mod download;
mod evaluation;
mod events;
mod evidence;
mod exchange;
mod exec;
mod explain;
mod facts;
mod graph;
mod id;
mod inventory;
mod links;
mod logs;
mod names;
mod order;
mod policy;
mod proxy;
mod record;
mod release;
mod report;
mod resources;
mod shared;
mod stream;
mod summary;
mod target;
mod tracker;
mod unmatched;
mod wire;

pub use apply::{
    Applied, AppliedState, ApplyError, ApplyEvent, ApplyOptions, ApplyReport, ApplySetError, Conflict,
    ForeignChange, Versions, apply, apply_set_id,
};
pub use cluster::{Cluster, RequestError, Traffic, Verb};
pub use condition::{For, ForError, Met};
pub use connect::{Access, ConnectError, KubeconfigNames, Token, client};
pub use download::{DownloadError, download};
pub use evaluation::ObservedFailure;
pub use events::{Wanted, events_of, log_tail};
pub use exchange::Exchange;
pub use explain::{advisory, branch, causes, excuse, failures, own_failure};
pub use facts::{Crash, Facts, Ref};
pub use graph::{Graph, Put};
pub use id::{IdParts, ObjectId, Uid};
pub use inventory::{
    ApplySet, Contents, HelmStorage, Hook, Inventory, InventoryError, KindName as ListedKind, Member,
    Revisions, newest_revisions,
};
pub use order::{Wave, apply_rank, waves};
pub use policy::{Evidence, Floor, Limits, Missing, Moment, Policy, Sight, grace};
pub use record::{Judge, Record, Unread, not_found};
pub use release::{Keeper, Release, ReleaseError, ReleaseTargets};
pub use report::{
    Branch, Connection, Counts, Event, EventNote, Explanation, LogLines, LogTail, Notice, Outcome, Report,
    Snapshot, State, Step, TargetReport,
};
pub use resources::{Document, Resource, Resources, read_document, read_resource_list};
pub use summary::summary;
pub use target::{KindName, Selection, Target, TargetError};
pub use tracker::{Causes, JudgeOptions, Overview, Request, StartError, Tracker, wait};
pub use unmatched::Unmatched;
