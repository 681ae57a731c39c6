//! Problems of an object: what the API server refuses in it, and what it takes although nobody meant it.

use std::fmt;

use settled_apimachinery::field;

use crate::model::Place;

/// Maximum number of recorded problems of one object.
const MAX_PROBLEMS: usize = 100;
/// Maximum length of a message in bytes: messages show values, which may be of any size.
const MAX_MESSAGE_BYTES: usize = 512;

/// A problem of an object, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field.
    pub place: Place,
    /// What is wrong, in the API server's words where it refuses the field: `Invalid value: 70000: must be …`.
    pub message: String,
    /// Whether the API server refuses the object.
    pub severity: Severity,
    /// What is missing from the policy because of it.
    pub lost: Lost,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Whether the API server refuses an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The API server refuses it.
    Error,
    /// The API server takes it.
    Warning,
}

/// What is missing from a policy because of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// Nothing: the part is read as far as it has a meaning.
    Nothing,
    /// An entry of `ports`.
    Port,
    /// A peer.
    Peer,
    /// A rule.
    Rule,
    /// All rules of one direction.
    Direction,
    /// The policy.
    Policy,
}

/// Problems of one object, bounded in number and size.
#[derive(Debug, Default)]
pub(super) struct Problems {
    list: Vec<Problem>,
    /// How many are not listed, whether one of them is an error, and the most that is lost because of one.
    more: usize,
    has_more_errors: bool,
    more_lost: Option<Lost>,
}

impl Problems {
    /// Records what the API server refuses.
    pub(super) fn error(&mut self, lost: Lost, error: &field::Error) {
        if self.list.len() >= MAX_PROBLEMS {
            self.more += 1;
            self.has_more_errors = true;
            self.more_lost = self.more_lost.max(Some(lost));
            return;
        }
        self.list.push(Problem {
            place: Place(error.field.as_str().into()),
            message: shorten(error.message()),
            severity: Severity::Error,
            lost,
        });
    }

    /// Records what the API server takes.
    pub(super) fn warning(&mut self, place: impl Into<String>, message: impl Into<String>) {
        if self.list.len() >= MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        self.list.push(Problem {
            place: Place(place.into().into()),
            message: shorten(message.into()),
            severity: Severity::Warning,
            lost: Lost::Nothing,
        });
    }

    /// The problems in the order in which they were found; the last one counts those that were too many.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        if self.more > 0 {
            self.list.push(Problem {
                place: Place("spec".into()),
                message: format!("{} more problems are not listed", self.more),
                severity: if self.has_more_errors { Severity::Error } else { Severity::Warning },
                lost: self.more_lost.unwrap_or(Lost::Nothing),
            });
        }
        self.list
    }
}

fn shorten(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let end =
            (0..=MAX_MESSAGE_BYTES).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
        message.truncate(end);
        message.push('…');
    }
    message
}
