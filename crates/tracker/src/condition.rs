//! Wait conditions: the grammar of `--for`, and whether an object meets it.
//!
//! | written | met when |
//! |---|---|
//! | `ready` | the object is Current, or an annotation asks that nobody waits for it |
//! | `current` | the object is Current |
//! | `failed` | the object is Failed |
//! | `create` | the object is there |
//! | `delete` | the object is not there |
//! | `condition=NAME[=VALUE]` | that element of `status.conditions` has this status (`true` unless said otherwise), at the latest generation |
//! | `jsonpath=PATH[=VALUE]` | the path leads to one value, and it is this one |
//! | `cel=EXPRESSION` | the expression, in the language of rules, holds |
//! | `any(A, B)` | one of them is met |
//! | `all(A, B)` | all of them are met |
//!
//! `create`, `delete`, `condition=` and `jsonpath=` are those of `kubectl wait`, to the letter. What kubectl takes but never finds met is an
//! error here: a condition without a name, a path that begins with something other than a field.

mod check;
mod fold;
mod grammar;

use std::fmt;
use std::sync::Arc;

use settled_jsonpath::JsonPath;
use settled_rules::Expression;

/// What is waited for, ready to be asked of any number of objects. Cloning copies references.
///
/// ```
/// use kstatus::{compute, Object, Options};
/// use settled_tracker::request::ConditionResult;
/// use settled_tracker::WaitCondition;
///
/// let wanted: WaitCondition = "any(condition=Ready, jsonpath={.status.phase}=Running)".parse()?;
/// let json = br#"{"kind":"Pod","metadata":{"name":"web"},"status":{"phase":"Pending"}}"#;
/// let object = Object::parse(json).unwrap();
/// let options = Options::new("2026-11-21T12:00:00Z".parse().unwrap());
/// let met = wanted.evaluate(Some(&object), &object.verdict(&options), options.now);
/// assert_eq!(met, ConditionResult::No("condition Ready is not there; .status.phase is Pending, wanted Running".to_owned()));
/// # Ok::<(), settled_tracker::request::ConditionError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub enum WaitCondition {
    /// Current, or not to be waited for.
    #[default]
    Ready,
    /// Current.
    Current,
    /// Failed.
    Failed,
    /// Not there any more. Callers that take an object of another uid for a new one pass none.
    Delete,
    /// There.
    Create,
    /// An element of `status.conditions`. Both texts are compared without regard to case.
    Condition {
        /// The condition's type.
        name: Arc<str>,
        /// Its status.
        value: Arc<str>,
    },
    /// What a path leads to.
    JsonPath {
        /// The path.
        path: Arc<JsonPath>,
        /// The path as it was written, without braces.
        text: Arc<str>,
        /// The value as it is printed; none where any will do.
        value: Option<Arc<str>>,
    },
    /// An expression in the language of rules.
    Cel(Arc<Expression>),
    /// One of these.
    Any(Arc<[Self]>),
    /// All of these, at the same time.
    All(Arc<[Self]>),
}

/// Whether an object meets what is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConditionResult {
    /// It does.
    Yes,
    /// It does not, because of this: `condition Ready is False (ContainersNotReady)`.
    No(String),
    /// It cannot be evaluated: the object is not what the condition speaks of. `kubectl wait` gives up here.
    Error(String),
}

impl ConditionResult {
    /// Whether it is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        matches!(self, Self::Yes)
    }
}

/// A text that names nothing to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// What is wrong, and what to write instead.
    pub message: String,
    /// At which character of the text it begins, counted from 1.
    pub column: usize,
    /// At which character of the CEL expression, if it is one that is wrong.
    pub cel_column: Option<usize>,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(column) = self.cel_column {
            return write!(f, "CEL: {} (column {column})", self.message);
        }
        f.write_str(&self.message)?;
        if self.column > 1 {
            write!(f, " (at character {})", self.column)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConditionError {}

impl WaitCondition {
    /// Whether it can be met by an object that is not there.
    #[must_use]
    pub fn waits_for_absence(&self) -> bool {
        match self {
            Self::Delete => true,
            Self::Any(list) | Self::All(list) => list.iter().any(Self::waits_for_absence),
            _ => false,
        }
    }

    /// Whether a failure can meet it.
    #[must_use]
    pub fn waits_for_failure(&self) -> bool {
        match self {
            Self::Failed => true,
            Self::Any(list) | Self::All(list) => list.iter().any(Self::waits_for_failure),
            _ => false,
        }
    }
}
