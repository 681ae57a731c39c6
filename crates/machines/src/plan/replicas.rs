//! MachineSet: which Machines are created, and which are deleted when there are too many.

use std::cmp::Reverse;
use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};

use crate::types::{DELETE_ANNOTATION, DeletePolicy, Machine, MachinePhase};

/// The most Machines that are created or deleted at once.
const BURST: usize = 500;

/// A Machine as a MachineSet sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineView {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether somebody wants it to be deleted first.
    pub is_marked: bool,
    /// Whether it is being updated.
    pub is_updating: bool,
    /// Whether it is ready.
    pub is_ready: bool,
}

impl MachineView {
    /// The view of a Machine.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let meta = &machine.metadata;
        let phase = machine.status.as_ref().and_then(|status| status.phase);
        Self {
            name: meta.name.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            is_deleting: meta.deletion_timestamp.is_some(),
            is_marked: meta.annotations.as_ref().is_some_and(|all| all.contains_key(DELETE_ANNOTATION)),
            is_updating: matches!(phase, Some(MachinePhase::Updating | MachinePhase::Draining)),
            is_ready: is_ready(machine),
        }
    }
}

/// Whether a Machine is ready at its present generation.
pub(crate) fn is_ready(machine: &Machine) -> bool {
    let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let status = settled_controller::conditions::status_at(conditions, "Ready", machine.metadata.generation);
    status == settled_controller::conditions::Status::True
}

/// Whether a Machine has been ready for long enough. If not, when it will be.
pub(crate) fn is_available(
    machine: &Machine,
    min_ready_seconds: i32,
    now: Timestamp,
) -> (bool, Option<Timestamp>) {
    let since = machine.status.as_ref().and_then(|status| status.ready_since.as_ref()).map(|since| since.0);
    let Some(since) = since.filter(|_| is_ready(machine)) else { return (false, None) };
    let until = since.checked_add(SignedDuration::from_secs(i64::from(min_ready_seconds))).unwrap_or(since);
    if until <= now { (true, None) } else { (false, Some(until)) }
}

/// What a MachineSet does next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReplicasPlan {
    /// There are as many Machines as asked for.
    Nothing,
    /// Machines with these names are created.
    Create(Vec<String>),
    /// Machines with these names are deleted.
    Delete(Vec<String>),
}

/// Plans the Machines of a set. `taken` are the names of Machines of others. Names are those of the lowest free numbers, so that a creation that is
/// repeated after a crash, or from an outdated cache, does not create another Machine.
#[must_use]
pub fn plan_replicas(
    set: &str,
    replicas: usize,
    policy: DeletePolicy,
    machines: &[MachineView],
    is_taken: impl Fn(&str) -> bool,
) -> ReplicasPlan {
    let live: Vec<&MachineView> = machines.iter().filter(|machine| !machine.is_deleting).collect();
    if live.len() < replicas {
        let own: HashSet<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
        let names = (0..).map(|number| format!("{set}-{number}"));
        let free = names.filter(|name| !own.contains(name.as_str()) && !is_taken(name));
        return ReplicasPlan::Create(free.take((replicas - live.len()).min(BURST)).collect());
    }
    let excess = (live.len() - replicas).min(BURST);
    if excess == 0 {
        return ReplicasPlan::Nothing;
    }
    ReplicasPlan::Delete(ranked(policy, live).take(excess).collect())
}

/// The Machines that are deleted in all until there are no more than the replicas, in any number of steps.
pub(crate) fn plan_deletions(replicas: usize, policy: DeletePolicy, machines: &[MachineView]) -> Vec<String> {
    let live: Vec<&MachineView> = machines.iter().filter(|machine| !machine.is_deleting).collect();
    let excess = live.len().saturating_sub(replicas);
    ranked(policy, live).take(excess).collect()
}

/// Names in the order of deletion.
fn ranked(policy: DeletePolicy, mut machines: Vec<&MachineView>) -> impl Iterator<Item = String> {
    machines.sort_by_cached_key(|machine| {
        let class = match machine {
            machine if machine.is_marked => 0,
            machine if machine.is_updating => 1,
            machine if !machine.is_ready => 2,
            _ => 3,
        };
        let created = machine.created.map_or(i64::MIN, Timestamp::as_second);
        let age = match policy {
            DeletePolicy::Random => 0,
            DeletePolicy::Oldest => created,
            DeletePolicy::Newest => created.checked_neg().unwrap_or(i64::MAX),
        };
        (class, age, Reverse(number(&machine.name)), machine.name.clone())
    });
    machines.into_iter().map(|machine| machine.name.clone())
}

/// The number at the end of a name: of several equal Machines the one with the highest goes first.
fn number(name: &str) -> u64 {
    name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, created: i64, change: impl Fn(&mut MachineView)) -> MachineView {
        let created = Timestamp::from_second(created).ok();
        let mut view =
            MachineView { name: name.to_owned(), created, is_ready: true, ..MachineView::default() };
        change(&mut view);
        view
    }

    fn plan(replicas: usize, policy: DeletePolicy, machines: &[MachineView]) -> ReplicasPlan {
        plan_replicas("web", replicas, policy, machines, |name| name == "web-1")
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn missing_machines_get_the_lowest_free_numbers() {
        assert_eq!(
            plan(3, DeletePolicy::Random, &[]),
            ReplicasPlan::Create(names(&["web-0", "web-2", "web-3"]))
        );
        let leaving = machine("web-0", 1, |view| view.is_deleting = true);
        assert_eq!(plan(1, DeletePolicy::Random, &[leaving]), ReplicasPlan::Create(names(&["web-2"])));
    }

    #[test]
    fn a_burst_is_bounded() {
        let ReplicasPlan::Create(created) = plan(10_000, DeletePolicy::Random, &[]) else { unreachable!() };
        assert_eq!(created.len(), BURST);
    }

    #[test]
    fn deletion_has_an_order() {
        let machines = [
            machine("web-0", 10, |_| {}),
            machine("web-2", 30, |_| {}),
            machine("web-3", 20, |_| {}),
            machine("web-4", 5, |view| view.is_ready = false),
            machine("web-5", 5, |view| view.is_updating = true),
            machine("web-6", 5, |view| view.is_marked = true),
            machine("web-7", 5, |view| view.is_deleting = true),
        ];
        let deleted = |replicas, policy| match plan(replicas, policy, &machines) {
            ReplicasPlan::Delete(names) => names,
            other => vec![format!("{other:?}")],
        };
        assert_eq!(deleted(5, DeletePolicy::Random), ["web-6"]);
        assert_eq!(deleted(3, DeletePolicy::Random), ["web-6", "web-5", "web-4"]);
        assert_eq!(deleted(2, DeletePolicy::Random)[3], "web-3");
        assert_eq!(deleted(2, DeletePolicy::Oldest)[3], "web-0");
        assert_eq!(deleted(2, DeletePolicy::Newest)[3], "web-2");
        assert_eq!(plan(6, DeletePolicy::Random, &machines), ReplicasPlan::Nothing);
    }
}
