//! MachineDeployment: how many Machines each MachineSet has during a rollout (`reconcileNewReplicaSet`, `reconcileOldReplicaSets` upstream), and which
//! Machines are updated next.

use serde_json::json;

use crate::types::{MachineDeployment, MachineDeploymentSpec, StrategyType};

/// A MachineSet as its MachineDeployment sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SetView {
    /// Its name.
    pub name: String,
    /// Whether it is of the latest template.
    pub is_new: bool,
    /// `spec.replicas`.
    pub desired: i32,
    /// Machines that are not being deleted.
    pub live: i32,
    /// Available Machines.
    pub available: i32,
}

/// Sizes and strategy of a MachineDeployment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rollout {
    /// `spec.replicas`.
    pub replicas: i32,
    /// How many Machines there may be beyond them.
    pub surge: i32,
    /// How many of them may be unavailable.
    pub unavailable: i32,
    /// How changes reach the Machines.
    pub strategy: StrategyType,
}

impl Rollout {
    /// Of a spec: surge is rounded up, unavailable down, and one of them is at least 1.
    #[must_use]
    pub fn of(spec: &MachineDeploymentSpec) -> Self {
        let bounds = &spec.strategy.rolling_update;
        let surge = bounds.max_surge.of(spec.replicas, true);
        let unavailable = bounds.max_unavailable.of(spec.replicas, false);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self {
            replicas: spec.replicas,
            surge,
            unavailable: unavailable.min(spec.replicas),
            strategy: spec.strategy.type_,
        }
    }
}

/// FNV-1a of a template and its revision, in letters and digits.
pub(crate) fn template_hash(deployment: &MachineDeployment, revision: u64) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in format!("{revision}{}", json!(deployment.spec.template)).bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{hash:08x}")
}

/// What a MachineDeployment does next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RolloutAction {
    /// A MachineSet of the latest template is created, with this size.
    Create(i32),
    /// A MachineSet gets a size.
    Scale(String, i32),
}

/// Plans the sizes of MachineSets, the oldest first.
#[must_use]
pub fn plan_rollout(rollout: Rollout, sets: &[SetView]) -> Vec<RolloutAction> {
    let new = sets.iter().find(|set| set.is_new);
    let old: Vec<&SetView> = sets.iter().filter(|set| !set.is_new).collect();
    if rollout.strategy == StrategyType::OnDelete {
        return on_delete(rollout, new, &old);
    }
    let mut actions = Vec::new();
    let total: i32 = sets.iter().map(|set| set.desired).sum();
    let has = new.map_or(0, |set| set.desired);
    // No more than the surge permits, counting Machines that are still to go. Upstream counts sizes alone, and has more Pods for a moment; here, each is a host.
    let existing: i32 = sets.iter().map(|set| set.desired.max(set.live)).sum();
    let room = (rollout.replicas + rollout.surge - existing).max(0);
    let wanted =
        if has > rollout.replicas { rollout.replicas } else { has + room.min(rollout.replicas - has) };
    size(&mut actions, new, wanted);
    // Old Machines go only after the new size is stored: each decision is on what the sets have.
    if actions.is_empty() {
        shrink_old(&mut actions, rollout, new, &old, total);
    }
    actions
}

fn size(actions: &mut Vec<RolloutAction>, new: Option<&SetView>, wanted: i32) {
    match new {
        None => actions.push(RolloutAction::Create(wanted)),
        Some(set) if set.desired != wanted => actions.push(RolloutAction::Scale(set.name.clone(), wanted)),
        Some(_) => {}
    }
}

/// Takes Machines from old sets: first those that are not available, then as many as stay available by others.
fn shrink_old(
    actions: &mut Vec<RolloutAction>,
    rollout: Rollout,
    new: Option<&SetView>,
    old: &[&SetView],
    total: i32,
) {
    let min_available = rollout.replicas - rollout.unavailable;
    let new_unavailable = new.map_or(0, |set| (set.desired - set.available).max(0));
    let mut budget = total - min_available - new_unavailable;
    let mut sizes: Vec<i32> = old.iter().map(|set| set.desired).collect();
    for (set, size) in old.iter().zip(&mut sizes) {
        let unhealthy = (set.desired - set.available).max(0).min(budget.max(0));
        *size -= unhealthy;
        budget -= unhealthy;
    }
    let available: i32 =
        new.into_iter().chain(old.iter().copied()).map(|set| set.available.min(set.desired)).sum();
    let mut healthy = (available - min_available).min(budget);
    for size in &mut sizes {
        let taken = (*size).min(healthy.max(0));
        *size -= taken;
        healthy -= taken;
    }
    for (set, size) in old.iter().zip(sizes) {
        if size != set.desired {
            actions.push(RolloutAction::Scale(set.name.clone(), size));
        }
    }
}

/// Old sets keep what nobody deletes; the new one has the rest.
fn on_delete(rollout: Rollout, new: Option<&SetView>, old: &[&SetView]) -> Vec<RolloutAction> {
    let mut actions = Vec::new();
    let mut kept = 0;
    // The newest of the old ones keep theirs, if there are too many.
    for set in old.iter().rev() {
        let size = set.desired.min(set.live).min((rollout.replicas - kept).max(0));
        kept += size;
        if size != set.desired {
            actions.push(RolloutAction::Scale(set.name.clone(), size));
        }
    }
    size(&mut actions, new, (rollout.replicas - kept).max(0));
    actions
}

/// A Machine as a MachineDeployment with `UpdateMachines` sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UpdateView {
    /// Its name.
    pub name: String,
    /// Whether its spec is that of the template.
    pub is_updated: bool,
    /// Whether it is available.
    pub is_available: bool,
    /// Whether only a change of its spec helps.
    pub is_failed: bool,
}

/// The Machines whose spec is changed next, by name. At most `unavailable` Machines (at least one) are unavailable for it, and none is changed after one
/// has failed with the new spec.
#[must_use]
pub fn plan_machine_updates(unavailable: i32, machines: &[UpdateView]) -> Vec<String> {
    if machines.iter().any(|machine| machine.is_updated && machine.is_failed) {
        return Vec::new();
    }
    let count = |accepts: fn(&&UpdateView) -> bool| machines.iter().filter(accepts).count();
    let busy = count(|machine| machine.is_updated && !machine.is_available);
    let broken = count(|machine| !machine.is_updated && !machine.is_available);
    let budget = usize::try_from(unavailable).unwrap_or_default().max(1);
    let mut outdated: Vec<&UpdateView> = machines.iter().filter(|machine| !machine.is_updated).collect();
    // What is not available costs nothing.
    outdated.sort_by_key(|machine| machine.is_available);
    let healthy = budget.saturating_sub(busy + broken);
    let first = broken.min(budget.saturating_sub(busy));
    outdated.into_iter().take(first + healthy).map(|machine| machine.name.clone()).collect()
}
