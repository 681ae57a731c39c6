//! Chains: the steps from a target to a root cause.

use jiff::Timestamp;

use super::summary::summary;
use crate::facts::Facts;
use crate::link::Link;
use crate::record::Record;
use crate::report::Step;

/// Objects from a target (first) to a root cause (last), each with how the one before it leads to it.
pub(super) type Way<'g> = Vec<(Option<Link>, &'g Record)>;

/// The steps of a way. Each is dated by the problem, not by an older condition.
pub(super) fn chain(way: &Way<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(way.len());
    let mut below: Option<(&Record, Option<Timestamp>)> = None;
    for (link, record) in way.iter().rev() {
        let since = since(record, below);
        steps.push(step(*link, record, since));
        below = Some((record, since));
    }
    steps.reverse();
    steps
}

/// Since when an object is as it is: by its own times, unless what explains it is younger than anything these can mean.
fn since(record: &Record, below: Option<(&Record, Option<Timestamp>)>) -> Option<Timestamp> {
    let own = record.since();
    let Some((child, child_since)) = below.filter(|_| record.deleted.is_none()) else { return own };
    let condition = record.facts.as_ref().and_then(|facts| facts.since);
    match condition {
        // A rollout has begun with its ReplicaSet, whenever the conditions have changed before.
        Some(condition) if child.id.is("apps", "ReplicaSet") => child.created.max(Some(condition)),
        Some(_) => own,
        // It has only the time of its creation, which may be long ago.
        None => own.max(child_since),
    }
}

fn step(link: Option<Link>, record: &Record, since: Option<Timestamp>) -> Step {
    let facts = record.facts.as_deref();
    Step {
        object: record.id.clone(),
        link,
        status: record.verdict.status,
        reason: record.verdict.reason.to_string(),
        message: record.verdict.message.to_string(),
        summary: summary(record),
        class: record.verdict.failure.map(|failure| failure.class),
        terminal: record.verdict.failure.is_some_and(|failure| failure.terminal),
        since,
        times: facts.and_then(Facts::times),
    }
}
