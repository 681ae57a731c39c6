#![doc = include_str!("../README.md")]

mod builtin;
mod cases;
mod cel;
mod completeness;
mod dialects;
mod document;
mod draft;
mod examples;
mod expression;
mod inspect;
mod key;
mod load;
mod matching;
mod origin;
mod pack;
mod propose;
mod provenance;
mod rule;
mod script;
mod set;
mod template;
mod unpack;

pub use cases::{CaseFailure, CaseReport, run_cases};
pub use dialects::crd::ANNOTATIONS as CRD_ANNOTATIONS;
pub use dialects::import::{Import, import};
pub use document::{LoadError, LoadErrors};
pub use examples::example_status;
pub use expression::{Evaluation, Expression, InvalidExpression};
pub use inspect::{AskedRule, Explanation, RuleInfo, Tried};
pub use propose::{Proposal, Proposals};
pub use provenance::{ControllerSource, ObservedGeneration, Provenance};
pub use rule::Outcome;
pub use set::{Builder, Decider, Definition, RuleSet};

/// Whether all of the built-in pack is sound, and how many rules it has: for the tests of this crate.
#[doc(hidden)]
pub fn check_builtin() -> Result<usize, LoadErrors> {
    builtin::check()
}
