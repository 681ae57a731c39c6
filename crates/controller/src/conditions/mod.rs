//! Status conditions.
//!
//! A controller declares its condition types and reasons once, as enums; in each reconcile it reports what it found out; [`Conditions::finish`]
//! yields the list to store:
//!
//! - each condition carries the generation it is about ([`Condition::observed_generation`](k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition)),
//! - the transition time is kept as long as the status is, has the precision of metav1.Time, and never goes back,
//! - a declared condition that was not reported does not keep an old claim: it is Unknown, unless [`Unreported`] says otherwise,
//! - conditions of other controllers are not touched,
//! - a summary, `Ready` by default, follows from polarity and severity,
//! - `Reconciling` and `Stalled` are there when they are true, never both, as kstatus wants them.
//!
//! [`mirror`] and [`Aggregate`] make findings of the conditions of other objects. [`crd`] makes the schema of `status.conditions` and
//! printer columns of the same types. [`meta`] has upstream's setter and its relatives for controllers that need exactly these.
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
