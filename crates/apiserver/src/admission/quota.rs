//! ResourceQuota: usage of objects, and charging it to quotas (`pkg/quota/v1`, `plugin/resourcequota` upstream).
//!
//! A write is charged before it is made: `status.used` is raised by compare-and-swap. Two writes can't both take what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::unstructured::{items_at, string_at};
use settled_store::{At, Entry, Scope, Write, WriteError};

use super::limits::{Amounts, add, amounts, of_pod};
use crate::error::{ApiError, write_failed};
use crate::kinds::definition::Definition;
use crate::kinds::names::{Part, stored_as};
use crate::object::{self, member_mut, meta, text};
use crate::state::State;
use crate::state::admission::Admission;
use crate::state::call::Target;

/// How often a charge is tried again because the quota changed meanwhile.
const MAX_ATTEMPTS: usize = 100;
/// What is counted under its own name besides `count/…`.
const COUNTED: [&str; 5] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets", "services"];
/// Whoever limits these must be told by pods how much they want.
const REQUIRED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// A write that quotas have been charged for.
pub(crate) struct Charge<'a> {
    admission: &'a Admission,
    namespace: String,
    /// What was charged to which quota.
    charged: Vec<(String, Amounts)>,
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        let mut charging = self.admission.charging();
        if let Some(count) = charging.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                charging.remove(&self.namespace);
            }
        }
        drop(charging);
        self.admission.charged.notify_waiters();
    }
}

/// `count/deployments.apps`.
fn count_name(definition: &Definition) -> String {
    format!("count/{}", definition.group_resource())
}

fn is_core(definition: &Definition, plural: &str) -> bool {
    definition.group.is_empty() && definition.plural == plural
}

/// What an object uses.
pub(crate) fn usage(definition: &Definition, object: &Value, now: jiff::Timestamp) -> Amounts {
    let one = || Quantity::from(1);
    let mut used = Amounts::from([(count_name(definition), one())]);
    if !definition.group.is_empty() {
        return used;
    }
    match definition.plural.as_str() {
        "pods" if is_running(object, now) => {
            used.insert("pods".to_owned(), one());
            used.extend(compute(&of_pod(object, "requests", true), &of_pod(object, "limits", true)));
        }
        "services" => {
            used.insert("services".to_owned(), one());
            let ports = items_at(object, "/spec/ports");
            let count = |ports: usize| Quantity::from(i64::try_from(ports).unwrap_or(i64::MAX));
            let (mut balancers, mut node_ports) = (Quantity::from(0), Quantity::from(0));
            match string_at(object, "/spec/type") {
                "NodePort" => node_ports = count(ports.len()),
                "LoadBalancer" => {
                    balancers = one();
                    let allocated =
                        object.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&false.into());
                    let given = |port: &&Value| port["nodePort"].as_i64().is_some_and(|number| number != 0);
                    node_ports =
                        count(if allocated { ports.len() } else { ports.iter().filter(given).count() });
                }
                _ => {}
            }
            used.insert("services.loadbalancers".to_owned(), balancers);
            used.insert("services.nodeports".to_owned(), node_ports);
        }
        "persistentvolumeclaims" => {
            used.insert("persistentvolumeclaims".to_owned(), one());
            let annotated =
                string_at(object, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
            let class = Some(annotated).filter(|class| !class.is_empty());
            let class = class.unwrap_or_else(|| string_at(object, "/spec/storageClassName"));
            let of_class = |name: &str| format!("{class}.storageclass.storage.k8s.io/{name}");
            if !class.is_empty() {
                used.insert(of_class("persistentvolumeclaims"), one());
            }
            let mut storage = amounts(object.pointer("/spec/resources/requests")).remove("storage");
            let allocated = amounts(object.pointer("/status/allocatedResources")).remove("storage");
            if storage.is_some() && allocated > storage {
                storage = allocated;
            }
            if let Some(storage) = storage {
                if !class.is_empty() {
                    used.insert(of_class("requests.storage"), storage.clone());
                }
                used.insert("requests.storage".to_owned(), storage);
            }
        }
        plural if COUNTED.contains(&plural) => {
            used.insert(plural.to_owned(), one());
        }
        _ => {}
    }
    used
}

/// Does the pod still use what it asked for?
fn is_running(pod: &Value, now: jiff::Timestamp) -> bool {
    if matches!(string_at(pod, "/status/phase"), "Failed" | "Succeeded") {
        return false;
    }
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    let due: Option<jiff::Timestamp> = meta(pod, "deletionTimestamp").parse().ok();
    match (due, grace) {
        (Some(due), Some(grace)) => {
            due.checked_add(jiff::SignedDuration::from_secs(grace)).is_ok_and(|end| now <= end)
        }
        _ => true,
    }
}

/// What requests and limits are called in quotas.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::new();
    for (name, quantity) in requests {
        match name.as_str() {
            "cpu" | "memory" | "ephemeral-storage" => {
                used.insert(name.clone(), quantity.clone());
                used.insert(format!("requests.{name}"), quantity.clone());
            }
            _ if name.starts_with("hugepages-") => {
                used.insert(name.clone(), quantity.clone());
                used.insert(format!("requests.{name}"), quantity.clone());
            }
            // Others are limited under this name only.
            _ if name.contains('/') => {
                used.insert(format!("requests.{name}"), quantity.clone());
            }
            _ => {}
        }
    }
    for (name, quantity) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), quantity.clone());
        }
    }
    used
}

/// Is a limit of this name one on objects of this kind?
fn concerns(definition: &Definition, name: &str) -> bool {
    if let Some(counted) = name.strip_prefix("count/") {
        return counted == definition.group_resource().to_string();
    }
    if !definition.group.is_empty() {
        return false;
    }
    match definition.plural.as_str() {
        "pods" => {
            let extended = name.strip_prefix("requests.").is_some_and(|rest| rest.contains('/'));
            let plain =
                name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
            matches!(plain, "cpu" | "memory" | "ephemeral-storage")
                || name == "pods"
                || name.starts_with("hugepages-")
                || name.starts_with("requests.hugepages-")
                || (extended && !name.contains(".storageclass.storage.k8s.io/"))
        }
        "persistentvolumeclaims" => {
            let plain = name.rsplit_once(".storageclass.storage.k8s.io/").map_or(name, |(_, rest)| rest);
            matches!(plain, "persistentvolumeclaims" | "requests.storage")
        }
        "services" => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        plural => name == plural && COUNTED.contains(&plural),
    }
}

/// Is the object in the scopes of the quota?
fn in_scopes(quota: &Value, definition: &Definition, object: &Value) -> bool {
    let plain = items_at(quota, "/spec/scopes")
        .iter()
        .filter_map(Value::as_str)
        .map(|name| (name, "Exists", &[][..]));
    let selected = items_at(quota, "/spec/scopeSelector/matchExpressions")
        .iter()
        .map(|scope| (text(scope, "scopeName"), text(scope, "operator"), items_at(scope, "/values")));
    plain.chain(selected).all(|(name, operator, values)| in_scope(name, operator, values, definition, object))
}

fn in_scope(name: &str, operator: &str, values: &[Value], definition: &Definition, object: &Value) -> bool {
    let selects = |value: &str| {
        let named = values.iter().any(|wanted| wanted == value);
        match operator {
            "In" => !value.is_empty() && named,
            "NotIn" => !named,
            "DoesNotExist" => value.is_empty(),
            _ => !value.is_empty(),
        }
    };
    if is_core(definition, "persistentvolumeclaims") {
        return name == "VolumeAttributesClass"
            && selects(string_at(object, "/spec/volumeAttributesClassName"));
    }
    if !is_core(definition, "pods") {
        return false;
    }
    match name {
        "Terminating" => is_bounded(object),
        "NotTerminating" => !is_bounded(object),
        "BestEffort" => is_best_effort(object),
        "NotBestEffort" => !is_best_effort(object),
        "PriorityClass" => selects(string_at(object, "/spec/priorityClassName")),
        "CrossNamespacePodAffinity" => reaches_out(object),
        _ => false,
    }
}

/// Does the pod end by itself?
fn is_bounded(pod: &Value) -> bool {
    pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

/// Does the pod ask for no CPU and no memory at all?
fn is_best_effort(pod: &Value) -> bool {
    let lists = [items_at(pod, "/spec/containers"), items_at(pod, "/spec/initContainers")];
    let resources = lists.into_iter().flatten().filter_map(|container| container.get("resources"));
    let mut resources = resources.chain(pod.pointer("/spec/resources"));
    !resources.any(|resources| {
        ["requests", "limits"].iter().any(|what| {
            let asked = amounts(resources.get(what));
            asked
                .iter()
                .any(|(name, quantity)| matches!(name.as_str(), "cpu" | "memory") && !quantity.is_zero())
        })
    })
}

/// Does the pod want to be near those of other namespaces, or far from them?
fn reaches_out(pod: &Value) -> bool {
    let elsewhere =
        |term: &Value| !items_at(term, "/namespaces").is_empty() || term.get("namespaceSelector").is_some();
    ["podAffinity", "podAntiAffinity"].iter().any(|affinity| {
        let place = |list: &str| format!("/spec/affinity/{affinity}/{list}");
        items_at(pod, &place("requiredDuringSchedulingIgnoredDuringExecution")).iter().any(elsewhere)
            || items_at(pod, &place("preferredDuringSchedulingIgnoredDuringExecution"))
                .iter()
                .filter_map(|weighted| weighted.get("podAffinityTerm"))
                .any(elsewhere)
    })
}

/// What containers don't say although a quota wants to know.
fn unsaid(pod: &Value, limited: &[&str]) -> Option<String> {
    if pod
        .pointer("/spec/resources")
        .and_then(Value::as_object)
        .is_some_and(|resources| !resources.is_empty())
    {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in
        [items_at(pod, "/spec/containers"), items_at(pod, "/spec/initContainers")].into_iter().flatten()
    {
        let of = |what: &str| amounts(container.pointer(&format!("/resources/{what}")));
        let said = compute(&of("requests"), &of("limits"));
        for name in limited.iter().filter(|name| REQUIRED.contains(*name) && !said.contains_key(**name)) {
            missing.entry(name).or_default().insert(text(container, "name"));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let texts: Vec<String> = missing
        .iter()
        .map(|(name, containers)| {
            format!("{name} for: {}", containers.iter().copied().collect::<Vec<_>>().join(","))
        })
        .collect();
    Some(format!("must specify {}", texts.join("; ")))
}

/// `pods=1,requests.cpu=500m`.
fn listed(amounts: &Amounts, names: &[&String]) -> String {
    let texts: Vec<String> = names
        .iter()
        .map(|name| {
            let quantity = amounts.get(*name).map_or_else(|| "0".to_owned(), Quantity::to_string);
            format!("{name}={quantity}")
        })
        .collect();
    texts.join(",")
}

/// The amounts as an object has them.
pub(crate) fn to_json(amounts: &Amounts) -> Value {
    let members = amounts.iter().map(|(name, quantity)| (name.clone(), quantity.to_string().into()));
    Value::Object(members.collect::<Map<_, _>>())
}

/// A write that quotas look at.
struct Request<'a> {
    target: &'a Target<'a>,
    new: &'a Value,
    old: Option<&'a Value>,
    now: jiff::Timestamp,
}

impl Request<'_> {
    /// What the quota is to be charged for. `None`: nothing.
    fn check(&self, quota: &Value, name: &str) -> Result<Option<Amounts>, ApiError> {
        let definition = self.target.definition;
        let hard = amounts(quota.pointer("/status/hard"));
        let used = amounts(quota.pointer("/status/used"));
        let limited: Vec<&str> =
            hard.keys().map(String::as_str).filter(|name| concerns(definition, name)).collect();
        if limited.is_empty() || !in_scopes(quota, definition, self.new) {
            return Ok(None);
        }
        let refuse = |why: String| Err(self.target.forbidden(self.new, &why));
        if is_core(definition, "pods")
            && let Some(why) = unsaid(self.new, &limited)
        {
            return refuse(format!("failed quota: {name}: {why}"));
        }
        if limited.iter().any(|name| !used.contains_key(*name)) {
            return refuse(format!("status unknown for quota: {name}, resources: {}", limited.join(",")));
        }
        let mut wanted = usage(definition, self.new, self.now);
        let negative: Vec<&str> = wanted
            .iter()
            .filter(|(_, quantity)| quantity.is_negative())
            .map(|(name, _)| name.as_str())
            .collect();
        if !negative.is_empty() {
            return refuse(format!("quota usage is negative for resource(s): {}", negative.join(",")));
        }
        if let Some(old) = self.old
            && in_scopes(quota, definition, old)
        {
            let before = usage(definition, old, self.now);
            for (name, quantity) in &mut wanted {
                if let Some(before) = before.get(name) {
                    quantity.sub(before);
                }
                if quantity.is_negative() {
                    *quantity = Quantity::from(0);
                }
            }
        }
        wanted.retain(|name, quantity| hard.contains_key(name) && !quantity.is_zero());
        if wanted.is_empty() {
            return Ok(None);
        }
        let mut total = used.clone();
        add(&mut total, &wanted);
        let exceeded: Vec<&String> = wanted
            .keys()
            .filter(|name| total.get(*name).zip(hard.get(*name)).is_some_and(|(total, hard)| total > hard))
            .collect();
        if !exceeded.is_empty() {
            return refuse(format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                listed(&wanted, &exceeded),
                listed(&used, &exceeded),
                listed(&hard, &exceeded)
            ));
        }
        Ok(Some(wanted))
    }
}

/// Is a write of this kind one that quotas look at?
fn is_charged(definition: &Definition, part: Part, new: &Value, old: Option<&Value>) -> bool {
    match (definition.group.as_str(), definition.plural.as_str(), part) {
        (_, "events", _) => false,
        ("", "pods", Part::Resize) => true,
        ("", "pods", Part::Main) => old.is_none_or(|old| is_bounded(old) != is_bounded(new)),
        ("", "services" | "persistentvolumeclaims", Part::Main) => true,
        (_, _, Part::Main) => old.is_none(),
        _ => false,
    }
}

/// Charges a write to the quotas of its namespace.
pub(super) async fn charge<'a>(
    state: &'a State,
    target: &Target<'_>,
    part: Part,
    new: &Value,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<Option<Charge<'a>>, ApiError> {
    if !is_charged(target.definition, part, new, old) {
        return Ok(None);
    }
    let Ok(resource) = stored_as("", "resourcequotas") else { return Ok(None) };
    let scope = Scope::Namespace(target.namespace.to_owned());
    let quotas = || state.store.snapshot(&resource, At::Latest).map_err(ApiError::internal);
    if quotas()?.len(&scope) == 0 {
        return Ok(None);
    }
    // From here on nobody counts in this namespace until the write is done.
    *state.admission.charging().entry(target.namespace.to_owned()).or_default() += 1;
    let mut charge =
        Charge { admission: &state.admission, namespace: target.namespace.to_owned(), charged: Vec::new() };
    let request = Request { target, new, old, now: jiff::Timestamp::now() };
    for _ in 0..MAX_ATTEMPTS {
        // All are asked before any is charged.
        let mut due = Vec::new();
        for entry in quotas()?.iter(&scope) {
            let name = entry.key().name();
            if charge.charged.iter().any(|(charged, _)| charged == name) {
                continue;
            }
            let quota: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
            match request.check(&quota, name) {
                Ok(Some(wanted)) => due.push((entry.clone(), quota, wanted)),
                Ok(None) => {}
                Err(error) => {
                    refund(state, charge).await;
                    return Err(error);
                }
            }
        }
        let mut again = false;
        for (entry, quota, wanted) in due {
            if dry_run {
                continue;
            }
            match change_used(state, &entry, quota, |used| add(used, &wanted)).await {
                Ok(()) => charge.charged.push((entry.key().name().to_owned(), wanted)),
                Err(WriteError::Conflict { .. }) => again = true,
                Err(error) => {
                    refund(state, charge).await;
                    return Err(write_failed(&error));
                }
            }
        }
        if !again {
            return Ok(Some(charge));
        }
    }
    refund(state, charge).await;
    Err(ApiError::conflict(
        target.definition.group_resource(),
        meta(new, "name"),
        "the quotas change all the time",
    ))
}

/// A charged write is done, or has failed: then what it was charged for is given back.
pub(crate) async fn settle(state: &State, charge: Option<Charge<'_>>, done: bool) {
    if let Some(charge) = charge
        && !done
    {
        refund(state, charge).await;
    }
}

async fn refund(state: &State, mut charge: Charge<'_>) {
    let Ok(resource) = stored_as("", "resourcequotas") else { return };
    for (name, amount) in std::mem::take(&mut charge.charged) {
        let Ok(key) = settled_store::Key::new(&resource, &charge.namespace, &name) else { continue };
        for _ in 0..MAX_ATTEMPTS {
            let Some(entry) = state.store.get(&key) else { break };
            let quota: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
            let give_back = |used: &mut Amounts| {
                for (name, quantity) in &amount {
                    if let Some(total) = used.get_mut(name) {
                        total.sub(quantity);
                    }
                }
            };
            match change_used(state, &entry, quota, give_back).await {
                Err(WriteError::Conflict { .. }) => {}
                _ => break,
            }
        }
    }
}

async fn change_used(
    state: &State,
    entry: &Arc<Entry>,
    mut quota: Value,
    change: impl FnOnce(&mut Amounts),
) -> Result<(), WriteError> {
    let mut used = amounts(quota.pointer("/status/used"));
    change(&mut used);
    member_mut(&mut quota, "status").insert("used".to_owned(), to_json(&used));
    state
        .store
        .write(Write::update(entry.key().clone(), entry.mod_revision(), object::encode(&quota)))
        .await
        .map(|_| ())
}

/// Counts anew what the quotas of a namespace limit. False: something is being written there, ask again.
pub(crate) async fn recount(state: &State, namespace: &str) -> Result<bool, ApiError> {
    let catalog = state.catalog();
    // Read the quotas before checking for writes under way: a write that begins later changes a quota, and this count ends in a conflict.
    let quotas = state.stored("", "resourcequotas", namespace);
    if state.admission.charging().contains_key(namespace) {
        return Ok(false);
    }
    for (entry, quota) in quotas {
        let hard = amounts(quota.pointer("/spec/hard"));
        let mut used: Amounts = hard.keys().map(|name| (name.clone(), Quantity::from(0))).collect();
        let now = jiff::Timestamp::now();
        for definition in catalog.preferred() {
            if !definition.namespaced || !hard.keys().any(|name| concerns(definition, name)) {
                continue;
            }
            for (_, object) in state.stored(&definition.group, &definition.plural, namespace) {
                if in_scopes(&quota, definition, &object) {
                    let mut uses = usage(definition, &object, now);
                    uses.retain(|name, _| hard.contains_key(name) && concerns(definition, name));
                    add(&mut used, &uses);
                }
            }
        }
        let mut new = quota.clone();
        let status = member_mut(&mut new, "status");
        status.insert("hard".to_owned(), to_json(&hard));
        status.insert("used".to_owned(), to_json(&used));
        let same = ["hard", "used"].iter().all(|field| {
            amounts(new.pointer(&format!("/status/{field}")))
                == amounts(quota.pointer(&format!("/status/{field}")))
        });
        if same {
            continue;
        }
        let write = Write::update(entry.key().clone(), entry.mod_revision(), object::encode(&new));
        match state.store.write(write).await {
            Ok(_) => {}
            Err(WriteError::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(write_failed(&error)),
        }
    }
    Ok(true)
}

/// Waits until a charged write is done.
pub(crate) async fn charged(state: &State) {
    state.admission.charged.notified().await;
}
