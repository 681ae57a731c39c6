//! Rolling updates of a DaemonSet, by unavailability or by surge (`rollingUpdate` upstream).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::RollingUpdateDaemonSet;
use k8s_openapi::api::core::v1::Pod;

use super::manage::Plan;
use super::{PodsOfNodes, Sync, node};
use crate::controller::Error;
use crate::meta;
use crate::workloads::int_or_percent::scaled;

/// The Pods of the present template and of an old one.
type NewAndOld<'p> = (Option<&'p Arc<Pod>>, Option<&'p Arc<Pod>>);

impl Sync<'_> {
    pub(super) fn is_rolling(&self) -> bool {
        let strategy = self.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
    }

    fn rolling(&self) -> Option<&RollingUpdateDaemonSet> {
        let strategy = self.set.spec.as_ref()?.update_strategy.as_ref()?;
        strategy.rolling_update.as_ref().filter(|_| self.is_rolling())
    }

    fn surge(&self, nodes: i32) -> i32 {
        self.rolling()
            .and_then(|rolling| rolling.max_surge.as_ref())
            .map_or(0, |value| scaled(value, nodes, true))
    }

    pub(super) fn allows_surge(&self) -> bool {
        self.surge(1) > 0
    }

    /// Replaces Pods of old templates.
    pub(super) async fn update(&self, pods: &PodsOfNodes, hash: &str) -> Result<(), Error> {
        let mut pods = pods.clone();
        let mut desired = 0;
        for node in self.nodes.iter().filter(|node| node::fits(self.set, node).should_run) {
            desired += 1;
            pods.entry(meta::name(&**node).to_owned()).or_default();
        }
        let max_unavailable = self.rolling().and_then(|rolling| rolling.max_unavailable.as_ref());
        let max_unavailable = max_unavailable.map_or(0, |value| scaled(value, desired, true));
        let max_surge = self.surge(desired);
        let plan = match (max_unavailable, max_surge) {
            (0, 0) => self.by_unavailability(&pods, hash, i32::from(desired > 0)),
            (max, 0) => self.by_unavailability(&pods, hash, max),
            (_, max) => self.by_surge(&pods, hash, max, desired),
        };
        self.carry_out(plan, hash).await
    }

    /// The Pod of the present template and the one of an old template on a Node; nothing if there are several of one.
    fn new_and_old<'p>(&self, pods: &'p [Arc<Pod>], hash: &str) -> Option<NewAndOld<'p>> {
        let staying = pods.iter().filter(|pod| !meta::is_deleting(&***pod));
        let (new, old): (Vec<_>, Vec<_>) = staying.partition(|pod| self.is_updated(pod, hash));
        (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
    }

    fn by_unavailability(&self, pods: &PodsOfNodes, hash: &str, max: i32) -> Plan {
        let mut unavailable = 0;
        let (mut allowed, mut candidates) = (Vec::new(), Vec::new());
        for pods in pods.values() {
            match self.new_and_old(pods, hash) {
                Some((Some(new), None)) => unavailable += i32::from(!self.is_available(new)),
                Some((None, Some(old))) if !self.is_available(old) => {
                    allowed.push(old.clone());
                    unavailable += 1;
                }
                Some((None, Some(old))) if unavailable < max => candidates.push(old.clone()),
                Some((None, Some(_))) => {}
                _ => unavailable += 1,
            }
        }
        allowed.extend(candidates.into_iter().take(usize::try_from(max - unavailable).unwrap_or_default()));
        Plan { create: Vec::new(), delete: allowed }
    }

    fn by_surge(&self, pods: &PodsOfNodes, hash: &str, max: i32, desired: i32) -> Plan {
        let (mut surge, mut available) = (0, 0);
        let mut plan = Plan::default();
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for (name, pods) in pods {
            let Some((new, old)) = self.new_and_old(pods, hash) else {
                surge += 1;
                continue;
            };
            available += i32::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            let Some(old) = old else { continue };
            let node = self.nodes.iter().find(|node| meta::name(&***node) == name);
            let should_run = node.is_some_and(|node| node::fits(self.set, node).should_run);
            match new {
                Some(new) if self.is_available(new) => plan.delete.push(old.clone()),
                Some(_) => surge += 1,
                None if !self.is_available(old) && should_run => plan.create.push(name.clone()),
                None if !self.is_available(old) => plan.delete.push(old.clone()),
                None if !should_run => misplaced.push(old.clone()),
                None if surge < max => candidates.push(name.clone()),
                None => {}
            }
        }
        plan.delete
            .extend(misplaced.into_iter().take(usize::try_from(available - desired).unwrap_or_default()));
        plan.create.extend(candidates.into_iter().take(usize::try_from(max - surge).unwrap_or_default()));
        plan
    }
}
