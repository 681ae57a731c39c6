//! Status of a Pod from those of its containers: phase and conditions, as `status/generate.go` and `getPhase` make them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::input::Role;

const READY_TO_START: &str = "PodReadyToStartContainers";
/// `PodConditionsByKubelet`.
const OWN: [&str; 5] = [READY_TO_START, "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// A time of whole seconds.
pub(super) fn time(seconds: i64) -> Time {
    Time(Timestamp::from_second(seconds).unwrap_or_default())
}

/// Whole seconds of a time.
pub(super) fn seconds(time: &Time) -> i64 {
    time.0.as_second()
}

pub(super) fn condition<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// Since when the Pod is ready to start containers.
pub(super) fn ready_to_start(status: &PodStatus) -> Option<i64> {
    let condition = condition(status, READY_TO_START).filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(seconds)
}

fn exit_code(state: Option<&ContainerState>) -> Option<i32> {
    state?.terminated.as_ref().map(|terminated| terminated.exit_code)
}

/// `podutil.ContainerShouldRestart`.
pub(super) fn should_restart(spec: &PodSpec, container: &Container, role: Role, code: i32) -> bool {
    for rule in container.restart_policy_rules.iter().flatten() {
        let Some(codes) = &rule.exit_codes else { continue };
        let is_in = codes.values.iter().flatten().any(|value| *value == code);
        let applies = if codes.operator == "NotIn" { !is_in } else { is_in };
        if applies {
            return rule.action == "Restart";
        }
    }
    let policy = container.restart_policy.as_deref().or(spec.restart_policy.as_deref()).unwrap_or("Always");
    match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        // An init container that has succeeded is done.
        _ => role != Role::Init || code != 0,
    }
}

/// Statuses of the containers of a Pod, in the order of its spec.
pub(super) struct Containers {
    pub(super) init: Vec<ContainerStatus>,
    pub(super) regular: Vec<ContainerStatus>,
}

#[derive(Default)]
struct Counts {
    pending_init: usize,
    pending_sidecars: usize,
    failed_init: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
}

/// `getPhase`.
pub(super) fn phase(spec: &PodSpec, containers: &Containers, is_terminal: bool) -> &'static str {
    let mut counts = Counts::default();
    for (container, status) in spec.init_containers.iter().flatten().zip(&containers.init) {
        count_init(spec, container, status, &mut counts);
    }
    for (container, status) in spec.containers.iter().zip(&containers.regular) {
        let state = status.state.as_ref();
        let is_waiting = state.is_some_and(|state| state.waiting.is_some());
        let code = exit_code(state);
        let ended = code.or_else(|| exit_code(status.last_state.as_ref()).filter(|_| is_waiting));
        if state.is_some_and(|state| state.running.is_some()) {
            counts.running += 1;
        } else if let Some(ended) = ended {
            counts.stopped += 1;
            counts.stopped_for_good += usize::from(!should_restart(spec, container, Role::Regular, ended));
            counts.succeeded += usize::from(code == Some(0));
        } else {
            counts.waiting += 1;
        }
    }
    let has_initialized = containers.regular.iter().any(|status| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    if counts.failed_init > 0 {
        return "Failed";
    }
    if counts.pending_init > 0 || (counts.pending_sidecars > 0 && !has_initialized) || counts.waiting > 0 {
        return "Pending";
    }
    if counts.running > 0 {
        return "Running";
    }
    if counts.stopped == 0 {
        return "Pending";
    }
    if !is_terminal && counts.stopped != counts.stopped_for_good {
        return "Running";
    }
    if counts.stopped == counts.succeeded { "Succeeded" } else { "Failed" }
}

fn count_init(spec: &PodSpec, container: &Container, status: &ContainerStatus, counts: &mut Counts) {
    let state = status.state.as_ref();
    let is_running = state.is_some_and(|state| state.running.is_some());
    let is_waiting = state.is_some_and(|state| state.waiting.is_some());
    let code = exit_code(state).or_else(|| exit_code(status.last_state.as_ref()).filter(|_| is_waiting));
    if Role::of_init(container) == Role::Sidecar {
        counts.running += usize::from(is_running);
        counts.pending_sidecars += usize::from(is_running && status.started != Some(true));
        if is_waiting && code.is_none() {
            counts.pending_sidecars += 1;
            counts.waiting += 1;
        }
        return;
    }
    match code.filter(|_| !is_running) {
        None => counts.pending_init += 1,
        Some(0) => {}
        Some(code) => {
            counts.failed_init += usize::from(!should_restart(spec, container, Role::Init, code));
            // Without it the Pod counts as pending as well: its containers wait.
        }
    }
}

/// What conditions are made of.
pub(super) struct Generated<'a> {
    pub(super) pod: &'a Pod,
    pub(super) spec: &'a PodSpec,
    pub(super) old: &'a PodStatus,
    pub(super) containers: &'a Containers,
    pub(super) phase: &'a str,
    /// Since when the Pod is ready to start containers.
    pub(super) ready_to_start: Option<i64>,
    pub(super) now: i64,
}

/// Go's `%s` of a list.
fn list(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

impl Generated<'_> {
    fn make(&self, type_: &str, status: bool, why: Option<(&str, String)>) -> PodCondition {
        let status = if status { "True" } else { "False" };
        let old = condition(self.old, type_).filter(|old| old.status == status);
        let now = || time(self.now);
        let (reason, message) = why.map_or((None, None), |(reason, message)| {
            (Some(reason.to_owned()), Some(message).filter(|message| !message.is_empty()))
        });
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason,
            message,
            last_transition_time: Some(
                old.and_then(|old| old.last_transition_time.clone()).unwrap_or_else(now),
            ),
            observed_generation: self.pod.metadata.generation,
            ..PodCondition::default()
        }
    }

    /// `GenerateContainersReadyCondition`: none if it is true.
    fn unready(&self) -> Option<(&'static str, String)> {
        match self.phase {
            "Succeeded" => return Some(("PodCompleted", String::new())),
            "Failed" => return Some(("PodFailed", String::new())),
            _ => {}
        }
        let init = self.spec.init_containers.iter().flatten().zip(&self.containers.init);
        let sidecars = init.filter(|(container, _)| Role::of_init(container) == Role::Sidecar);
        let unready: Vec<&str> = sidecars
            .chain(self.spec.containers.iter().zip(&self.containers.regular))
            .filter(|(_, status)| !status.ready)
            .map(|(container, _)| &*container.name)
            .collect();
        let message = || format!("containers with unready status: {}", list(&unready));
        (!unready.is_empty()).then(|| ("ContainersNotReady", message()))
    }

    /// `GeneratePodInitializedCondition`.
    fn initialized(&self) -> PodCondition {
        const TYPE: &str = "Initialized";
        let init = self.spec.init_containers.iter().flatten().zip(&self.containers.init);
        let incomplete = init.filter(|(container, status)| match Role::of_init(container) {
            Role::Sidecar => status.started != Some(true),
            _ => !status.ready,
        });
        let incomplete: Vec<&str> = incomplete.map(|(container, _)| &*container.name).collect();
        if self.phase == "Succeeded" {
            return self.make(TYPE, true, Some(("PodCompleted", String::new())));
        }
        let has_started = self.containers.regular.iter().any(|status| {
            let state = status.state.as_ref();
            status.started == Some(true)
                || exit_code(state).is_some()
                || exit_code(status.last_state.as_ref()).is_some()
        });
        if incomplete.is_empty() || has_started {
            return self.make(TYPE, true, None);
        }
        let message = format!("containers with incomplete status: {}", list(&incomplete));
        self.make(TYPE, false, Some(("ContainersNotInitialized", message)))
    }

    /// Readiness gates that are not met: `GeneratePodReadyCondition`.
    fn gates(&self) -> Option<(&'static str, String)> {
        let mut messages = Vec::new();
        for gate in self.spec.readiness_gates.iter().flatten() {
            let quoted = settled_go::strconv::quote(&gate.condition_type);
            match condition(self.old, &gate.condition_type) {
                None => messages
                    .push(format!("corresponding condition of pod readiness gate {quoted} does not exist.")),
                Some(condition) if condition.status != "True" => messages.push(format!(
                    "the status of pod readiness gate {quoted} is not \"True\", but {}",
                    condition.status
                )),
                Some(_) => {}
            }
        }
        (!messages.is_empty()).then(|| ("ReadinessGatesNotReady", messages.join(", ")))
    }

    /// All conditions: those of others first.
    pub(super) fn conditions(&self) -> Vec<PodCondition> {
        let mut conditions: Vec<PodCondition> = self.old.conditions.iter().flatten().cloned().collect();
        conditions.retain(|condition| !OWN.contains(&&*condition.type_));
        let mut started = self.make(READY_TO_START, self.ready_to_start.is_some(), None);
        if let (Some(at), None) = (self.ready_to_start, ready_to_start(self.old)) {
            // What comes next is counted from here.
            started.last_transition_time = Some(time(at));
        }
        conditions.push(started);
        conditions.push(self.initialized());
        let unready = self.unready();
        let ready = unready.clone().or_else(|| self.gates());
        conditions.push(self.make("Ready", ready.is_none(), ready));
        conditions.push(self.make("ContainersReady", unready.is_none(), unready));
        conditions.push(self.make("PodScheduled", true, None));
        conditions
    }
}
