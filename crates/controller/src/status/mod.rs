//! Status writes: guarded, minimal, and with classified errors.
//!
//! A controller decides the status as data; [`StatusWriter::write`] compares it with the observed one and writes one patch to `/status`, or nothing:
//!
//! - **No empty writes.** Transition times of conditions with the same status, heartbeats, the order of conditions, and
//!   fields that the API server drops or defaults are not differences. So a controller that is woken up by its own
//!   status write settles.
//! - **Guarded.** Each write has the resourceVersion and UID that the status was decided on. After a conflict the
//!   object is read and the status decided again, never resent blindly; after five conflicts the write fails. A
//!   recreated object of the same name is never written: [`Outcome::Gone`].
//! - **Status only.** Spec and metadata are never written, not even if the resource has no status subresource.
//! - **Fights are detected.** A field that the writer wrote, another manager changed, and the writer restores is
//!   counted, logged, and reported to [`StatusWriter::on_fight`].
//! - **Errors have remedies.** [`WriteFailure`] distinguishes failures by their remedy; [`WriteError::hint`] describes
//!   it.
//!
//! ```no_run
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
//! use kube::core::DynamicObject;
//! use serde_json::json;
//! use settled_controller::status::{Outcome, StatusWriter, WriteError};
//!
//! # async fn reconcile(buckets: StatusWriter<DynamicObject>, bucket: DynamicObject) -> Result<(), WriteError> {
//! let outcome = buckets.write(&bucket, |bucket| {
//!     // Called again after a conflict, with what was read then.
//!     Ok(json!({"instance": bucket.data["spec"]["instance"]}))
//! });
//! match outcome.await? {
//!     Outcome::Written { resource_version } => println!("written: {resource_version}"),
//!     Outcome::Unchanged | Outcome::Gone => {}
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Outcomes
//!
//! | case | outcome |
//! |---|---|
//! | the observed object is stale | conflict; the object is read, the status decided again |
//! | deleted, or recreated under the same name | [`Outcome::Gone`] |
//! | no permission | [`WriteFailure::Forbidden`], with verb and resource |
//! | no status subresource; CRD withdrawn | [`WriteFailure::NoStatusSubresource`]; [`WriteFailure::NotServed`] |
//! | rejected by the schema; by a webhook or policy | [`WriteFailure::Invalid`], with the fields; [`WriteFailure::Denied`] |
//! | over the size limit | [`WriteFailure::TooLarge`], with the size |
//! | server down or overloaded | [`WriteFailure::Request`]; [`WriteError::is_transient`] is true, and the caller's backoff decides when to try again |
//!
//! # Several writers of one status
//!
//! With [`WriteMode::MergePatch`], the desired status is the complete one of its type: fields unknown to the type are
//! kept, known fields that are missing are removed. If others write to the same status, start with the observed one, as
//! [`Conditions`](crate::conditions::Conditions) does for conditions. With [`WriteMode::Apply`], the desired status has
//! only the controller's own fields ([`Conditions::finish_own`](crate::conditions::Conditions::finish_own)), and
//! nothing is written if managedFields show that they are already applied.

mod compare;
mod error;
mod extract;
mod memory;
mod ownership;
mod writer;

pub use error::{BoxError, ObjectName, WriteError, WriteFailure};
pub use writer::{Counts, Fight, Outcome, StatusWriter, WriteMode};
