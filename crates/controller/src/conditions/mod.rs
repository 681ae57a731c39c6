//! Status conditions.
//!
//! A controller declares its condition types and reasons once, as enums, and reports findings in each reconcile;
//! [`Conditions::finish`] returns the list to store:
//!
//! - each condition has its [observed generation](k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition),
//! - the transition time changes only with the status, has the precision of metav1.Time, and never decreases,
//! - a declared condition that was not reported does not keep an outdated status: it becomes Unknown, unless
//!   [`Unreported`] says otherwise,
//! - conditions of other controllers are unchanged,
//! - a summary, `Ready` by default, is derived from polarity and severity,
//! - `Reconciling` and `Stalled` are present only while true, and never both, as kstatus expects.
//!
//! [`mirror`] and [`Aggregate`] derive findings from the conditions of other objects. [`crd`] generates the schema of
//! `status.conditions` and printer columns from the same declarations. [`meta`] is a port of upstream's setters.
//!
//! For the write itself, see [`StatusWriter`](crate::status::StatusWriter).

mod children;
pub mod crd;
mod current;
pub mod meta;
mod set;
mod summary;
mod types;
mod validate;

pub use children::{Aggregate, Child, mirror};
pub use current::status_at;
pub use set::{Conditions, RECONCILING, STALLED, Unreported};
pub use settled_controller_derive::{ConditionType, Reason};
pub use types::{ConditionType, Declaration, Finding, Polarity, Reason, ReasonDeclaration, Severity, Status};
pub use validate::{InvalidConditions, validate};
