#![doc = include_str!("../README.md")]

mod aggregate;
mod augment;
mod block;
mod duration;
mod fields;
mod go_text;
mod json;
mod node;
mod object;
mod options;
pub mod reason;
mod settled;
mod spans;
mod text;
mod upstream;
mod verdict;
mod walk;

pub use aggregate::{Counts, aggregate};
pub use augment::{AugmentError, augment, augment_by, augment_value};
pub use duration::format_duration;
pub use json::MAX_DEPTH;
pub use node::{Elements, Entries, Key, Kind as NodeKind, Members, Node};
pub use object::{ConditionElements, ConditionFields, Known, Object, OtherMembers, ParseError};
pub use options::{Options, Profile};
pub use settled::CustomRule;
pub use spans::Member;
pub use verdict::{
    Basis, Condition, Confidence, Failure, FailureClass, Problem, RECONCILING, STALLED, Status, Text,
    UnknownName, Verdict,
};

use serde_json::Value;

/// The verdict on the bytes of one JSON object.
///
/// Total: bytes that are no object give Unknown with reason `Malformed`.
#[must_use]
pub fn compute(json: &[u8], options: &Options) -> Verdict {
    compute_with(json, |object| object.verdict(options))
}

/// As [`compute`], where `decide` gives the verdict on an object. The object is read in place: moving it would cost as much as a small one
/// takes to read.
#[must_use]
pub fn compute_with(json: &[u8], decide: impl FnOnce(&Object<'_>) -> Verdict) -> Verdict {
    let mut object = Object::unread(json);
    match object.read() {
        Ok(()) => decide(&object),
        Err(error) => Verdict::malformed("", error.to_string()),
    }
}

/// As [`compute`], for a value that is already parsed.
#[must_use]
pub fn compute_value(value: &Value, options: &Options) -> Verdict {
    match Object::from_value(value) {
        Ok(object) => object.verdict(options),
        Err(error) => Verdict::malformed("", error.to_string()),
    }
}

impl Object<'_> {
    /// The verdict on this object where `rule` is asked first. In the profile `kstatus` it is not: that is upstream to
    /// the letter.
    #[must_use]
    pub fn verdict_by(&self, options: &Options, rule: &dyn CustomRule) -> Verdict {
        match options.profile {
            Profile::Settled => settled::compute(self, options, settled::Evidence::Whole, Some(rule)),
            Profile::Kstatus => self.verdict(options),
        }
    }

    /// The verdict on this object.
    #[must_use]
    pub fn verdict(&self, options: &Options) -> Verdict {
        match options.profile {
            Profile::Settled => settled::compute(self, options, settled::Evidence::Whole, None),
            Profile::Kstatus => {
                let mut verdict = upstream::compute(self, options.now)
                    .unwrap_or_else(|error| Verdict::malformed("", error));
                verdict.generation = self.get(fields::Field::Generation).and_then(Node::as_int);
                verdict.observed_generation =
                    self.get(fields::Field::ObservedGeneration).and_then(Node::as_int);
                verdict
            }
        }
    }
}
