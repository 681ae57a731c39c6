//! End of a rehearsal: findings about what did not work, beside those about manifests.

use settled_rehearsal::findings::{Check, Finding, Severity};
use settled_rehearsal::{Availability, Environment};
use settled_tracker::{Outcome, State};

use super::sources::Source;
use super::stage;
use crate::cause::Cause;
use crate::duration;
use crate::error::CommandError;
use crate::progress::Ended;

/// A finding about an object that is written again and again.
pub(super) fn endless(environment: &Environment, ended: &Ended) -> Option<Finding> {
    if ended.report.outcome == Outcome::Settled {
        return None;
    }
    endless_loop(environment)
}

fn endless_loop(environment: &Environment) -> Option<Finding> {
    let found = environment.loops()?;
    let message = format!(
        "{} was {} of the last 2,000 writes: a controller does not come to rest",
        found.object, found.writes
    );
    Some(Finding::new(Severity::Error, Check::Loop, None, "", message))
}

const STUCK: &str = "a controller writes without an end, so that virtual time hardly passes";

/// The finding of a rehearsal whose time stands still, for its report.
pub(super) fn stuck_finding(environment: &Environment) -> Finding {
    let unnamed = || Finding::new(Severity::Error, Check::Loop, None, "", STUCK.to_owned());
    endless_loop(environment).unwrap_or_else(unnamed)
}

/// The error of a rehearsal whose time stands still.
pub(super) fn stuck(environment: &Environment) -> CommandError {
    let error = CommandError::refused(STUCK);
    match environment.loops() {
        Some(found) => {
            error.detail(format!("{} was {} of the last 2,000 writes", found.object, found.writes))
        }
        None => error,
    }
}

/// A finding for each Service that had endpoints before, and none for a while.
pub(super) fn lost_availability(availability: &Availability, sources: &[Source]) -> Vec<Finding> {
    let lost = availability
        .lowest()
        .into_iter()
        .filter(|(_, lowest)| lowest.before > 0 && lowest.lowest < lowest.before);
    lost.map(|((namespace, name), lowest)| {
        let index = sources.iter().position(|source| {
            let manifest = &source.manifest;
            (&*manifest.kind, &manifest.namespace, &manifest.name) == ("Service", &namespace, &name)
        });
        let (severity, what) = match lowest.lowest {
            0 => (Severity::Error, "no ready endpoints".to_owned()),
            few => (Severity::Note, format!("only {few} ready endpoints")),
        };
        let after = std::time::Duration::try_from(lowest.since.duration_since(availability.begin()));
        let after = duration::format(after.unwrap_or_default());
        // The object stands before the message, where it is one of the manifests.
        let service =
            if index.is_none() { format!("Service {namespace}/{name} has ") } else { "has ".to_owned() };
        let message =
            format!("{service}{what} during the rollout (after {after}), of {} before", lowest.before);
        Finding::new(severity, Check::LostAvailability, index, "", message)
    })
    .collect()
}

/// A finding for each object that is not done, with its place.
pub(super) fn unfinished(ended: &Ended, sources: &[Source]) -> Vec<Finding> {
    let open =
        ended.report.targets.iter().filter(|target| matches!(target.state, State::Failed | State::Waiting));
    open.map(|target| {
        let cause = Cause::of(target);
        let index = stage::index_of(sources, &target.object);
        let message = format!("{}: {}", cause.reason, cause.message);
        let check = match &*cause.reason {
            _ if message.contains("exceeded quota") => Check::ExceededQuota,
            "Unschedulable" | "PodNotScheduled" => Check::Unschedulable,
            _ => Check::Unfinished,
        };
        Finding::new(Severity::Error, check, index, "", message)
    })
    .collect()
}
