//! Admission of Pods: ServiceAccount, priority, tolerations, overhead (`plugin/pkg/admission` upstream).

use std::time::Duration;

use serde_json::{Value, json};
use settled_apimachinery::unstructured::{items_at, string_at};
use settled_store::{Key, Scope};

use super::limits;
use crate::error::ApiError;
use crate::kinds::names::stored_as;
use crate::object::{member_mut, meta, text};
use crate::state::State;
use crate::state::call::Target;

/// The ServiceAccount of pods that name none.
const ACCOUNT: &str = "default";
/// How long to wait for it in a new namespace.
const ACCOUNT_WAIT: Duration = Duration::from_secs(1);
/// Such pods are copies of what runs on a node anyway.
const MIRROR: &str = "/metadata/annotations/kubernetes.io~1config.mirror";

pub(super) async fn mutate(
    state: &State,
    target: &Target<'_>,
    pod: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if let Some(old) = old {
        // What was decided when it was created stays.
        for field in ["priority", "preemptionPolicy"] {
            if let Some(value) = old.pointer(&format!("/spec/{field}"))
                && pod.pointer(&format!("/spec/{field}")).is_none()
            {
                member_mut(pod, "spec").insert(field.to_owned(), value.clone());
            }
        }
        tolerate(pod);
        return Ok(());
    }
    limits::default_limits(state, target, pod);
    set_account(state, target, pod).await?;
    set_priority(state, target, pod)?;
    tolerate(pod);
    set_overhead(state, target, pod)
}

async fn set_account(state: &State, target: &Target<'_>, pod: &mut Value) -> Result<(), ApiError> {
    if pod.pointer(MIRROR).is_some() {
        return match string_at(pod, "/spec/serviceAccountName") {
            "" => Ok(()),
            _ => Err(target.forbidden(pod, "a mirror pod may not reference service accounts")),
        };
    }
    let spec = member_mut(pod, "spec");
    let mut name = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default().to_owned();
    if name.is_empty() && !state.admission.requires_accounts() {
        // Nobody makes the account that would be named.
        return Ok(());
    }
    if name.is_empty() {
        ACCOUNT.clone_into(&mut name);
        spec.insert("serviceAccountName".to_owned(), ACCOUNT.into());
    }
    // The older name of the same field.
    spec.insert("serviceAccount".to_owned(), name.clone().into());
    let Some(account) = account(state, target.namespace, &name).await else {
        if !state.admission.requires_accounts() {
            return Ok(());
        }
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            target.namespace
        );
        return Err(target.forbidden(pod, &why));
    };
    let secrets =
        account.get("imagePullSecrets").filter(|_| items_at(pod, "/spec/imagePullSecrets").is_empty());
    if let Some(secrets) = secrets.filter(|secrets| secrets.as_array().is_some_and(|list| !list.is_empty())) {
        member_mut(pod, "spec").insert("imagePullSecrets".to_owned(), secrets.clone());
    }
    Ok(())
}

/// A ServiceAccount. That of a new namespace may be on its way.
async fn account(state: &State, namespace: &str, name: &str) -> Option<Value> {
    let resource = stored_as("", "serviceaccounts").ok()?;
    let key = Key::new(&resource, namespace, name).ok()?;
    let parse = |entry: &settled_store::Entry| serde_json::from_slice(entry.value()).ok();
    if let Some(entry) = state.store.get(&key) {
        return parse(&entry);
    }
    if name != ACCOUNT || !state.admission.requires_accounts() {
        return None;
    }
    let scope = Scope::Object { namespace: namespace.to_owned(), name: name.to_owned() };
    let (snapshot, mut watch) = state.store.snapshot_and_watch(&resource, &scope).ok()?;
    if let Some(entry) = snapshot.get(namespace, name) {
        return parse(entry);
    }
    let event = tokio::time::timeout(ACCOUNT_WAIT, watch.recv()).await.ok()?.ok()?;
    parse(event.entry()?)
}

fn set_priority(state: &State, target: &Target<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let name = string_at(pod, "/spec/priorityClassName").to_owned();
    let classes = state.stored("scheduling.k8s.io", "priorityclasses", "");
    let mut classes = classes.iter().map(|(_, class)| class);
    let class = if name.is_empty() {
        // If several are the default, the least of them.
        classes
            .filter(|class| class["globalDefault"] == true)
            .min_by_key(|class| class["value"].as_i64().unwrap_or_default())
    } else {
        let found = classes.find(|class| meta(class, "name") == name);
        if found.is_none() {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(target.forbidden(pod, &why));
        }
        found
    };
    let priority = class.map_or(0, |class| class["value"].as_i64().unwrap_or_default());
    let policy = class.map_or("PreemptLowerPriority", |class| match text(class, "preemptionPolicy") {
        "" => "PreemptLowerPriority",
        policy => policy,
    });
    if let Some(given) =
        pod.pointer("/spec/priority").and_then(Value::as_i64).filter(|given| *given != priority)
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        );
        return Err(target.forbidden(pod, &why));
    }
    let given = string_at(pod, "/spec/preemptionPolicy");
    if !given.is_empty() && given != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(target.forbidden(pod, &why));
    }
    let spec = member_mut(pod, "spec");
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), meta(class, "name").into());
    }
    spec.insert("priority".to_owned(), priority.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

/// Only one class can be the default.
pub(super) fn check_priority_class(state: &State, target: &Target<'_>, new: &Value) -> Result<(), ApiError> {
    if new["globalDefault"] != true {
        return Ok(());
    }
    let classes = state.stored("scheduling.k8s.io", "priorityclasses", "");
    let name = meta(new, "name");
    let other =
        classes.iter().find(|(entry, class)| class["globalDefault"] == true && entry.key().name() != name);
    let Some((entry, _)) = other else { return Ok(()) };
    let other = entry.key().name();
    let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
    Err(target.forbidden(new, &why))
}

fn set_overhead(state: &State, target: &Target<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let name = string_at(pod, "/spec/runtimeClassName").to_owned();
    let class = if name.is_empty() {
        None
    } else {
        let classes = state.stored("node.k8s.io", "runtimeclasses", "");
        let class = classes.into_iter().find(|(entry, _)| entry.key().name() == name);
        if class.is_none() {
            let why = format!("pod rejected: RuntimeClass {name:?} not found");
            return Err(target.forbidden(pod, &why));
        }
        class.map(|(_, class)| class)
    };
    let fixed = class.as_ref().and_then(|class| class.pointer("/overhead/podFixed"));
    match (fixed, pod.pointer("/spec/overhead")) {
        (None, Some(given)) if given.as_object().is_some_and(|map| !map.is_empty()) => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(target.forbidden(pod, why));
        }
        (Some(fixed), Some(given)) if given != fixed => {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(target.forbidden(pod, why));
        }
        (Some(fixed), _) => {
            member_mut(pod, "spec").insert("overhead".to_owned(), fixed.clone());
        }
        _ => {}
    }
    let Some(scheduling) = class.as_ref().and_then(|class| class.get("scheduling")) else {
        return Ok(());
    };
    let spec = member_mut(pod, "spec");
    if let Some(wanted) = scheduling.get("nodeSelector").and_then(Value::as_object) {
        let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        for (label, value) in wanted {
            if selector.get(label).is_some_and(|given| given != value) {
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{label}] and pod.spec.nodeSelector"
                );
                return Err(target.forbidden(pod, &why));
            }
            selector[label.as_str()] = value.clone();
        }
    }
    let spec = member_mut(pod, "spec");
    if let Some(more) = scheduling.get("tolerations").and_then(Value::as_array) {
        let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
        if let Some(list) = tolerations.as_array_mut() {
            list.extend(
                more.iter().filter(|toleration| !list.contains(toleration)).cloned().collect::<Vec<_>>(),
            );
        }
    }
    Ok(())
}

/// Pods stay for five minutes on a node that is lost, unless they say something else.
fn tolerate(pod: &mut Value) {
    let spec = member_mut(pod, "spec");
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(list) = tolerations.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            ["", key].contains(&text(toleration, "key"))
                && matches!(text(toleration, "effect"), "" | "NoExecute")
        };
        if !list.iter().any(covers) {
            list.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}
