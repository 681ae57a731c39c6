//! Rules that say when a kind is done.
#![allow(dead_code)]

mod builtin;
mod cases;
mod cel;
mod dialects;
mod document;
mod draft;
mod inspect;
mod load;
mod matching;
mod rule;
mod set;
mod template;

pub use cases::{CaseFailure, CaseReport, run_cases};
pub use document::{LoadError, LoadErrors};
pub use inspect::{AskedRule, Explanation, RuleInfo, Tried};
pub use set::{Builder, Decider, RuleSet};
