//! ResourceQuota: charging writes to quotas (`plugin/resourcequota` upstream), by what `kinds::quota` says of a kind.
//!
//! A write is charged before it is made: `status.used` is raised by compare-and-swap. Two writes can't both take what is left.

use std::sync::Arc;

use serde_json::{Map, Value};
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::unstructured::items_at;
use settled_store::{At, Entry, Scope, Write, WriteError};

use crate::error::{ApiError, write_failed};
use crate::kinds::definition::Definition;
use crate::kinds::names::{Part, stored_as};
use crate::kinds::quota::{Amounts, Quota, ScopeSelector, add, amounts};
use crate::object::{self, member_mut, meta, text};
use crate::state::State;
use crate::state::admission::Admission;
use crate::state::call::Target;

/// How often a charge is tried again because the quota changed meanwhile.
const MAX_ATTEMPTS: usize = 100;

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

/// What an object uses.
pub(crate) fn usage(definition: &Definition, object: &Value, now: jiff::Timestamp) -> Amounts {
    let mut used = Amounts::from([(count_name(definition), Quantity::from(1))]);
    match definition.model.strategy().quota {
        Quota::Counted | Quota::Exempt => {}
        Quota::Named(name) => drop(used.insert(name.to_owned(), Quantity::from(1))),
        Quota::Evaluator(evaluator) => used.extend((evaluator.usage)(object, now)),
    }
    used
}

/// Is a limit of this name one on objects of this kind?
fn matches_resource(definition: &Definition, name: &str) -> bool {
    if let Some(counted) = name.strip_prefix("count/") {
        return counted == definition.group_resource().to_string();
    }
    match definition.model.strategy().quota {
        Quota::Counted | Quota::Exempt => false,
        Quota::Named(own) => name == own,
        Quota::Evaluator(evaluator) => (evaluator.matches_resource)(name),
    }
}

/// Is the object in the scopes of the quota?
fn matches_scopes(quota: &Value, definition: &Definition, object: &Value) -> bool {
    let plain = items_at(quota, "/spec/scopes").iter().filter_map(Value::as_str);
    let plain = plain.map(|name| ScopeSelector { name, operator: "Exists", values: &[] });
    let selected =
        items_at(quota, "/spec/scopeSelector/matchExpressions").iter().map(|scope| ScopeSelector {
            name: text(scope, "scopeName"),
            operator: text(scope, "operator"),
            values: items_at(scope, "/values"),
        });
    let mut scopes = plain.chain(selected);
    match definition.model.strategy().quota {
        Quota::Evaluator(evaluator) => scopes.all(|scope| (evaluator.matches_scope)(&scope, object)),
        _ => scopes.next().is_none(),
    }
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
            hard.keys().map(String::as_str).filter(|name| matches_resource(definition, name)).collect();
        if limited.is_empty() || !matches_scopes(quota, definition, self.new) {
            return Ok(None);
        }
        let refuse = |why: String| Err(self.target.forbidden(self.new, &why));
        if let Quota::Evaluator(evaluator) = definition.model.strategy().quota
            && let Some(why) = (evaluator.constraints)(self.new, &limited)
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
            && matches_scopes(quota, definition, old)
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
    match (definition.model.strategy().quota, old) {
        (Quota::Exempt, _) => false,
        (_, None) => part == Part::Main,
        (Quota::Evaluator(evaluator), Some(old)) => (evaluator.handles_update)(part, new, old),
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
    let request = Request { target, new, old, now: state.now() };
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
        let now = state.now();
        for definition in catalog.preferred() {
            if !definition.namespaced || !hard.keys().any(|name| matches_resource(definition, name)) {
                continue;
            }
            for (_, object) in state.stored(&definition.names.group, &definition.names.plural, namespace) {
                if matches_scopes(&quota, definition, &object) {
                    let mut uses = usage(definition, &object, now);
                    uses.retain(|name, _| hard.contains_key(name) && matches_resource(definition, name));
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
