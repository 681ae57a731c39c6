//! Pod subresources: binding and eviction (`pkg/registry/core/pod` upstream).

use jiff::Timestamp;
use serde_json::{Value, json};
use settled_apimachinery::labels::{LabelSelector, Labels as _};
use settled_apimachinery::unstructured::{integer_at, string_at};
use settled_store::{Write, WriteError};

use crate::error::{ApiError, Cause, GroupResource, write_failed};
use crate::kinds::definition::Definition;
use crate::kinds::index;
use crate::kinds::names::Part;
use crate::object::{self, is_terminating, member_mut, meta, metadata_mut, text};
use crate::options::{DeleteOptions, WriteOptions};
use crate::request::Query;
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::verbs::change::Change;
use crate::verbs::{delete, update};

/// How often a write is tried again after a conflict.
const MAX_ATTEMPTS: usize = 100;
/// How many evictions a budget takes before its controller has confirmed them.
const MAX_DISRUPTED: usize = 2000;
/// What pods get to know of the place of their node.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The answer to a subresource that has done its work.
fn done() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// Sets a condition of a pod. The time changes with the status only.
fn set_condition(pod: &mut Value, kind: &str, reason: &str, message: &str, now: Timestamp) {
    let conditions = member_mut(pod, "status").entry("conditions").or_insert_with(|| json!([]));
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    let at = list.iter().position(|condition| text(condition, "type") == kind);
    let mut condition = json!({
        "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": object::time(now),
    });
    for (field, value) in [("reason", reason), ("message", message)] {
        if !value.is_empty() {
            condition[field] = value.into();
        }
    }
    match at.and_then(|at| list.get_mut(at)) {
        Some(before) => {
            if text(before, "status") == "True" {
                condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
            }
            *before = condition;
        }
        None => list.push(condition),
    }
}

/// The answer to a subresource that acts instead of writing an object; nothing for the others.
pub(crate) async fn act(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    subresource: &str,
    body: &Value,
    options: &WriteOptions,
) -> Option<Result<Value, ApiError>> {
    let definition = target.definition;
    if !definition.names.group.is_empty() {
        return None;
    }
    match (definition.names.plural.as_str(), subresource) {
        ("pods", "binding") => {
            if meta(body, "name") != target.name {
                return Some(Err(ApiError::bad_request("name in URL does not match name in Binding object")));
            }
            let catalog = state.catalog();
            let nodes = catalog.find("", "v1", "nodes")?;
            let place = topology(state, nodes, string_at(body, "/target/name"));
            Some(bind(state, call, target, body, &place, options).await)
        }
        ("bindings", "") => {
            let catalog = state.catalog();
            let pods = catalog.find("", "v1", "pods")?;
            let target = Target { definition: pods, namespace: target.namespace, name: meta(body, "name") };
            // As upstream: only the other way knows of places.
            Some(bind(state, call, &target, body, &[], options).await)
        }
        ("pods", "eviction") => Some(evict(state, call, target, body, options).await),
        ("serviceaccounts", "token") => {
            let message =
                "this server does not issue tokens of ServiceAccounts; use its certificates or static tokens";
            Some(Err(ApiError::new(501, "", message)))
        }
        _ => None,
    }
}

/// Changes an object as it is stored, without a strategy.
async fn rewrite(
    state: &State,
    target: &Target<'_>,
    dry_run: bool,
    change: impl Fn(&mut Value) -> Result<(), ApiError>,
) -> Result<Value, ApiError> {
    for _ in 0..MAX_ATTEMPTS {
        let entry = state.get(target)?;
        let mut object = target.definition.read(&entry);
        change(&mut object)?;
        if dry_run {
            return Ok(object);
        }
        let write = Write::update(entry.key().clone(), entry.mod_revision(), object::encode(&object));
        match state.store.write(write).await {
            Ok(event) => {
                object::set_resource_version(&mut object, event.revision().0);
                return Ok(object);
            }
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(write_failed(&error)),
        }
    }
    Err(target.modified())
}

async fn bind(
    state: &State,
    call: &Call<'_>,
    target: &Target<'_>,
    binding: &Value,
    place: &[(String, Value)],
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let (kind, node) = (string_at(binding, "/target/kind"), string_at(binding, "/target/name"));
    let wrong = |message: String| Err(ApiError::new(500, "", message));
    if !matches!(kind, "" | "Node") {
        return wrong(format!(
            "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
        ));
    }
    if node.is_empty() {
        return wrong("target.name: Required value".to_owned());
    }
    let about = GroupResource { group: "", resource: "pods/binding" };
    let name = target.name;
    rewrite(state, target, options.dry_run, |pod| {
        let refuse = |why: String| Err(ApiError::conflict(about, name, &why));
        for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (wanted, is) = (meta(binding, field), meta(pod, field));
            if !wanted.is_empty() && wanted != is {
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, ResourceVersion: 0, \
                     AdditionalErrorMsg: Precondition failed: {word} in precondition: {wanted}, {word} in object \
                     meta: {is}",
                    target.namespace
                );
                return Err(ApiError::conflict(target.definition.group_resource(), name, &why));
            }
        }
        if is_terminating(pod) {
            return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let assigned = string_at(pod, "/spec/nodeName");
        if !assigned.is_empty() {
            return refuse(format!("pod {name} is already assigned to node {assigned:?}"));
        }
        if pod.pointer("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
            return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        member_mut(pod, "spec").insert("nodeName".to_owned(), node.into());
        member_mut(pod, "status").remove("nominatedNodeName");
        for field in ["annotations", "labels"] {
            let mut more = object::metadata(binding).and_then(|metadata| metadata.get(field)).cloned();
            if field == "labels" && !place.is_empty() {
                let labels = more.get_or_insert_with(|| json!({}));
                for (label, value) in place {
                    labels[label.as_str()] = value.clone();
                }
            }
            if let Some(more) = more.as_ref().and_then(Value::as_object).filter(|more| !more.is_empty()) {
                let map = metadata_mut(pod).entry(field).or_insert_with(|| json!({}));
                for (name, value) in more {
                    map[name.as_str()] = value.clone();
                }
            }
        }
        set_condition(pod, "PodScheduled", "", "", call.now);
        Ok(())
    })
    .await?;
    Ok(done())
}

/// The labels of a node that say where it is.
fn topology(state: &State, nodes: &Definition, node: &str) -> Vec<(String, Value)> {
    let key = settled_store::Key::new(&nodes.resource, "", node);
    let Some(entry) = key.ok().and_then(|key| state.store.get(&key)) else { return Vec::new() };
    let labels = &index::of(nodes, &entry).selector;
    TOPOLOGY.iter().filter_map(|label| Some(((*label).to_owned(), labels.label(label)?.into()))).collect()
}

async fn evict(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    eviction: &Value,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    if meta(eviction, "name") != target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut delete = match eviction.get("deleteOptions") {
        Some(given) if given.is_object() => {
            let mut given = given.clone();
            given["kind"] = "DeleteOptions".into();
            DeleteOptions::parse(Some(&given), &Query::default())?
        }
        _ => DeleteOptions::default(),
    };
    delete.dry_run |= options.dry_run;
    let pinned = delete.resource_version.is_some();
    for _ in 0..MAX_ATTEMPTS {
        let pod = target.definition.read(&*state.get(target)?);
        let phase = string_at(&pod, "/status/phase");
        let over = matches!(phase, "Succeeded" | "Failed") || is_terminating(&pod);
        let same_pod = delete.uid.as_deref().is_none_or(|uid| uid.is_empty() || uid == meta(&pod, "uid"));
        let mut delete = delete.clone();
        let mut guarded = None;
        if over || phase == "Pending" {
            // It serves nobody. One that may begin to must still be the same.
            if !over && !pinned {
                delete.resource_version = Some(meta(&pod, "resourceVersion").to_owned());
            }
        } else if let Some(budget) = ask_budget(state, call, target, &pod, delete.dry_run).await? {
            if !pinned {
                delete.resource_version = Some(meta(&pod, "resourceVersion").to_owned());
            }
            guarded = Some(budget);
        }
        match delete_evicted(state, call, target, delete).await {
            Ok(()) => return Ok(done()),
            Err(error) if error.code == 409 && !pinned && same_pod => {
                if let Some(budget) = guarded {
                    return Err(busy(&budget));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(target.modified())
}

async fn delete_evicted(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    mut options: DeleteOptions,
) -> Result<(), ApiError> {
    if !options.dry_run {
        let now = call.now;
        let (uid, revision) = (options.uid.clone(), options.resource_version.clone());
        let about = GroupResource { group: "", resource: "Pod" };
        let pod = rewrite(state, target, false, |pod| {
            let preconditions = [
                (&uid, "uid", "UID", "deleted and then recreated"),
                (&revision, "resourceVersion", "ResourceVersion", "modified"),
            ];
            for (wanted, field, word, what) in preconditions {
                let is = meta(pod, field);
                if let Some(wanted) = wanted.as_deref().filter(|wanted| !wanted.is_empty() && *wanted != is) {
                    let why = format!(
                        "the {word} in the precondition ({wanted}) does not match the {word} in record ({is}). \
                         The object might have been {what}"
                    );
                    return Err(ApiError::conflict(about, target.name, &why));
                }
            }
            set_condition(pod, "DisruptionTarget", "EvictionByEvictionAPI", "Eviction API: evicting", now);
            Ok(())
        })
        .await?;
        if options.resource_version.is_some() {
            options.resource_version = Some(meta(&pod, "resourceVersion").to_owned());
        }
    }
    delete::delete(state, call, target, &options).await?;
    Ok(())
}

/// Asks the budget of a pod for one disruption. The name of the budget: the pod does not count for it as long as it is as it is.
async fn ask_budget(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    pod: &Value,
    dry_run: bool,
) -> Result<Option<String>, ApiError> {
    let budgets = state.stored("policy", "poddisruptionbudgets", target.namespace);
    let selects = |budget: &Value| {
        let selector = budget.pointer("/spec/selector");
        selector.is_some_and(|selector| {
            LabelSelector::from_object(selector).is_ok_and(|selector| selector.matches(pod))
        })
    };
    let mut budgets = budgets.iter().filter(|(_, budget)| selects(budget));
    let Some((entry, budget)) = budgets.next() else { return Ok(None) };
    if budgets.next().is_some() {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(ApiError::new(500, "", message));
    }
    let name = entry.key().name().to_owned();
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| text(condition, "type") == "Ready" && text(condition, "status") == "True");
    if !ready {
        let (healthy, desired) =
            (integer_at(budget, "/status/currentHealthy"), integer_at(budget, "/status/desiredHealthy"));
        if string_at(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow"
            || (healthy >= desired && desired > 0)
        {
            return Ok(Some(name));
        }
    }
    let catalog = state.catalog();
    let definition = catalog
        .find("policy", "v1", "poddisruptionbudgets")
        .ok_or_else(|| ApiError::internal("budgets are not served"))?;
    let budget = Target { definition, namespace: target.namespace, name: &name };
    let now = call.now;
    let take = |old: &Value| take_one(old, target.name, now);
    let options = WriteOptions { dry_run, ..WriteOptions::internal() };
    update::update(state, call, &budget, Part::Status, Change::With(&take), &options).await?;
    Ok(None)
}

/// Nobody knows yet how many disruptions are allowed.
fn busy(budget: &str) -> ApiError {
    let message = format!("The disruption budget {budget} is still being processed by the server.");
    too_many(message).retry_after(10)
}

fn too_many(why: String) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::new(429, "TooManyRequests", message).because([Cause::new("DisruptionBudget", why, "")])
}

/// The budget with one disruption less, if there is one.
fn take_one(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, ApiError> {
    let name = meta(budget, "name");
    let status = |field: &str| integer_at(budget, &format!("/status/{field}"));
    if status("observedGeneration") < integer_at(budget, "/metadata/generation") {
        return Err(busy(name));
    }
    let about = GroupResource { group: "policy", resource: "poddisruptionbudget" };
    let allowed = status("disruptionsAllowed");
    if allowed < 0 {
        return Err(ApiError::forbidden(about, name, "pdb disruptions allowed is negative"));
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(ApiError::forbidden(about, name, why));
    }
    if allowed == 0 {
        let conditions = budget.pointer("/status/conditions").and_then(Value::as_array);
        let condition = conditions.into_iter().flatten().find(|condition| {
            text(condition, "type") == "DisruptionAllowed"
                && text(condition, "status") == "False"
                && !text(condition, "message").is_empty()
        });
        let (healthy, desired) = (status("currentHealthy"), status("desiredHealthy"));
        let begin = format!("The disruption budget {name} does not allow evicting pods currently");
        let why = match condition {
            Some(condition) if text(condition, "reason") == "SyncFailed" => {
                format!("{begin} because it failed sync: {}", text(condition, "message"))
            }
            _ if healthy <= desired => {
                format!(
                    "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
                )
            }
            Some(condition) => {
                format!("{begin} ({}): {}", text(condition, "reason"), text(condition, "message"))
            }
            None => begin,
        };
        return Err(too_many(why));
    }
    let mut new = budget.clone();
    new["status"]["disruptionsAllowed"] = (allowed - 1).into();
    new["status"]["disruptedPods"][pod] = object::time(now);
    if allowed == 1 {
        let conditions = member_mut(&mut new, "status").entry("conditions").or_insert_with(|| json!([]));
        let found = conditions
            .as_array_mut()
            .into_iter()
            .flatten()
            .find(|condition| text(condition, "type") == "DisruptionAllowed");
        if let Some(condition) = found {
            condition["status"] = "False".into();
            condition["reason"] = "InsufficientPods".into();
            condition["observedGeneration"] = status("observedGeneration").into();
            condition["lastTransitionTime"] = object::time(now);
        }
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_says_why_not() {
        let budget = |status: Value| json!({"metadata": {"name": "b", "generation": 2}, "status": status});
        let now = Timestamp::UNIX_EPOCH;
        let refused = |status: Value| {
            let error = take_one(&budget(status), "web", now).unwrap_err();
            (error.code, error.details["causes"][0]["message"].as_str().unwrap_or_default().to_owned())
        };
        assert_eq!(
            refused(json!({"observedGeneration": 1, "disruptionsAllowed": 1})),
            (429, "The disruption budget b is still being processed by the server.".to_owned())
        );
        assert_eq!(
            refused(
                json!({"observedGeneration": 2, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2})
            ),
            (429, "The disruption budget b needs 2 healthy pods and has 2 currently".to_owned())
        );
        let taken =
            take_one(&budget(json!({"observedGeneration": 2, "disruptionsAllowed": 1})), "web", now).unwrap();
        assert_eq!(taken["status"]["disruptionsAllowed"], 0);
        assert_eq!(taken["status"]["disruptedPods"]["web"], "1970-01-01T00:00:00Z");
    }
}
