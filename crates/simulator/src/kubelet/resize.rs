//! In-place resize: what becomes of a Pod whose containers ask for other resources than they have, as the allocation manager and
//! `computePodResizeAction` of the kubelet decide it.
//!
//! What is allocated is in `allocatedResources` of the containers, what they have in `resources`: there is no other memory of it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

use super::container;
use super::input::{EventKind, Input, Timeline};
use super::status::{Containers, condition, seconds, time};
use crate::scenario::Resize;

pub(super) const PENDING: &str = "PodResizePending";
pub(super) const IN_PROGRESS: &str = "PodResizeInProgress";
/// How long a runtime takes to change the resources of containers.
const TAKES: i64 = 1;
/// `retryDelay`: after which a resize that does not fit is tried again, beside each time that Pods of the Node change.
const RETRY: i64 = 3 * 60;

type Quantities = BTreeMap<String, Quantity>;

/// What a look finds out about a resize.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Conditions `PodResizePending` and `PodResizeInProgress`.
    pub(super) conditions: Vec<PodCondition>,
    /// Whether the containers are given what the Pod asks for.
    pub(super) is_allocated: bool,
    /// Since when the containers have their new resources, or are restarted for them.
    pub(super) actuated: Option<i64>,
}

fn requests(resources: Option<&ResourceRequirements>) -> Option<&Quantities> {
    resources.and_then(|resources| resources.requests.as_ref()).filter(|requests| !requests.is_empty())
}

fn limits(resources: Option<&ResourceRequirements>) -> Option<&Quantities> {
    resources.and_then(|resources| resources.limits.as_ref()).filter(|limits| !limits.is_empty())
}

/// Has a container what it asks for?
pub(super) fn has_resources(container: &Container, status: &ContainerStatus) -> bool {
    let (wanted, has) = (container.resources.as_ref(), status.resources.as_ref());
    requests(wanted) == requests(has) && limits(wanted) == limits(has)
}

/// What a container that runs has from now on.
pub(super) fn actuate(container: &Container, status: &mut ContainerStatus) {
    let wanted = container.resources.as_ref();
    status.resources = Some(ResourceRequirements {
        claims: None,
        limits: limits(wanted).cloned(),
        requests: requests(wanted).cloned(),
    });
}

/// Gives a container what it asks for.
pub(super) fn allocate(container: &Container, status: &mut ContainerStatus) {
    status.allocated_resources = requests(container.resources.as_ref()).cloned();
}

/// Does the policy of a changed resource ask for a restart?
pub(super) fn needs_restart(container: &Container, status: &ContainerStatus) -> bool {
    let differs = |name: &str| {
        let of = |list: Option<&Quantities>| list.and_then(|list| list.get(name).cloned());
        let (wanted, has) = (container.resources.as_ref(), status.resources.as_ref());
        of(requests(wanted)) != of(requests(has)) || of(limits(wanted)) != of(limits(has))
    };
    let policies = container.resize_policy.iter().flatten();
    policies
        .into_iter()
        .any(|policy| policy.restart_policy == "RestartContainer" && differs(&policy.resource_name))
}

/// Has a container that does not run ended because its resources change, since then?
pub(super) fn restarts(container: &Container, status: &ContainerStatus, since: i64) -> bool {
    let finished = container::last_run(status).and_then(|last| last.finished_at.as_ref()).map(seconds);
    finished.is_some_and(|finished| finished >= since)
        && !has_resources(container, status)
        && needs_restart(container, status)
}

/// The containers that run, with their statuses.
pub(super) fn running<'a>(
    spec: &'a PodSpec,
    containers: &'a Containers,
) -> impl Iterator<Item = (&'a Container, &'a ContainerStatus)> {
    let init = spec.init_containers.iter().flatten().zip(&containers.init);
    let all = init.chain(spec.containers.iter().zip(&containers.regular));
    all.filter(|(_, status)| container::running_since(status).is_some())
}

/// The resources of a Pod's containers as `podResizeMessage` prints them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Allocation<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Allocation<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

#[derive(Serialize)]
struct Allocation<'a> {
    name: &'a str,
    resources: Amounts<'a>,
}

#[derive(Serialize)]
struct Amounts<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<&'a Quantities>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<&'a Quantities>,
}

fn message(prefix: &str, spec: &PodSpec, generation: i64, error: &str) -> String {
    fn allocation(container: &Container) -> Allocation<'_> {
        let resources = container.resources.as_ref();
        let resources = Amounts { limits: limits(resources), requests: requests(resources) };
        Allocation { name: &container.name, resources }
    }
    let summary = Summary {
        init_containers: spec.init_containers.iter().flatten().map(allocation).collect(),
        containers: spec.containers.iter().map(allocation).collect(),
        generation,
        error,
    };
    match serde_json::to_string(&summary) {
        Ok(summary) => format!("{prefix}: {summary}"),
        Err(_) => prefix.to_owned(),
    }
}

/// A condition that is true: `updatedPodResizeCondition`.
fn made(
    type_: &str,
    old: Option<&PodCondition>,
    why: (&str, &str),
    (generation, now): (i64, i64),
) -> PodCondition {
    let (reason, message) = why;
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let same = old.filter(|old| old.reason.as_deref().unwrap_or_default() == reason);
    let since = same.and_then(|old| old.last_transition_time.clone()).unwrap_or_else(|| time(now));
    PodCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: text(reason),
        message: text(message),
        last_probe_time: Some(since.clone()),
        last_transition_time: Some(since),
        observed_generation: Some(generation),
    }
}

/// Looks at the resources of a Pod that runs.
pub(super) fn plan(
    input: &Input<'_>,
    old: &PodStatus,
    containers: &Containers,
    timeline: &mut Timeline,
) -> Plan {
    let Input { pod, spec, now, .. } = *input;
    let generation = pod.metadata.generation.unwrap_or_default();
    let (pending, in_progress) = (condition(old, PENDING), condition(old, IN_PROGRESS));
    let progresses = in_progress.and_then(|condition| condition.observed_generation) == Some(generation);
    let mut is_desired = true;
    let mut is_actual = true;
    for (container, status) in running(spec, containers) {
        // Of a kubelet that does not report what containers have.
        if status.resources.is_none() && status.allocated_resources.is_none() {
            continue;
        }
        let is_allocated = status.allocated_resources.as_ref().filter(|all| !all.is_empty())
            == requests(container.resources.as_ref());
        let has = has_resources(container, status);
        is_actual &= has;
        // Limits that are allocated are nowhere but in what progresses.
        is_desired &= is_allocated && (has || progresses);
    }
    let mut plan = Plan { is_allocated: is_desired, ..Plan::default() };
    if is_desired && is_actual && in_progress.is_none() {
        return plan;
    }
    let mut in_progress = in_progress.cloned();
    if !is_desired {
        if let Some((reason, why)) = (input.refuses)(pod) {
            let condition = made(PENDING, pending, ("Deferred", &why), (generation, now));
            let is_known = pending.is_some_and(|old| {
                old.reason == condition.reason && old.observed_generation == condition.observed_generation
            });
            if !is_known {
                let note = message(&format!("Pod resize {reason}"), spec, generation, &why);
                timeline.decided(EventKind::warning("ResizeDeferred"), note);
            }
            timeline.wake(now + RETRY);
            plan.conditions.push(condition);
        } else {
            plan.is_allocated = true;
            in_progress = Some(made(IN_PROGRESS, None, ("", ""), (generation, now)));
            let note = message("Pod resize started", spec, generation, "");
            timeline.decided(EventKind::normal("ResizeStarted"), note);
        }
    }
    if let Some(condition) = in_progress {
        progress(input, containers, timeline, condition, &mut plan);
    }
    plan
}

/// What the scenario says about the resize of a container that runs.
fn script<'a>(input: &'a Input<'_>, containers: &Containers) -> Option<&'a Resize> {
    let running =
        running(input.spec, containers).filter(|(container, status)| !has_resources(container, status));
    let names: Vec<&str> = running.map(|(container, _)| &*container.name).collect();
    names.into_iter().find_map(|name| input.scripts.containers.get(name)?.resize.as_ref())
}

/// A resize that was allocated: it ends, fails, or goes on.
fn progress(
    input: &Input<'_>,
    containers: &Containers,
    timeline: &mut Timeline,
    condition: PodCondition,
    plan: &mut Plan,
) {
    let Input { spec, now, .. } = *input;
    let since = condition.last_transition_time.as_ref().map_or(now, seconds);
    let generation = condition.observed_generation.unwrap_or_default();
    let script = script(input, containers);
    let due = since + script.and_then(|script| script.takes).map_or(TAKES, crate::scenario::Delay::seconds);
    // What has failed stays so, and is tried with the next change.
    if condition.reason.is_some() || due > now {
        timeline.wake(due);
        plan.conditions.push(condition);
        return;
    }
    if let Some(why) = script.and_then(|script| script.fails.as_deref()) {
        let failed = made(IN_PROGRESS, Some(&condition), ("Error", why), (generation, now));
        let note = message("Pod resize error", spec, generation, why);
        timeline.decided(EventKind::warning("ResizeError"), note);
        plan.conditions.push(failed);
        return;
    }
    plan.actuated = Some(due);
    let mut all = spec.init_containers.iter().flatten().zip(&containers.init);
    let mut regular = spec.containers.iter().zip(&containers.regular);
    let is_open = |(container, status): (&Container, &ContainerStatus)| {
        container::running_since(status).map_or_else(
            || restarts(container, status, since),
            |_| !has_resources(container, status) && needs_restart(container, status),
        )
    };
    if all.any(is_open) || regular.any(is_open) {
        // It is over when the containers run again.
        plan.conditions.push(condition);
        return;
    }
    let note = message("Pod resize completed", spec, generation, "");
    timeline.decided(EventKind::normal("ResizeCompleted"), note);
}

/// The Pod with what its containers were given: `UpdatePodFromAllocation`.
pub(super) fn with_allocation(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    let statuses: Vec<ContainerStatus> = pod
        .status
        .iter()
        .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses))
        .flatten()
        .cloned()
        .collect();
    let Some(spec) = &mut pod.spec else { return pod };
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let known = statuses.iter().find(|status| status.name == container.name);
        if let Some(allocated) = known.and_then(|status| status.allocated_resources.clone()) {
            container.resources.get_or_insert_default().requests = Some(allocated);
        }
    }
    pod
}
