//! Groups of a preview: which Machines a rollout changes, replaces, creates and deletes, from its first step to its end.

use std::collections::{BTreeMap, BTreeSet};

use super::machines::Context;
use super::{Decision, MachineDecision, World};
use crate::inventory::{Id, Inventory, Kind};
use crate::plan::{MachineView, plan_deletions, template_hash};
use crate::provider::Registry;
use crate::types::{
    Machine, MachineDeployment, MachineSet, PAUSED_ANNOTATION, REVISION_ANNOTATION, StrategyType,
};

fn name(metadata: &kube::api::ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

fn namespace(metadata: &kube::api::ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or_default()
}

fn uid(metadata: &kube::api::ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// UID of the controller.
fn owner(metadata: &kube::api::ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

fn is_paused(metadata: &kube::api::ObjectMeta) -> bool {
    metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PAUSED_ANNOTATION))
}

/// Objects by the UID of their controller.
fn by_owner<'o, K>(
    objects: &'o [K],
    metadata: impl Fn(&K) -> &kube::api::ObjectMeta,
) -> BTreeMap<&'o str, Vec<&'o K>>
where
    K: 'o,
{
    let mut owned: BTreeMap<&str, Vec<&K>> = BTreeMap::new();
    for object in objects {
        // The closure's result lives as long as the object.
        if let Some(uid) = owner_of(object, &metadata) {
            owned.entry(uid).or_default().push(object);
        }
    }
    owned
}

fn owner_of<'o, K>(object: &'o K, metadata: &impl Fn(&K) -> &kube::api::ObjectMeta) -> Option<&'o str> {
    owner(metadata(object))
}

/// Decides on all Machines of a world.
pub(super) fn decide(before: &Inventory, world: &World, registry: &Registry) -> Vec<MachineDecision> {
    let context = Context::new(world, registry);
    let machines = by_owner(&world.machines, |machine| &machine.metadata);
    let sets = by_owner(&world.sets, |set| &set.metadata);
    let mut planned =
        Planned { context, machines, rows: Vec::with_capacity(world.machines.len()), seen: BTreeSet::new() };
    for deployment in &world.deployments {
        let own = sets.get(uid(&deployment.metadata)).cloned().unwrap_or_default();
        planned.deployment(deployment, &own);
    }
    let uids: BTreeSet<&str> = world.deployments.iter().map(|deployment| uid(&deployment.metadata)).collect();
    for set in world.sets.iter().filter(|set| owner(&set.metadata).is_none_or(|owner| !uids.contains(owner)))
    {
        planned.set(set);
    }
    for machine in &world.machines {
        if planned.seen.contains(uid(&machine.metadata)) && !uid(&machine.metadata).is_empty() {
            continue;
        }
        let id = Id::new(Kind::Machine, namespace(&machine.metadata), name(&machine.metadata));
        if before.get(&id).is_none() {
            // Its configuration is checked as if it existed.
            let (decision, reason) = planned.context.decide(machine, &machine.spec);
            let reason = match decision {
                Decision::Unsupported => reason,
                _ => "the Machine is new".to_owned(),
            };
            let decision = if decision == Decision::Unsupported { decision } else { Decision::Create };
            planned.row(machine, None, decision, reason);
        } else {
            let (decision, reason) = planned.context.decide(machine, &machine.spec);
            planned.row(machine, None, decision, reason);
        }
    }
    planned.rows
}

struct Planned<'w> {
    context: Context<'w>,
    /// Machines by the UID of their MachineSet.
    machines: BTreeMap<&'w str, Vec<&'w Machine>>,
    rows: Vec<MachineDecision>,
    /// UIDs of Machines that are decided on.
    seen: BTreeSet<&'w str>,
}

impl<'w> Planned<'w> {
    fn row(&mut self, machine: &'w Machine, group: Option<Id>, decision: Decision, reason: String) {
        self.seen.insert(uid(&machine.metadata));
        self.rows.push(MachineDecision {
            namespace: namespace(&machine.metadata).to_owned(),
            name: name(&machine.metadata).to_owned(),
            group,
            decision,
            reason,
        });
    }

    fn creations(&mut self, group: &Id, set: &str, count: usize, taken: &BTreeSet<&str>, reason: &str) {
        let names =
            (0..).map(|number| format!("{set}-{number}")).filter(|name| !taken.contains(name.as_str()));
        for name in names.take(count) {
            self.rows.push(MachineDecision {
                namespace: group.namespace.clone(),
                name,
                group: Some(group.clone()),
                decision: Decision::Create,
                reason: reason.to_owned(),
            });
        }
    }

    fn of(&self, set: &MachineSet) -> Vec<&'w Machine> {
        self.machines.get(uid(&set.metadata)).cloned().unwrap_or_default()
    }

    fn set(&mut self, set: &'w MachineSet) {
        let group = Id::new(Kind::MachineSet, namespace(&set.metadata), name(&set.metadata));
        let machines = self.of(set);
        if is_paused(&set.metadata) {
            for machine in machines {
                let (decision, reason) = self.context.decide(machine, &machine.spec);
                self.row(machine, Some(group.clone()), decision, reason);
            }
            return;
        }
        let replicas = usize::try_from(set.spec.replicas).unwrap_or_default();
        self.sized(&group, set, &machines, replicas, None);
    }

    /// Machines of a set that gets a size; with another spec, if they are changed themselves.
    fn sized(
        &mut self,
        group: &Id,
        set: &'w MachineSet,
        machines: &[&'w Machine],
        replicas: usize,
        spec: Option<&crate::types::MachineSpec>,
    ) {
        let live: Vec<&Machine> = machines
            .iter()
            .copied()
            .filter(|machine| machine.metadata.deletion_timestamp.is_none())
            .collect();
        let views: Vec<MachineView> = live.iter().map(|machine| MachineView::of(machine)).collect();
        let doomed: BTreeSet<String> =
            plan_deletions(replicas, set.spec.delete_policy, &views).into_iter().collect();
        for machine in machines {
            if doomed.contains(name(&machine.metadata)) {
                let reason = format!("{group} shrinks to {replicas}");
                self.row(machine, Some(group.clone()), Decision::Delete, reason);
                continue;
            }
            let (decision, reason) = self.context.decide(machine, spec.unwrap_or(&machine.spec));
            self.row(machine, Some(group.clone()), decision, reason);
        }
        let taken: BTreeSet<&str> = machines.iter().map(|machine| name(&machine.metadata)).collect();
        let missing = replicas.saturating_sub(live.len());
        let reason = format!("{group} grows to {replicas}");
        self.creations(group, name(&set.metadata), missing, &taken, &reason);
    }

    fn deployment(&mut self, deployment: &'w MachineDeployment, sets: &[&'w MachineSet]) {
        let group =
            Id::new(Kind::MachineDeployment, namespace(&deployment.metadata), name(&deployment.metadata));
        let replicas = usize::try_from(deployment.spec.replicas).unwrap_or_default();
        let mut sets: Vec<&MachineSet> = sets.to_vec();
        sets.sort_by_key(|set| (revision(set), name(&set.metadata)));
        let is_new = |set: &&&MachineSet| set.spec.template.spec == deployment.spec.template.spec;
        if deployment.spec.paused || is_paused(&deployment.metadata) {
            for set in sets {
                for machine in self.of(set) {
                    let (decision, reason) = self.context.decide(machine, &machine.spec);
                    let reason = if reason.is_empty() { format!("{group} is paused") } else { reason };
                    self.row(machine, Some(group.clone()), decision, reason);
                }
            }
            return;
        }
        let next = sets.iter().map(|set| revision(set)).max().unwrap_or_default() + 1;
        let new_name = || format!("{}-{}", name(&deployment.metadata), template_hash(deployment, next));
        match deployment.spec.strategy.type_ {
            StrategyType::UpdateMachines => {
                let Some((newest, old)) = sets.split_last() else {
                    let reason = format!("{group} is new");
                    self.creations(&group, &new_name(), replicas, &BTreeSet::new(), &reason);
                    return;
                };
                for set in old {
                    for machine in self.of(set) {
                        let reason = "it is of a MachineSet of before".to_owned();
                        self.row(machine, Some(group.clone()), Decision::Delete, reason);
                    }
                }
                let machines = self.of(newest);
                self.sized(&group, newest, &machines, replicas, Some(&deployment.spec.template.spec));
            }
            StrategyType::RollingUpdate => {
                let new = sets.iter().rfind(is_new).copied();
                for set in
                    sets.iter().filter(|set| new.is_none_or(|new| uid(&new.metadata) != uid(&set.metadata)))
                {
                    for machine in self.of(set) {
                        let reason = format!("{group} replaces it by a new Machine");
                        self.row(machine, Some(group.clone()), Decision::Delete, reason);
                    }
                }
                match new {
                    Some(new) => {
                        let machines = self.of(new);
                        self.sized(&group, new, &machines, replicas, None);
                    }
                    None => {
                        let reason = format!("of the new template of {group}");
                        self.creations(&group, &new_name(), replicas, &BTreeSet::new(), &reason);
                    }
                }
            }
            StrategyType::OnDelete => {
                let new = sets.iter().rfind(is_new).copied();
                let mut old = 0;
                for set in
                    sets.iter().filter(|set| new.is_none_or(|new| uid(&new.metadata) != uid(&set.metadata)))
                {
                    for machine in self.of(set) {
                        old += 1;
                        let (decision, reason) = self.context.decide(machine, &machine.spec);
                        let reason = if reason.is_empty() {
                            "replaced when a user deletes it".to_owned()
                        } else {
                            reason
                        };
                        self.row(machine, Some(group.clone()), decision, reason);
                    }
                }
                let wanted = replicas.saturating_sub(old);
                match new {
                    Some(new) => {
                        let machines = self.of(new);
                        self.sized(&group, new, &machines, wanted, None);
                    }
                    None => {
                        let reason = format!("of the new template of {group}");
                        self.creations(&group, &new_name(), wanted, &BTreeSet::new(), &reason);
                    }
                }
            }
        }
    }
}

fn revision(set: &MachineSet) -> u64 {
    let annotations = set.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(REVISION_ANNOTATION)?.parse().ok()).unwrap_or_default()
}
