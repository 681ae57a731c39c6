//! Apply options, events and report: data only.

use serde::Serialize;
use serde_json::Value;
use settled_watch::RequestError;

use super::applyset::ApplySetError;
use super::foreign::AppliedState;
use crate::id::ObjectId;
use crate::report::Report;
use crate::target::Target;

/// How to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Who owns the fields.
    pub field_manager: String,
    /// Take over fields that others own.
    pub force: bool,
    /// The server checks everything and stores nothing.
    pub dry_run: bool,
    /// The namespace of objects that name none; the client's if none.
    pub namespace: Option<String>,
    /// The ApplySet whose members these objects are, by the name of its parent: `NAME` of a Secret, or `KIND/NAME`. Members that are
    /// not among the objects are deleted.
    pub apply_set: Option<String>,
    /// Hand out each object as it was before and after.
    pub versions: bool,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        Self {
            field_manager: "settled".to_owned(),
            force: false,
            dry_run: false,
            namespace: None,
            apply_set: None,
            versions: false,
        }
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Applied {
    /// It was not there before.
    Created,
    /// It is another than before.
    Configured,
    /// It was so already.
    Unchanged,
    /// It is applied; how it was before could not be read.
    #[serde(rename = "serverside-applied")]
    ServerSideApplied,
}

/// An object before and after an apply, without its status and what the server records of writes. The data of Secrets is masked.
#[derive(Clone, Debug, PartialEq)]
pub struct Versions {
    /// None if it did not exist, or could not be read.
    pub before: Option<Value>,
    /// How the server stored it, or would have.
    pub after: Value,
}

/// A field of another manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// Who owns it.
    pub manager: String,
    /// Which field: `.spec.replicas`.
    pub field: String,
}

/// What happens while applying.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase")]
pub enum ApplyEvent {
    /// An object was applied.
    Applied {
        /// Which object.
        object: ObjectId,
        /// What became of it.
        result: Applied,
        /// The fields that have changed: `spec.template.spec.containers[app].image`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        fields: Vec<String>,
        /// The managers of kubectl's client-side apply whose fields were taken over.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        took_over: Vec<String>,
        /// Before and after, if they were asked for.
        #[serde(skip)]
        versions: Option<Box<Versions>>,
    },
    /// An object was a member of the ApplySet, is not applied any more, and was deleted.
    Pruned {
        /// Which object.
        object: ObjectId,
    },
    /// An object was refused.
    Refused {
        /// Which object.
        object: ObjectId,
        /// What the server says.
        message: String,
        /// The fields that others own, if that is why.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        conflicts: Vec<Conflict>,
        /// What would help.
        #[serde(skip_serializing_if = "Option::is_none")]
        remedy: Option<String>,
    },
    /// These have to be there before the rest can be applied.
    Awaiting {
        /// Which objects.
        objects: Vec<ObjectId>,
    },
    /// They did not come in time; what needs them will be refused.
    NotAwaited(Box<Report>),
    /// The cluster does not answer any more: the rest was not sent.
    Lost {
        /// How many objects were not sent.
        remaining: usize,
        /// The error of the last request.
        message: String,
    },
    /// Something that a user should know.
    Warning {
        /// What is the matter.
        message: String,
    },
}

/// What came of applying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// What was applied, each with its generation and revision: nothing older is to be taken for it.
    pub targets: Vec<Target>,
    /// The state in which each was left, to notice changes by others.
    pub states: Vec<AppliedState>,
    /// What was deleted because it is not in the ApplySet any more.
    pub pruned: Vec<Target>,
    /// How many objects were not applied, or not pruned.
    pub refused: usize,
    /// How many of these for want of a permission or of an answer.
    pub unreachable: usize,
}

/// Why nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The cluster cannot be asked which kinds it has.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The ApplySet cannot be used.
    #[error(transparent)]
    ApplySet(#[from] ApplySetError),
}
