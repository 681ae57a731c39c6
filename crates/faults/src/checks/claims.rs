//! Claims, grants and effects: what status says exists, and what does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::{Cluster, View, describe, generation, metadata, uid};
use crate::scenario::Scenario;
use crate::world::{Effect, World};

/// Does the object report the condition as true, for its present generation?
fn is_ready(object: &Value, condition: &str) -> bool {
    let status = object.get("status");
    let conditions = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let is = |condition: &Value, name, wanted| condition.get(name).and_then(Value::as_str) == Some(wanted);
    let Some(found) = conditions.into_iter().flatten().find(|found| is(found, "type", condition)) else {
        return false;
    };
    let observed = found
        .get("observedGeneration")
        .or_else(|| status.and_then(|status| status.get("observedGeneration")))
        .and_then(Value::as_i64);
    // Without an observed generation, it is a claim about the object as it is.
    let present = observed.is_none_or(|observed| generation(object) == Some(observed));
    is(found, "status", "True") && present && !is_deleting(object)
}

fn is_deleting(object: &Value) -> bool {
    metadata(object, "deletionTimestamp").is_some()
}

/// What an object that is ready promises.
pub(super) fn promised<W: World>(scenario: &Scenario<W>, view: &View<'_, W>) -> Result<(), String> {
    if scenario.promises.is_empty() {
        return Ok(());
    }
    for (_, object) in view.cluster.objects().filter(|(_, object)| is_ready(object, &scenario.condition)) {
        for promise in &scenario.promises {
            promise(object, view).map_err(|message| {
                let condition = &scenario.condition;
                format!("{} reports {condition}=True for its generation: {message}", describe(object))
            })?;
        }
    }
    Ok(())
}

/// What status claims exists.
pub(super) fn claimed<W: World>(scenario: &Scenario<W>, view: &View<'_, W>) -> Result<(), String> {
    let Some(claims) = &scenario.claims else { return Ok(()) };
    let effects = view.world.effects();
    // While it is deleted, what it had goes before it does.
    for (_, object) in view.cluster.objects().filter(|(_, object)| !is_deleting(object)) {
        for claim in claims(object) {
            let Some(effect) = effects.iter().find(|effect| effect.id == claim) else {
                return Err(format!(
                    "the status of {} claims {claim:?}, which does not exist",
                    describe(object)
                ));
            };
            if effect.owner != uid(object) {
                let owner = view.cluster.owner(&effect.owner);
                return Err(format!(
                    "the status of {} claims {claim:?}, which belongs to {owner}",
                    describe(object)
                ));
            }
        }
    }
    Ok(())
}

/// That nobody has what another one has, and nobody has it twice.
pub(super) fn granted_once<W: World>(scenario: &Scenario<W>, view: &View<'_, W>) -> Result<(), String> {
    let mut holders: BTreeMap<String, &Value> = BTreeMap::new();
    if let Some(grants) = &scenario.grants {
        for (_, object) in view.cluster.objects() {
            for grant in grants(object).into_iter().collect::<BTreeSet<_>>() {
                if let Some(other) = holders.insert(grant.clone(), object) {
                    return Err(format!(
                        "{grant:?} is granted to {} and to {}",
                        describe(other),
                        describe(object)
                    ));
                }
            }
        }
    }
    let mut effects = view.world.effects();
    effects.sort_by(|a, b| (&a.owner, &a.purpose).cmp(&(&b.owner, &b.purpose)));
    let twice = effects.windows(2).find_map(|pair| match pair {
        [a, b] if (&a.owner, &a.purpose) == (&b.owner, &b.purpose) => Some((a, b)),
        _ => None,
    });
    twice.map_or(Ok(()), |(a, b)| {
        let owner = view.cluster.owner(&a.owner);
        Err(format!("{owner} has {:?} twice: {:?} and {:?}", a.purpose, a.id, b.id))
    })
}

/// What exists for objects that don't.
pub(crate) fn leaks(cluster: &Cluster, effects: &[Effect]) -> Result<(), String> {
    let leaked = effects.iter().find(|effect| !cluster.has_uid(&effect.owner));
    leaked.map_or(Ok(()), |effect| {
        let owner = cluster.owner(&effect.owner);
        Err(format!("{:?} ({}) is left over from {owner}", effect.id, effect.purpose))
    })
}
