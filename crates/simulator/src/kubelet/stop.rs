//! Ends of containers: by themselves, and when they are asked to.

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use super::command::{self, Process};
use super::input::{EventKind, Role, Timeline};
use crate::scenario::{After, ContainerScript, Delay, Exit};

/// `minimumGracePeriodInSeconds`.
const MIN_GRACE: i64 = 2;
/// How long a container takes to end after SIGTERM.
const STOP: i64 = 1;
/// How long containers run that are expected to end.
const INIT_RUN: i64 = 1;
const RUN: i64 = 3;

/// How a container ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: i64,
    pub(super) code: i32,
    pub(super) reason: String,
    pub(super) message: String,
}

/// How long a lifecycle handler takes: what it says of `sleep`.
pub(super) fn handler_time(handler: &LifecycleHandler) -> i64 {
    if let Some(sleep) = &handler.sleep {
        return sleep.seconds;
    }
    let command = handler.exec.as_ref().and_then(|exec| exec.command.as_deref()).unwrap_or_default();
    command::process(command, &[]).and_then(|process| process.seconds).unwrap_or(0)
}

/// The process of a container, if its command is of a known shape.
pub(super) fn process(container: &Container) -> Option<Process> {
    let command = container.command.as_deref().unwrap_or_default();
    command::process(command, container.args.as_deref().unwrap_or_default())
}

fn reason(code: i32) -> &'static str {
    if code == 0 { "Completed" } else { "Error" }
}

/// What of a scenario ends a run of a container.
pub(super) fn exit_script(script: &ContainerScript, restarts: u32) -> Option<(&Exit, i32)> {
    let applies = |exit: &&Exit| exit.times.is_none_or(|times| restarts < times);
    let crash = script.crash.as_ref().filter(applies).map(|exit| {
        let usual = if exit.reason.as_deref() == Some("OOMKilled") { 137 } else { 1 };
        (exit, exit.code.unwrap_or(usual))
    });
    crash.or_else(|| script.exit.as_ref().filter(applies).map(|exit| (exit, exit.code.unwrap_or(0))))
}

/// The log of a run that has ended, or goes on.
pub(super) fn log(
    container: &Container,
    script: &ContainerScript,
    restarts: u32,
    has_ended: bool,
) -> Vec<String> {
    let mut lines = script.logs.clone();
    match exit_script(script, restarts) {
        Some((exit, _)) if has_ended => lines.extend(exit.logs.iter().cloned()),
        Some(_) => {}
        None => lines.extend(process(container).map(|process| process.logs).unwrap_or_default()),
    }
    lines
}

/// How a run ends by itself, if it does.
pub(super) fn own_end(
    container: &Container,
    role: Role,
    script: &ContainerScript,
    (started, restarts, restarts_always): (i64, u32, bool),
) -> Option<End> {
    if let Some((exit, code)) = exit_script(script, restarts) {
        let log = || {
            let lines = log(container, script, restarts, true).join("\n");
            if lines.is_empty() { lines } else { lines + "\n" }
        };
        // `FallbackToLogsOnError`: the last 2048 bytes of the log stand in for the message.
        let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        let message = match &exit.message {
            Some(message) => message.clone(),
            None if falls_back && code != 0 => {
                let log = log();
                let start = (log.len().saturating_sub(2048)..log.len()).find(|at| log.is_char_boundary(*at));
                log.get(start.unwrap_or(0)..).unwrap_or_default().to_owned()
            }
            None => String::new(),
        };
        let reason = exit.reason.clone().unwrap_or_else(|| reason(code).to_owned());
        return Some(End { at: started + exit.after.seconds(), code, reason, message });
    }
    let (seconds, code) = match process(container) {
        Some(process) => (process.seconds?, process.code),
        None if role == Role::Init => (INIT_RUN, 0),
        None if restarts_always || role == Role::Sidecar => return None,
        None => (RUN, 0),
    };
    Some(End { at: started + seconds, code, reason: reason(code).to_owned(), message: String::new() })
}

/// How a container ends that is asked to: its hook, SIGTERM, and after the grace period SIGKILL.
pub(super) fn kill(
    timeline: &mut Timeline,
    (container, role, script): (&Container, Role, &ContainerScript),
    (at, grace, turn): (i64, i64, i64),
    note: String,
) -> End {
    let path = role.field_path(&container.name);
    timeline.event(at, EventKind::normal("Killing"), Some(&path), note);
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let hook = hook.filter(|_| grace > 0);
    let scripted = script.pre_stop.as_ref();
    let hook_time = hook.map_or(0, |hook| {
        scripted.and_then(|script| script.takes).map_or_else(|| handler_time(hook), Delay::seconds).min(grace)
    });
    if hook.is_some() && scripted.is_some_and(|script| script.fails) {
        timeline.event(
            at + hook_time,
            EventKind::warning("FailedPreStopHook"),
            Some(&path),
            "PreStopHook failed",
        );
    }
    // A sidecar waits for its turn.
    let signal = (at + hook_time).max(turn);
    let rest = (grace - (signal - at)).max(MIN_GRACE);
    let stop = script.stop.as_ref();
    let ignores = process(container).is_some_and(|process| process.ignores_term);
    let takes = match stop.and_then(|stop| stop.takes) {
        Some(After::Never) => None,
        Some(After::Delay(delay)) => Some(delay.seconds()),
        None if ignores => None,
        None => Some(STOP),
    };
    match takes.filter(|takes| *takes <= rest) {
        Some(takes) => {
            let code = stop.and_then(|stop| stop.code).unwrap_or(0);
            End { at: signal + takes, code, reason: reason(code).to_owned(), message: String::new() }
        }
        None => End { at: signal + rest, code: 137, reason: reason(137).to_owned(), message: String::new() },
    }
}
