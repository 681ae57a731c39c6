//! Strategies: preparation of creates and updates for each kind (`PrepareForCreate` and `PrepareForUpdate` upstream).

use serde_json::{Value, json};

use crate::auth::User;
use crate::kinds::definition::Definition;
use crate::kinds::names::{Part, SIGNING_REQUESTS, SIGNING_REQUESTS_GROUP};
use crate::kinds::{builtin, crd};
use crate::object::{self, member_mut, metadata_mut};
use crate::verbs::parts::{self, only_status, same_but_metadata};
use crate::verbs::signing_requests;

/// Before an object is created: the status is not the client's to say, and the count of changes begins.
pub(crate) fn prepare_create(definition: &Definition, object: &mut Value, user: &User) {
    if definition.has_status()
        && let Some(map) = object.as_object_mut()
    {
        // A Node comes with what its kubelet knows.
        if (definition.group.as_str(), definition.plural.as_str()) != ("", "nodes") {
            map.remove("status");
        }
    }
    if definition.model.behavior().generation {
        metadata_mut(object).insert("generation".to_owned(), 1.into());
    }
    match (definition.group.as_str(), definition.plural.as_str()) {
        ("", "namespaces") => {
            if let Some(map) = object.as_object_mut() {
                map.insert("status".to_owned(), json!({"phase": "Active"}));
            }
            let finalizers = member_mut(object, "spec").entry("finalizers").or_insert_with(|| json!([]));
            if let Some(list) = finalizers.as_array_mut()
                && !list.iter().any(|name| name == "kubernetes")
            {
                list.push("kubernetes".into());
            }
        }
        ("apiextensions.k8s.io", _) => crd::remember_stored_version(object),
        (SIGNING_REQUESTS_GROUP, SIGNING_REQUESTS) => signing_requests::prepare_create(object, user),
        _ => {}
    }
}

/// Before an object is changed: each part of a request may touch its own part of the object only.
pub(crate) fn prepare_update(
    definition: &Definition,
    part: Part,
    new: &mut Value,
    old: &Value,
    now: jiff::Timestamp,
) {
    let behavior = definition.model.behavior();
    let generation = object::metadata(old).and_then(|metadata| metadata.get("generation")).cloned();
    match part {
        _ if signing_requests::is_signing_request(definition) => {
            signing_requests::prepare_update(part, new, old, now);
        }
        Part::Status => {
            only_status(new, old, behavior.status_update_preserves);
            if (definition.group.as_str(), definition.plural.as_str()) == ("", "pods") {
                pair_addresses(new);
                keep_status(new, old);
            }
            if (definition.group.as_str(), definition.plural.as_str()) == ("", "persistentvolumes") {
                note_transition(new, old);
            }
        }
        Part::Finalize => {
            let finalizers = new.pointer("/spec/finalizers").cloned();
            let metadata = new.get("metadata").cloned();
            *new = old.clone();
            let spec = member_mut(new, "spec");
            match finalizers {
                Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers),
                None => spec.remove("finalizers"),
            };
            if let (Some(map), Some(metadata)) = (new.as_object_mut(), metadata) {
                map.insert("metadata".to_owned(), metadata);
            }
        }
        Part::Ephemeral | Part::Resize => parts::only_part(part, new, old),
        Part::Main | Part::Scale | Part::Approval => {
            if definition.has_status()
                && let Some(map) = new.as_object_mut()
            {
                match old.get("status") {
                    Some(status) => map.insert("status".to_owned(), status.clone()),
                    None => map.remove("status"),
                };
            }
            if (definition.group.as_str(), definition.plural.as_str()) == ("", "namespaces") {
                let finalizers = old.pointer("/spec/finalizers").cloned();
                let spec = member_mut(new, "spec");
                match finalizers {
                    Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers),
                    None => spec.remove("finalizers"),
                };
            }
        }
    }
    if part == Part::Main && crd::is_crd(definition) {
        crd::remember_stored_version(new);
    }
    if (definition.group.as_str(), definition.plural.as_str()) == ("apps", "daemonsets") {
        let template = |object: &Value| object.pointer("/spec/template").cloned();
        let changed = i64::from(template(new) != template(old));
        let mut before = 0;
        builtin::count_templates(&mut old.clone(), |count| {
            before = count;
            count
        });
        builtin::count_templates(new, |_| before + changed);
    }
    // Never the client's to say.
    let metadata = metadata_mut(new);
    match &generation {
        Some(generation) => metadata.insert("generation".to_owned(), generation.clone()),
        None => metadata.remove("generation"),
    };
    // Deployments pass their annotations on.
    let copied = (definition.group.as_str(), definition.plural.as_str()) == ("apps", "deployments");
    let annotations =
        |object| object::metadata(object).and_then(|metadata| metadata.get("annotations")).cloned();
    if part != Part::Status
        && behavior.generation
        && (!same_but_metadata(new, old, definition.has_status())
            || copied && annotations(new) != annotations(old))
    {
        let next = generation.as_ref().and_then(Value::as_i64).unwrap_or_default() + 1;
        metadata_mut(new).insert("generation".to_owned(), next.into());
    }
}

/// When the phase of a volume has changed, unless the client says when.
fn note_transition(volume: &mut Value, old: &Value) {
    let status = |object: &Value, name: &str| object.pointer(&format!("/status/{name}")).cloned();
    let time = |object: &Value| status(object, "lastPhaseTransitionTime").filter(|time| !time.is_null());
    let noted = match (status(volume, "phase") == status(old, "phase"), time(volume)) {
        (true, None) => time(old),
        (false, given) if given.is_none() || given == time(old) => Some(object::time(jiff::Timestamp::now())),
        _ => return,
    };
    if let Some(noted) = noted {
        member_mut(volume, "status").insert("lastPhaseTransitionTime".to_owned(), noted);
    }
}

/// What a write to a Pod's status can't take away: how it is treated when a node runs short, and which generation was seen.
fn keep_status(pod: &mut Value, old: &Value) {
    const SEEN: &str = "observedGeneration";
    let is_zero =
        |value: Option<&Value>| value.is_none_or(|value| value.is_null() || *value == 0 || *value == "");
    let keep = |fields: &mut serde_json::Map<String, Value>, name: &str, before: Option<&Value>| {
        if let Some(before) = before.filter(|_| is_zero(fields.get(name))) {
            fields.insert(name.to_owned(), before.clone());
        }
    };
    let before = |pointer: &str| old.pointer(pointer);
    let status = member_mut(pod, "status");
    for name in ["qosClass", SEEN] {
        keep(status, name, before(&format!("/status/{name}")));
    }
    // There may be several of a type: each has the place of the one before.
    let mut known: Vec<&Value> =
        before("/status/conditions").and_then(Value::as_array).into_iter().flatten().collect();
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(at) = known.iter().position(|other| other.get("type") == condition.get("type")) else {
            continue;
        };
        let seen = known.remove(at).get(SEEN).filter(|seen| !is_zero(Some(seen)));
        if let Some(fields) = condition.as_object_mut() {
            keep(fields, SEEN, seen);
        }
    }
}

/// `podIP` is the first of `podIPs`, whichever a client writes, and it counts where they differ
/// (`pkg/apis/core/v1/conversion.go`).
fn pair_addresses(pod: &mut Value) {
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
    let first = status.get("podIPs").and_then(|list| list.pointer("/0/ip")).cloned();
    let one =
        status.get("podIP").filter(|address| address.as_str().is_some_and(|text| !text.is_empty())).cloned();
    match (one, first) {
        (Some(one), first) if first.as_ref() != Some(&one) => {
            status.insert("podIPs".to_owned(), json!([{"ip": one}]));
        }
        (None, Some(first)) => {
            status.insert("podIP".to_owned(), first);
        }
        _ => {}
    }
}

/// After everything was found valid.
pub(crate) fn canonicalize(definition: &Definition, object: &mut Value) {
    if (definition.group.as_str(), definition.plural.as_str()) == ("", "namespaces") {
        let name = Value::from(object::meta(object, "name"));
        let metadata = metadata_mut(object);
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        labels["kubernetes.io/metadata.name"] = name;
    }
}

/// May a terminating object without finalizers go? A namespace must also have lost those of its spec.
pub(crate) fn may_vanish(definition: &Definition, object: &Value) -> bool {
    (definition.group.as_str(), definition.plural.as_str()) != ("", "namespaces")
        || object.pointer("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
}
