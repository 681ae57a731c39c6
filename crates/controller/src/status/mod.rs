//! Status writes.
//!
//! A controller decides the status as data; [`StatusWriter::write`] compares it with the observed one and writes one patch to `/status`, or nothing:
//!
//! - **Nothing that changes nothing.** Transition times of conditions whose status is the same, heartbeats, the order of conditions, and what the
//!   API server itself drops or defaults are no difference. So a controller that is woken by its own status write becomes quiet.
//! - **Guarded.** Each write carries the resourceVersion and UID that the status was decided on. After a conflict the object is read and the status
//!   decided anew, never sent again blindly; after five conflicts the write fails. An object that was recreated under the same name is
//!   never written to: [`Outcome::Gone`].
//! - **Status alone.** Spec and metadata are never written, not even where the resource has no status subresource.
//! - **Fights are noticed.** A field that the writer wrote, another manager changed, and the writer sets back is counted, logged, and reported to
//!   [`StatusWriter::on_fight`].
//! - **Failures say what to do.** [`WriteFailure`] tells apart what needs different remedies; [`WriteError::hint`] names the remedy.
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
//! # What happens when
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
//! With [`WriteMode::MergePatch`], the desired status is the whole one as its type has it: what the type does not know stays, what it knows and the
//! desired status lacks is removed. Whoever shares the status begins with the observed one, as
//! [`Conditions`](crate::conditions::Conditions) does for conditions. With [`WriteMode::Apply`], the desired status has the controller's own
//! fields alone ([`Conditions::finish_own`](crate::conditions::Conditions::finish_own)), and nothing is written if managedFields shows
//! that they are applied already.

mod compare;
mod error;
mod memory;
mod ownership;
mod writer;

pub use error::{BoxError, ObjectName, WriteError, WriteFailure};
pub use writer::{Counts, Fight, Outcome, StatusWriter, WriteMode};
