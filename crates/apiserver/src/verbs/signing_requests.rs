//! Strategies of CertificateSigningRequests (`pkg/registry/certificates/certificates` upstream): the server sets the requester,
//! the spec is immutable, and `status` and `approval` each write their own part of the status.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use settled_apimachinery::unstructured::items_at;

use crate::auth::User;
use crate::kinds::behavior::StatusUpdatePreserves;
use crate::kinds::definition::Definition;
use crate::kinds::names::{Part, SIGNING_REQUESTS, SIGNING_REQUESTS_GROUP};
use crate::object::{self, member_mut, text};
use crate::verbs::parts::only_status;

/// Where their conditions are.
const CONDITIONS: &str = "/status/conditions";

/// Is this the definition of CertificateSigningRequests?
pub(crate) fn is_signing_request(definition: &Definition) -> bool {
    (definition.group.as_str(), definition.plural.as_str()) == (SIGNING_REQUESTS_GROUP, SIGNING_REQUESTS)
}

/// `csrStrategy.PrepareForCreate`: the requester is the user of the request, whatever the client sent.
pub(crate) fn prepare_create(request: &mut Value, user: &User) {
    let spec = member_mut(request, "spec");
    for name in ["username", "uid", "groups", "extra"] {
        spec.remove(name);
    }
    let fields = [
        ("username", Value::from(user.name.as_str()), user.name.is_empty()),
        ("uid", user.uid.as_str().into(), user.uid.is_empty()),
        ("groups", json!(user.groups), user.groups.is_empty()),
        ("extra", json!(user.extra), user.extra.is_empty()),
    ];
    for (name, value, is_empty) in fields {
        if !is_empty {
            spec.insert(name.to_owned(), value);
        }
    }
}

/// `PrepareForUpdate` of the strategies of the resource and its two subresources.
pub(crate) fn prepare_update(part: Part, new: &mut Value, old: &Value, now: Timestamp) {
    match part {
        Part::Status => {
            only_status(new, old, StatusUpdatePreserves::Nothing);
            preserve_conditions(new, old, "Approved");
            preserve_conditions(new, old, "Denied");
            populate_timestamps(new, old, now);
        }
        Part::Approval => {
            populate_timestamps(new, old, now);
            let mut status = old.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
            match new.pointer(CONDITIONS) {
                Some(conditions) => status.insert("conditions".to_owned(), conditions.clone()),
                None => status.remove("conditions"),
            };
            member_mut(new, "status").clone_from(&status);
            only_status(new, old, StatusUpdatePreserves::Nothing);
        }
        _ => {
            let Some(map) = new.as_object_mut() else { return };
            for name in ["spec", "status"] {
                match old.get(name) {
                    Some(value) => map.insert(name.to_owned(), value.clone()),
                    None => map.remove(name),
                };
            }
        }
    }
}

fn conditions_mut(request: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let conditions = request.pointer_mut(CONDITIONS).and_then(Value::as_array_mut);
    conditions.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Keeps the conditions of a type as they were, unless there are more or fewer of them, which validation refuses.
fn preserve_conditions(new: &mut Value, old: &Value, kind: &str) {
    let before: Vec<&Value> =
        items_at(old, CONDITIONS).iter().filter(|condition| text(condition, "type") == kind).collect();
    let count = items_at(new, CONDITIONS).iter().filter(|condition| text(condition, "type") == kind).count();
    if count != before.len() {
        return;
    }
    let places =
        conditions_mut(new).filter(|condition| condition.get("type").is_some_and(|value| value == kind));
    for (place, before) in places.zip(before) {
        if let Some(before) = before.as_object() {
            place.clone_from(before);
        }
    }
}

/// Sets the times that a client left out: a transition is when a condition of this type and status was first written.
fn populate_timestamps(new: &mut Value, old: &Value, now: Timestamp) {
    let is_zero = |condition: &Map<String, Value>, name: &str| condition.get(name).is_none_or(Value::is_null);
    for condition in conditions_mut(new) {
        if is_zero(condition, "lastUpdateTime") {
            condition.insert("lastUpdateTime".to_owned(), object::time(now));
        }
        if is_zero(condition, "lastTransitionTime") {
            let same = |other: &&Value| {
                ["type", "status"].iter().all(|name| other.get(name) == condition.get(*name))
                    && other.get("lastTransitionTime").is_some_and(|time| !time.is_null())
            };
            let before =
                items_at(old, CONDITIONS).iter().find(same).and_then(|other| other.get("lastTransitionTime"));
            let time = before.cloned().unwrap_or_else(|| object::time(now));
            condition.insert("lastTransitionTime".to_owned(), time);
        }
    }
}
