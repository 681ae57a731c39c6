//! Edits: writes of users and other clients while the controller runs.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use settled_apiserver::Server;

use crate::checks::{Check, Violation};
use crate::cluster::{ObjectKey, text, uid};
use crate::control::{Control, Writer};
use crate::kinds::{Kinds, locate};
use crate::request::{self, Target};
use crate::scenario::{Edit, Reference};
use crate::schedule::Place;
use crate::trace::Actor;
use crate::world::World;

/// The annotation by which other clients touch objects.
pub(crate) const TOUCHED: &str = "faults.settled.dev/touched";
const JSON: &str = "application/json";
/// In the message of a server that cannot read the result of a patch (`applyPatchToObject` upstream).
const UNREADABLE: &str = " is invalid: patch: Invalid value";
/// Interval and maximum number of attempts of users to create an object that is still being deleted.
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRIES: usize = 60;

/// Creates an object.
///
/// # Errors
/// The error of the server.
pub(crate) async fn create(server: &Server, kinds: &Kinds, object: &Value) -> Result<(), String> {
    let reference = Reference::to(object);
    let Some((key, version)) = locate(server, kinds, &reference).await else {
        return Err(format!("the server has no kind {} of {}", reference.kind, reference.api_version));
    };
    let collection = ObjectKey { name: String::new(), ..key };
    let path = request::path(&collection, &version, "");
    result(request::send(server, Method::POST, &path, JSON, Some(object)).await)
}

/// Writes the status of an object of the scenario, if it has one.
///
/// # Errors
/// The error of the server.
pub(crate) async fn write_status(server: &Server, kinds: &Kinds, object: &Value) -> Result<(), String> {
    let reference = Reference::to(object);
    let Some(status) = object.get("status") else { return Ok(()) };
    let Some((key, version)) = locate(server, kinds, &reference).await else { return Ok(()) };
    let patch = json!({"status": status});
    result(request::patch(server, &request::path(&key, &version, "status"), &patch).await)
}

fn result((status, body): (StatusCode, Value)) -> Result<(), String> {
    if status.is_success() { Ok(()) } else { Err(format!("{} {}", status.as_u16(), text(&body, "/message"))) }
}

/// Makes the next edit of the scenario. Returns false if there is none.
pub(crate) async fn perform_next<W: World>(control: &Arc<Control<W>>) -> bool {
    let next = {
        let mut inner = control.inner();
        let next = control.scenario.edits.get(inner.edits_done);
        inner.edits_done += usize::from(next.is_some());
        next
    };
    let Some(edit) = next else { return false };
    control.observe(Writer::Other(Actor::Server));
    // The edit stands before what it causes.
    control.note(Actor::User, None, || edit.to_string());
    if let Err(error) = perform(control, edit).await {
        control.note(Actor::User, None, || format!("is refused: {error}"));
        // Such an edit changes nothing under any schedule, and the run would prove nothing.
        if error.starts_with("400 ") || error.contains(UNREADABLE) {
            control.violate(Violation::new(Check::Edit, format!("{edit}: {error}")));
        }
        if let Edit::Create(object) = edit
            && error.contains("object is being deleted")
        {
            tokio::spawn(create_later(control.clone(), object.clone()));
        }
    }
    control.observe(Writer::Other(Actor::User));
    let revision = control.server.revision();
    control.inner().edited.push(revision);
    true
}

/// Creates an object as soon as its predecessor is deleted.
async fn create_later<W: World>(control: Arc<Control<W>>, object: Value) {
    for _ in 0..MAX_RETRIES {
        tokio::time::sleep(RETRY).await;
        control.observe(Writer::Other(Actor::Server));
        if create(&control.server, &control.kinds, &object).await.is_ok() {
            control.note(Actor::User, None, || format!("create {}", Reference::to(&object)));
            control.observe(Writer::Other(Actor::User));
            return;
        }
    }
}

async fn perform<W: World>(control: &Control<W>, edit: &Edit<W>) -> Result<(), String> {
    let (server, kinds) = (&control.server, &*control.kinds);
    let missing = |object: &Reference| format!("the server has no kind {}", object.kind);
    match edit {
        Edit::Create(object) => create(server, kinds, object).await,
        Edit::Patch { object, subresource, patch } => {
            let (key, version) = locate(server, kinds, object).await.ok_or_else(|| missing(object))?;
            result(request::patch(server, &request::path(&key, &version, subresource), patch).await)
        }
        Edit::Delete(object) => {
            let (key, version) = locate(server, kinds, object).await.ok_or_else(|| missing(object))?;
            let path = request::path(&key, &version, "");
            result(request::send(server, Method::DELETE, &path, JSON, None).await)
        }
        Edit::World { change, .. } => {
            control.change_world(false, |world| change(world));
            Ok(())
        }
    }
}

/// Writes the object of a controller's write as another client. This write must survive.
pub(crate) async fn touch<W: World>(control: &Control<W>, target: &Target, write: Place) {
    if target.object.name.is_empty() {
        return;
    }
    let value = format!("before-{write}");
    let path = request::path(&target.object, &target.version, "");
    let patch = json!({"metadata": {"annotations": {TOUCHED: value}}});
    let (status, object) = request::patch(&control.server, &path, &patch).await;
    control.observe(Writer::Other(Actor::Other));
    if status.is_success() {
        control.note(Actor::Other, None, || format!("annotates {}", target.object));
        control.inner().touched.insert(target.object.clone(), (uid(&object).to_owned(), value));
    }
}
