//! Rule for Pods: phase, then the most relevant container that is not ready.

use std::borrow::Cow;
use std::fmt;

use jiff::SignedDuration;

use super::context::{
    Condition, Context, Truth, current, in_progress, path, recoverable, terminal, whole_number,
};
use super::member;
use crate::fields::Field;
use crate::node::{Kind, Node, Shown};
use crate::reason;
use crate::text::text;
use crate::verdict::{Basis, FailureClass, Status, Text, Verdict};

/// A reason the kubelet gives for a container that waits, and what it means.
struct Waiting {
    reason: &'static str,
    class: FailureClass,
    terminal: bool,
}

const fn waiting(reason: &'static str, class: FailureClass, terminal: bool) -> Waiting {
    Waiting { reason, class, terminal }
}

/// Reasons to wait that are failures. `InvalidImageName` cannot pass without a change of the Pod; whatever the kubelet
/// tries again may.
const WAITING: &[Waiting] = &[
    waiting("CrashLoopBackOff", FailureClass::Crash, false),
    waiting("ImagePullBackOff", FailureClass::Image, false),
    waiting("ErrImagePull", FailureClass::Image, false),
    waiting("ErrImageNeverPull", FailureClass::Image, false),
    waiting("ImageInspectError", FailureClass::Image, false),
    waiting("RegistryUnavailable", FailureClass::Image, false),
    waiting("SignatureValidationFailed", FailureClass::Image, false),
    waiting("InvalidImageName", FailureClass::Image, true),
    waiting("CreateContainerConfigError", FailureClass::Configuration, false),
    waiting("CreateContainerError", FailureClass::Configuration, false),
    waiting("RunContainerError", FailureClass::Configuration, false),
    waiting("PreCreateHookError", FailureClass::Configuration, false),
    waiting("PreStartHookError", FailureClass::Configuration, false),
    waiting("PostStartHookError", FailureClass::Crash, false),
    waiting("CreatePodSandboxError", FailureClass::Network, false),
];

/// Kind of a container, by its list in the status of the Pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Init,
    /// An init container that stays: all others have ended once the Pod runs.
    Sidecar,
    Main,
    Ephemeral,
}

impl Role {
    fn label(self) -> &'static str {
        match self {
            Self::Init => "init container",
            Self::Sidecar => "sidecar container",
            Self::Main => "container",
            Self::Ephemeral => "ephemeral container",
        }
    }
}

pub(super) fn pod(context: &Context<'_, '_>) -> Verdict {
    let phase = context.text(Field::Phase).unwrap_or_default();
    match &*phase {
        "Succeeded" => current("Succeeded", "Pod has completed successfully"),
        "Failed" => failed(context),
        "Running" => not_done(context, running),
        "Pending" => not_done(context, pending),
        "Unknown" => {
            let message = context
                .text(Field::StatusMessage)
                .filter(|message| !message.is_empty())
                .map_or(Cow::Borrowed("the node has not reported the state of the Pod"), |message| message);
            Verdict::new(Status::Unknown, Basis::KindRule, "PhaseUnknown", message.into_owned())
        }
        "" => in_progress("PodNotObserved", "Pod phase not available"),
        phase => {
            context.unreadable(".status.phase", text!("unknown phase {phase}"));
            in_progress("PodNotObserved", "Pod phase not available")
        }
    }
}

/// Phase Failed: the Pod will not run again, so only its replacement helps.
fn failed(context: &Context<'_, '_>) -> Verdict {
    let message = context.text(Field::StatusMessage).filter(|message| !message.is_empty());
    let with_message = |fallback: &str| match &message {
        Some(message) => text!("{fallback}: {message}"),
        None => fallback.to_owned(),
    };
    if let Some(disruption) = context.conditions().iter().find(|c| c.is("DisruptionTarget", Truth::True))
        && disruption.is_reason("PreemptionByScheduler")
    {
        let message = text!("Pod was preempted: {}", disruption.describe());
        return terminal(FailureClass::Scheduling, "Preempted", message);
    }
    let reason = context.text(Field::StatusReason).filter(|reason| !reason.is_empty());
    match reason.as_deref() {
        Some("Evicted") => {
            return terminal(FailureClass::Scheduling, "Evicted", with_message("Pod was evicted"));
        }
        Some("Preempting" | "Preempted") => {
            return terminal(FailureClass::Scheduling, "Preempted", with_message("Pod was preempted"));
        }
        Some("DeadlineExceeded") => {
            return terminal(
                FailureClass::Deadline,
                "DeadlineExceeded",
                with_message("Pod ran past its deadline"),
            );
        }
        Some(reason) => {
            let class = match reason {
                "UnexpectedAdmissionError" | "NodeAffinity" | "NodeLost" | "NodeShutdown" | "Terminated" => {
                    FailureClass::Scheduling
                }
                reason if reason.starts_with("OutOf") => FailureClass::Scheduling,
                _ => FailureClass::Other,
            };
            return terminal(class, reason.to_owned(), with_message("Pod has failed"));
        }
        None => {}
    }
    let ended = containers(context).find_map(|(role, status)| {
        let cause = Cause::of(status).filter(|cause| matches!(cause, Cause::Ended { .. }))?;
        Some(cause.verdict(role, status, false, 0))
    });
    match ended {
        Some(verdict) => verdict,
        None => terminal(
            FailureClass::Crash,
            "PodFailed",
            with_message("Pod has completed, but not successfully"),
        ),
    }
}

/// A Pod that is neither ready nor ended: what stops it, else what it waits for.
fn not_done(context: &Context<'_, '_>, waits_for: fn(&Context<'_, '_>, Seen<'_>) -> Verdict) -> Verdict {
    let mut seen = Seen::default();
    for condition in context.conditions().iter() {
        if condition.is_type("Ready") {
            seen.ready = Some(condition);
        } else if condition.is_type("PodScheduled") {
            seen.scheduled = Some(condition);
        } else if condition.is_type("ContainersReady") {
            seen.containers_ready = Some(condition);
        } else if condition.is_type("PodReadyToStartContainers") {
            seen.sandbox = Some(condition);
        } else if condition.is("DisruptionTarget", Truth::True) {
            seen.disrupted = Some(condition);
        }
    }
    if let Some(ready) = seen.ready.filter(Condition::is_true) {
        return context.decided_by(&ready, || current("Ready", "Pod is Ready"));
    }
    if let Some(verdict) = trouble(context) {
        return verdict;
    }
    waits_for(context, seen)
}

/// The conditions of a Pod that say what it waits for.
#[derive(Clone, Copy, Default)]
struct Seen<'a> {
    ready: Option<Condition<'a>>,
    scheduled: Option<Condition<'a>>,
    containers_ready: Option<Condition<'a>>,
    sandbox: Option<Condition<'a>>,
    disrupted: Option<Condition<'a>>,
}

/// The first container that fails, init containers before the others. Ephemeral containers are for debugging
/// and never decide; their trouble is noted.
fn trouble(context: &Context<'_, '_>) -> Option<Verdict> {
    let restarted = context.text(Field::RestartPolicy).is_none_or(|policy| policy != "Never");
    let mut first = None;
    let mut others = 0;
    for (role, status) in containers(context) {
        let Some(cause) = Cause::of(status) else { continue };
        if role == Role::Ephemeral {
            context.note(
                ".status.ephemeralContainerStatuses",
                cause.verdict(role, status, restarted, 0).message,
            );
        } else if first.is_none() {
            first = Some((role, status, cause));
        } else {
            others += 1;
        }
    }
    first.map(|(role, status, cause)| cause.verdict(role, status, restarted, others))
}

/// Why a container fails.
enum Cause<'a> {
    /// It waits, for a reason that is a failure.
    Waits { known: &'static Waiting, last: Option<Exit<'a>>, detail: Option<Node<'a>> },
    /// It has ended with an error.
    Ended { exit: Exit<'a>, detail: Option<Node<'a>> },
}

impl<'a> Cause<'a> {
    fn of(status: Node<'a>) -> Option<Self> {
        let state = status.get("state")?;
        if let Some(waiting) = state.get("waiting").filter(|waiting| !waiting.is_null()) {
            let reason = waiting.get("reason")?;
            let known = WAITING.iter().find(|known| reason.is(known.reason))?;
            return Some(Self::Waits { known, last: last_exit(status), detail: detail(waiting) });
        }
        let terminated = state.get("terminated")?;
        let exit = Exit::read(terminated).filter(|exit| exit.code != 0 || exit.is_oom())?;
        Some(Self::Ended { exit, detail: detail(terminated) })
    }

    /// The verdict on the Pod. `restarted`: the kubelet starts containers that end again. `others` fail too.
    fn verdict(self, role: Role, status: Node<'_>, restarted: bool, others: usize) -> Verdict {
        match self {
            Self::Waits { known, last, detail } => {
                let message =
                    ContainerLine { role, status, what: &known.reason, last: last.as_ref(), detail, others }
                        .text();
                // Why it crashes says more than that the kubelet waits before it tries again.
                let reason = match &last {
                    Some(last) if known.reason == "CrashLoopBackOff" && last.is_oom() => "OOMKilled",
                    _ => known.reason,
                };
                if known.terminal {
                    terminal(known.class, reason, message)
                } else {
                    recoverable(known.class, reason, message)
                }
            }
            Self::Ended { exit, detail } => {
                let message = ContainerLine { role, status, what: &exit, last: None, detail, others }.text();
                let reason = match exit.reason.as_deref() {
                    // The kubelet's `Error` says only that the exit code is not zero.
                    None | Some("Error" | "Completed" | "") => Cow::Borrowed("ContainerExited"),
                    Some(reason) => Cow::Owned(reason.to_owned()),
                };
                if restarted {
                    recoverable(FailureClass::Crash, reason, message)
                } else {
                    terminal(FailureClass::Crash, reason, message)
                }
            }
        }
    }
}

/// A container's state in one line: `container app: CrashLoopBackOff, last exit code 1, restarted 5 times: why`.
struct ContainerLine<'a> {
    role: Role,
    status: Node<'a>,
    what: &'a dyn fmt::Display,
    last: Option<&'a Exit<'a>>,
    /// The kubelet's own words.
    detail: Option<Node<'a>>,
    /// Number of other failing containers.
    others: usize,
}

impl ContainerLine<'_> {
    fn text(&self) -> String {
        let mut text = text!("{self}");
        // The termination message ends with a newline, as a file does.
        text.truncate(text.trim_end().len());
        text
    }
}

impl fmt::Display for ContainerLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.role.label(), Name(self.status), self.what)?;
        if let Some(last) = self.last {
            write!(f, ", last {last}")?;
        }
        write!(f, "{}", Restarts(self.status))?;
        match self.others {
            0 => {}
            1 => f.write_str(" (1 more container fails)")?,
            others => write!(f, " ({others} more containers fail)")?,
        }
        match self.detail {
            Some(detail) => write!(f, ": {}", Shown(detail)),
            None => Ok(()),
        }
    }
}

/// `, restarted 2 times`, or nothing.
struct Restarts<'a>(Node<'a>);

impl fmt::Display for Restarts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get("restartCount").and_then(whole_number).unwrap_or(0) {
            ..=0 => Ok(()),
            1 => f.write_str(", restarted 1 time"),
            times => write!(f, ", restarted {times} times"),
        }
    }
}

/// A container's name.
struct Name<'a>(Node<'a>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get("name").filter(|name| name.kind() == Kind::String && !name.is("")) {
            Some(name) => Shown(name).fmt(f),
            None => f.write_str("(unnamed)"),
        }
    }
}

/// The message of a state, where it has one.
fn detail(state: Node<'_>) -> Option<Node<'_>> {
    state.get("message").filter(|message| message.kind() == Kind::String && !message.is(""))
}

/// Last termination state of the container.
fn last_exit(status: Node<'_>) -> Option<Exit<'_>> {
    status.get("lastState")?.get("terminated").and_then(Exit::read)
}

/// Termination state of a container.
struct Exit<'a> {
    code: i64,
    reason: Option<Cow<'a, str>>,
    signal: Option<i64>,
}

impl<'a> Exit<'a> {
    fn read(terminated: Node<'a>) -> Option<Self> {
        if terminated.kind() != Kind::Map {
            return None;
        }
        Some(Self {
            code: terminated.get("exitCode").and_then(whole_number).unwrap_or(0),
            reason: member(terminated, "reason"),
            signal: terminated.get("signal").and_then(whole_number).filter(|&signal| signal != 0),
        })
    }

    fn is_oom(&self) -> bool {
        self.reason.as_deref() == Some("OOMKilled")
    }
}

impl fmt::Display for Exit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_deref() {
            None | Some("" | "Error" | "Completed") => write!(f, "exit code {}", self.code)?,
            Some(reason) => write!(f, "{reason} (exit code {})", self.code)?,
        }
        match self.signal {
            Some(signal) => write!(f, ", signal {signal}"),
            None => Ok(()),
        }
    }
}

fn pending(context: &Context<'_, '_>, seen: Seen<'_>) -> Verdict {
    if let Some(condition) = seen.scheduled.filter(Condition::is_false) {
        if condition.is_reason("SchedulingGated") {
            let gates = names(context, Field::SchedulingGates, "name");
            let message = if gates.is_empty() {
                Text::from(condition.describe())
            } else {
                let many = if gates.contains(',') { "s" } else { "" };
                text!("held back by scheduling gate{many} {gates}").into()
            };
            return in_progress(reason::SCHEDULING_GATED, message).failure(FailureClass::Scheduling, false);
        }
        if condition.is_reason("Unschedulable") {
            return unschedulable(context, &condition);
        }
        return in_progress(condition.reason_or("NotScheduled"), condition.describe())
            .failure(FailureClass::Scheduling, false);
    }
    if let Some((_, status)) =
        containers(context).find(|(role, status)| *role == Role::Init && !has_ended_well(*status))
        && has_started(status)
    {
        return in_progress("PodInitializing", text!("init container {} is running", Name(status)));
    }
    if let Some((role, status)) =
        containers(context).find(|(role, status)| *role != Role::Ephemeral && !has_started(*status))
    {
        let waiting = status.get("state").and_then(|state| state.get("waiting"));
        let (label, name) = (role.label(), Name(status));
        return match waiting.and_then(|waiting| member(waiting, "reason")) {
            Some(reason) => {
                let message = text!("{label} {name} has not started: {reason}");
                in_progress(reason.into_owned(), message)
            }
            None => in_progress("ContainersStarting", text!("{label} {name} has not started")),
        };
    }
    match seen.scheduled {
        None => in_progress("PodPending", "Pod has not been scheduled yet"),
        Some(_) if seen.sandbox.is_some_and(|c| c.is_false()) => {
            in_progress("PodPending", "the node prepares the Pod's sandbox and volumes")
        }
        Some(_) => in_progress("PodPending", "Pod is in the Pending phase"),
    }
}

/// No node takes the Pod: a failure once it has lasted longer than the grace period. An autoscaler may still help.
fn unschedulable(context: &Context<'_, '_>, condition: &Condition<'_>) -> Verdict {
    // Without a transition time the Pod's creation is the earliest moment it can mean; without either it is long ago.
    let since = condition.last_transition().or_else(|| context.text(Field::CreationTimestamp));
    let elapsed = since.and_then(|time| context.since(&time)).unwrap_or(SignedDuration::MAX);
    let message = condition.message_or(|| "no node is available for the Pod".to_owned());
    if elapsed < context.options.schedule_grace {
        return in_progress("PodNotScheduled", message).failure(FailureClass::Scheduling, false);
    }
    let verdict = recoverable(FailureClass::Scheduling, "Unschedulable", message);
    context.decided_by(condition, || verdict)
}

fn running(context: &Context<'_, '_>, seen: Seen<'_>) -> Verdict {
    if let Some(condition) = seen.disrupted {
        let reason = if condition.is_reason("PreemptionByScheduler") {
            "Preempted".into()
        } else {
            condition.reason_or("DisruptionTarget")
        };
        return in_progress(reason, text!("Pod is being disrupted: {}", condition.describe()))
            .failure(FailureClass::Scheduling, false);
    }
    let not_ready = |(role, status): &(Role, Node<'_>)| {
        *role == Role::Main && status.get("ready").and_then(Node::as_bool) == Some(false)
    };
    if let Some((_, status)) =
        containers(context).find(|(role, status)| *role == Role::Init && !has_ended_well(*status))
    {
        return unready_container(Role::Sidecar, status);
    }
    if let Some((role, status)) = containers(context).find(not_ready) {
        return unready_container(role, status);
    }
    if seen.containers_ready.is_some_and(|c| c.is_true()) {
        let missing = readiness_gates(context);
        if !missing.is_empty() {
            let many = if missing.contains(',') { "s" } else { "" };
            let message = text!("containers are ready; waiting for readiness gate{many} {missing}");
            return in_progress("ReadinessGatesNotReady", message).failure(FailureClass::Probe, false);
        }
    }
    match seen.ready {
        Some(condition) => in_progress("PodRunningNotReady", condition.describe()),
        None => in_progress("PodRunningNotReady", "Pod is running but is not Ready"),
    }
}

/// A container that runs and is not ready: its startup or its readiness probe has not passed.
fn unready_container(role: Role, status: Node<'_>) -> Verdict {
    let is_running = status.get("state").and_then(|state| state.get("running")).is_some();
    let started = status.get("started").and_then(Node::as_bool);
    let (reason, what) = match (is_running, started) {
        (false, _) => ("ContainersStarting", "is not running yet"),
        (true, Some(false)) => ("StartupProbeNotPassed", "runs; its startup probe has not passed"),
        (true, _) => ("ReadinessProbeNotPassed", "runs; its readiness probe does not pass"),
    };
    let (label, name, restarts) = (role.label(), Name(status), Restarts(status));
    let message = match last_exit(status) {
        Some(last) => text!("{label} {name} {what}{restarts}, last {last}"),
        None => text!("{label} {name} {what}{restarts}"),
    };
    let verdict = in_progress(reason, message);
    if reason.ends_with("NotPassed") { verdict.failure(FailureClass::Probe, false) } else { verdict }
}

/// The readiness gates whose condition is not True.
fn readiness_gates(context: &Context<'_, '_>) -> String {
    let mut missing = String::new();
    // Each gate is searched in the conditions, so their number is limited for hostile Pods.
    const MAX_GATES: usize = 64;
    for gate in context.list(Field::ReadinessGates).take(MAX_GATES) {
        let Some(type_) = member(gate, "conditionType") else { continue };
        if !context.conditions().iter().any(|c| c.is(&type_, Truth::True)) {
            push_name(&mut missing, &type_);
        }
    }
    missing
}

/// All containers' statuses: init, main, ephemeral.
fn containers<'c, 'o, 'a>(
    context: &'c Context<'o, 'a>,
) -> impl Iterator<Item = (Role, Node<'a>)> + use<'c, 'o, 'a> {
    let lists = [
        (Role::Init, Field::InitContainerStatuses),
        (Role::Main, Field::ContainerStatuses),
        (Role::Ephemeral, Field::EphemeralContainerStatuses),
    ];
    lists.into_iter().flat_map(move |(role, field)| {
        context.list(field).filter_map(move |status| {
            if status.kind() == Kind::Map {
                return Some((role, status));
            }
            context.wrong_type(path(field), "a list of maps", status);
            None
        })
    })
}

fn has_started(status: Node<'_>) -> bool {
    status
        .get("state")
        .is_some_and(|state| state.get("running").is_some() || state.get("terminated").is_some())
}

/// An init container that is out of the way: ended with 0, or a sidecar that has started.
fn has_ended_well(status: Node<'_>) -> bool {
    let ended = status
        .get("state")
        .and_then(|state| state.get("terminated"))
        .is_some_and(|t| t.get("exitCode").and_then(whole_number).unwrap_or(0) == 0);
    ended || status.get("ready").and_then(Node::as_bool) == Some(true)
}

/// The names in a list of maps, joined by commas.
fn names(context: &Context<'_, '_>, field: Field, key: &str) -> String {
    let mut joined = String::new();
    for name in context.list(field).filter_map(|element| member(element, key)) {
        push_name(&mut joined, &name);
    }
    joined
}

fn push_name(joined: &mut String, name: &str) {
    if !joined.is_empty() {
        joined.push_str(", ");
    }
    joined.push_str(name);
}
