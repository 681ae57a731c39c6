//! Comparison of connectivity as written and as carried out, with the features that make the difference.

use super::answer::{Answer, Answered, Plan, Planned, plan, push};
use super::carry_out::{Deviation, Instead, Path};
use super::connection::{Connection, Evaluator};
use super::matching::Match;
use super::outcome::Outcome;
use super::question::{Question, QuestionError};
use super::view::{UnreadPolicies, View};
use crate::cluster::Cluster;
use crate::model::Policy;

/// A connection as written and as carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// As the policies are written.
    pub written: Connection,
    /// As the provider carries them out.
    pub carried_out: Connection,
    /// The deviations that make the difference between both; empty if there is none.
    pub because: Vec<Deviation>,
}

impl Comparison {
    /// Whether the outcomes differ.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.written.outcome != self.carried_out.outcome
    }
}

impl Answer<Comparison> {
    /// The connections with other outcomes than written.
    pub fn differences(&self) -> impl Iterator<Item = &Answered<Comparison>> {
        self.connections.iter().filter(|answered| answered.connection.differs())
    }
}

/// Answers a question for policies as they are written and as a provider with these deviations carries them out. What policies that
/// could not be read would change is unknown in both.
///
/// # Errors
/// If what is asked about does not exist or has no traffic.
pub fn compare(
    cluster: &Cluster,
    policies: &[Policy],
    unread: &[UnreadPolicies],
    deviations: &[Deviation],
    question: &Question,
) -> Result<Answer<Comparison>, QuestionError> {
    let written = View::as_written(policies).with_unread(unread.iter().cloned());
    let carried_out = |path| {
        let view = View::from_policies(policies.iter()).deviating(deviations, path);
        view.with_unread(unread.iter().cloned())
    };
    let direct = carried_out(Path::Direct);
    let through_service = carried_out(Path::OtherServicePort);
    let planned = match plan(cluster, &[&written, &direct, &through_service], question)? {
        Plan::Unknown(unknown) => return Ok(Answer { connections: Vec::new(), unknown }),
        Plan::Connections(planned) => planned,
    };
    let [as_written, as_direct, as_through_service] =
        [&written, &direct, &through_service].map(|view| Evaluator::new(cluster, view));
    let mut connections = Vec::new();
    for planned in planned {
        let written = planned.evaluate(&as_written);
        let path = if planned.has_other_service_port { Path::OtherServicePort } else { Path::Direct };
        let carried_out = planned.evaluate(match path {
            Path::Direct => &as_direct,
            Path::OtherServicePort => &as_through_service,
        });
        let because = if written.outcome == carried_out.outcome {
            Vec::new()
        } else {
            let outcomes = [written.outcome, carried_out.outcome];
            because(&as_written, policies, deviations, &planned, path, outcomes)
        };
        push(&mut connections, planned, Comparison { written, carried_out, because });
    }
    Ok(Answer { connections, unknown: Vec::new() })
}

/// The deviations that make the difference: those that change the outcome alone; if none does, those without which it does not change;
/// otherwise all of the policies that concern the connection.
fn because(
    written: &Evaluator<'_>,
    policies: &[Policy],
    deviations: &[Deviation],
    planned: &Planned<'_>,
    path: Path,
    [before, after]: [Outcome; 2],
) -> Vec<Deviation> {
    let ends = [planned.source.subject(), planned.destination.subject()];
    let concerns = |policy: &Policy| {
        let entry = written.view.entries.iter().find(|entry| entry.policy.id == policy.id);
        let selects = |pod| entry.is_some_and(|entry| written.matcher.subject(entry, pod) != Match::No);
        ends.into_iter().flatten().any(selects)
    };
    let policies: Vec<&Policy> = policies.iter().filter(|policy| concerns(policy)).collect();
    let relevant: Vec<&Deviation> = deviations
        .iter()
        .filter(|deviation| policies.iter().any(|policy| policy.id == deviation.policy))
        .collect();
    let outcome = |deviations: &[Deviation]| {
        let unread = written.view.unread.iter().cloned();
        let view =
            View::from_policies(policies.iter().copied()).deviating(deviations, path).with_unread(unread);
        planned.evaluate(&Evaluator::new(written.cluster(), &view)).outcome
    };
    let alone = relevant.iter().filter(|deviation| outcome(&[(**deviation).clone()]) != before);
    let alone: Vec<Deviation> = alone.map(|deviation| (*deviation).clone()).collect();
    if !alone.is_empty() {
        return alone;
    }
    let needed = relevant.iter().enumerate().filter(|(left_out, _)| {
        let others = relevant.iter().enumerate().filter(|(index, _)| index != left_out);
        let others: Vec<Deviation> = others.map(|(_, deviation)| (*deviation).clone()).collect();
        outcome(&others) != after
    });
    let needed: Vec<Deviation> = needed.map(|(_, deviation)| (*deviation).clone()).collect();
    if needed.is_empty() { relevant.into_iter().cloned().collect() } else { needed }
}

impl Deviation {
    /// Whether what the provider does instead is known.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        matches!(self.instead, Instead::Known(_))
    }
}
