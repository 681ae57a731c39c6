//! Shared chains: targets whose cause is explained by that of another target, so that each problem is written once.

use std::collections::HashMap;

use settled_tracker::{ObjectId, TargetReport};

use crate::cause::Cause;

/// Whether an explanation of another target explains this one, too: it is one of the objects with the cause.
fn explains(other: &TargetReport, target: &TargetReport) -> bool {
    #[cfg(test)]
    tests::COMPARED.with(|compared| compared.set(compared.get() + 1));
    if other.object == target.object {
        return false;
    }
    other.causes.iter().any(|explanation| {
        let [.., parent, last] = explanation.chain.as_slice() else { return false };
        if explanation.chain.iter().skip(1).any(|step| step.object == target.object) {
            return true;
        }
        // Of many objects with a cause, only some are named; the others have the name of whatever generated them.
        let generated = || {
            let name = target.object.name.strip_prefix(&*parent.object.name);
            name.is_some_and(|rest| rest.starts_with('-'))
        };
        explanation.count > 1
            && last.object.kind == target.object.kind
            && last.object.namespace == target.object.namespace
            && generated()
            && last.reason == Cause::of(target).reason
    })
}

/// Key of objects with the same generating owner and the same cause.
type Generated<'r> = (&'r str, &'r str, &'r str);

/// The chains of all targets, by the objects that they may explain: thousands of targets are not compared with each other.
pub(super) struct Chains<'r> {
    /// By each object after the first.
    by_step: HashMap<&'r ObjectId, Vec<&'r TargetReport>>,
    /// Of causes that several objects have: by kind, namespace and the name of what generated them.
    by_parent: HashMap<Generated<'r>, Vec<&'r TargetReport>>,
}

impl<'r> Chains<'r> {
    pub(super) fn new(targets: &[&'r TargetReport]) -> Self {
        let mut chains = Self { by_step: HashMap::new(), by_parent: HashMap::new() };
        for target in targets {
            for cause in &target.causes {
                let [.., parent, last] = cause.chain.as_slice() else { continue };
                for step in cause.chain.iter().skip(1) {
                    chains.by_step.entry(&step.object).or_default().push(target);
                }
                if cause.count > 1 {
                    let key = (&*last.object.kind, &*last.object.namespace, &*parent.object.name);
                    chains.by_parent.entry(key).or_default().push(target);
                }
            }
        }
        chains
    }

    /// Whether another target's chain explains this one, and not the other way round.
    pub(super) fn explain(&self, target: &TargetReport) -> bool {
        let object = &target.object;
        let by_step = self.by_step.get(object);
        let by_parent = object.name.match_indices('-').filter_map(|(end, _)| {
            self.by_parent.get(&(&*object.kind, &*object.namespace, object.name.get(..end)?))
        });
        by_step
            .into_iter()
            .chain(by_parent)
            .flatten()
            .any(|other| explains(other, target) && !explains(target, other))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kstatus::Status;
    use settled_tracker::State;
    use settled_tracker::report::Explanation;

    use super::*;
    use crate::scenes;

    thread_local! {
        /// How often two targets were compared.
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// A target with a chain of these objects, the last of which has the reason and stands for so many.
    fn chained(kind: &str, name: &str, below: &[(&str, &str)], count: usize) -> TargetReport {
        let mut target = scenes::target(State::Waiting, (kind, name), Status::InProgress, "LessReady", "");
        let objects = [&[(kind, name)], below].concat();
        let step = |(kind, name): &(&str, &str)| {
            scenes::step(kind, name, Status::Failed, "ImagePullBackOff", "cannot pull")
        };
        let chain = objects.iter().map(step).collect();
        target.causes = vec![Explanation { chain, count, ..Explanation::default() }];
        target
    }

    /// Deployments with all that belongs to them, each of which is a target: ReplicaSets, and two Pods of each.
    fn rollouts(number: usize) -> Vec<TargetReport> {
        let rollout = |at: usize| {
            let (web, set) = (format!("web-{at}"), format!("web-{at}-5d9"));
            let pods = [format!("{set}-a"), format!("{set}-b")];
            let below = [("ReplicaSet", &*set), ("Pod", &*pods[0])];
            [
                chained("Deployment", &web, &below, 2),
                chained("ReplicaSet", &set, &below[1..], 2),
                chained("Pod", &pods[0], &[], 1),
                // Another of those with the cause, which no chain names.
                chained("Pod", &pods[1], &[], 1),
                // Two that explain each other: neither is left out.
                chained("Service", &web, &[("Ingress", &web)], 1),
                chained("Ingress", &web, &[("Service", &web)], 1),
            ]
        };
        (0..number).flat_map(rollout).collect()
    }

    fn explained(targets: &[&TargetReport]) -> Vec<bool> {
        let chains = Chains::new(targets);
        targets.iter().map(|target| chains.explain(target)).collect()
    }

    #[test]
    fn what_a_chain_explains_is_found_without_comparing_all() {
        let targets = rollouts(12);
        let targets: Vec<&TargetReport> = targets.iter().collect();
        let one = [false, true, true, true, false, false];
        assert_eq!(explained(&targets), one.repeat(12));
        let compared = |target: &&TargetReport| {
            targets.iter().any(|other| explains(other, target) && !explains(target, other))
        };
        assert_eq!(explained(&targets), targets.iter().map(compared).collect::<Vec<_>>());
    }

    #[test]
    fn thousands_of_targets_with_chains_are_not_compared_with_each_other() {
        // Alike Deployments, and Pods that all wait for the same claim, which is a target as well.
        let claim = [("PersistentVolumeClaim", "data")];
        let pods = (0..5000).map(|at| chained("Pod", &format!("db-{at}"), &claim, 1));
        let targets: Vec<TargetReport> =
            rollouts(1000).into_iter().chain(pods).chain([chained(claim[0].0, claim[0].1, &[], 1)]).collect();
        let targets: Vec<&TargetReport> = targets.iter().collect();
        COMPARED.set(0);
        assert_eq!(explained(&targets).into_iter().filter(|is_explained| *is_explained).count(), 3001);
        assert!(COMPARED.get() < 10 * targets.len(), "{} comparisons", COMPARED.get());
    }
}
