//! Evaluation of policies for a provider: verdicts of the library as rows, and deviations for connectivity.

use std::str::FromStr as _;
use std::sync::Arc;

use settled_netpol::cluster::Cluster;
use settled_netpol::conditions;
use settled_netpol::feature::{Count, Feature};
use settled_netpol::findings::{self, Finding, FindingKind, default_deny_findings, findings};
use settled_netpol::index::ClusterIndex;
use settled_netpol::parse::{Problem, Severity};
use settled_netpol::profile::Support;
use settled_netpol::reach::{self, Instead, UnreadPolicies};
use settled_netpol::verdict::{
    Deviation, ErrorDirection, Evaluator, Outcome, PolicyVerdict, Reason, Subject, Unanswered,
};

use super::files::{Contents, Entry};
use super::providers::Chosen;
use super::row::{FindingRow, Level, NotLookedFor, PolicyRow, State};

/// Rule of findings on fields that the API server refuses.
const INVALID: &str = "policy.invalid";
/// Rule of findings on fields that the API server takes, although nobody can mean them.
const SUSPECT: &str = "policy.suspect";
/// Rule of findings on a version that is not known.
const VERSION: &str = "provider.version";

/// What a provider makes of policies.
pub(super) struct Evaluation {
    /// A row for each policy, in their order.
    pub(super) rows: Vec<PolicyRow>,
    /// What is carried out otherwise than written.
    pub(super) deviations: Vec<reach::Deviation>,
    /// Features that were not looked for.
    pub(super) not_looked_for: Vec<NotLookedFor>,
}

/// Evaluates all policies, which depend on each other.
pub(super) fn policies(chosen: &Chosen<'_>, entries: &[Entry], cluster: Option<&Cluster>) -> Evaluation {
    let index = cluster.map(ClusterIndex::new);
    let objects = entries.iter().map(|entry| &entry.parsed);
    let evaluator = Evaluator::new(&chosen.provider, objects, index.as_ref());
    let mut evaluation = Evaluation {
        rows: Vec::with_capacity(entries.len()),
        deviations: Vec::new(),
        not_looked_for: Vec::new(),
    };
    for entry in entries {
        let verdict = evaluator.check(&entry.parsed);
        let mut row = row(chosen, entry, &verdict);
        let mut found = default_deny_findings(&evaluator, &entry.parsed, &verdict);
        if let Some(policy) = &entry.parsed.policy {
            let findings = findings(policy, index.as_ref());
            found.extend(findings.list);
            if findings.more > 0 {
                let message = format!("{} more findings are not listed", findings.more);
                row.findings.push(FindingRow::new(SUSPECT, Level::Note, "spec", entry.spot("spec"), message));
            }
            for missing in findings.missing {
                let kinds = missing.kinds.iter().map(|kind| kind.as_str());
                NotLookedFor::add(&mut evaluation.not_looked_for, missing.objects, &missing.reason, kinds);
            }
        }
        row.findings.extend(found.iter().map(|finding| of_finding(entry, finding)));
        evaluation.rows.push(row);
        evaluation.deviations.extend(deviations(&verdict));
        for missing in &verdict.not_looked_for {
            NotLookedFor::add(
                &mut evaluation.not_looked_for,
                missing.objects,
                &missing.reason,
                missing.features.iter().map(|feature| feature.as_str()),
            );
        }
    }
    evaluation
}

fn row(chosen: &Chosen<'_>, entry: &Entry, verdict: &PolicyVerdict) -> PolicyRow {
    let status = match (verdict.outcome, verdict.reason) {
        (Outcome::Failure, Reason::InvalidPolicy) => State::Invalid,
        (Outcome::Failure, _) => State::Failure,
        (Outcome::PartialFailure, _) => State::PartialFailure,
        (Outcome::Accepted, _) => State::Accepted,
        (Outcome::Unknown, _) => State::Unknown,
    };
    let is_stored = entry.parsed.is_stored;
    let problems = verdict.problems.iter().map(|problem| of_problem(entry, problem, is_stored));
    let mut findings: Vec<FindingRow> = problems.collect();
    findings.extend(verdict.deviations.iter().map(|deviation| of_deviation(entry, deviation)));
    if let Err(unknown) = &chosen.provider.version {
        // The same for each feature.
        findings.push(FindingRow {
            support: Some("unknown"),
            ..FindingRow::new(VERSION, Level::Warning, "spec", entry.spot("spec"), unknown.to_string())
        });
    } else {
        findings.extend(verdict.unanswered.iter().map(|unanswered| of_unanswered(entry, unanswered)));
    }
    let id = &verdict.id;
    PolicyRow {
        source: entry.source.clone(),
        spot: entry.begin(),
        kind: id.kind.as_str(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
        generation: verdict.generation,
        provider: chosen.label.clone(),
        status,
        reason: verdict.reason.as_str().to_owned(),
        message: conditions::message(verdict),
        findings,
    }
}

fn of_problem(entry: &Entry, problem: &Problem, is_stored: bool) -> FindingRow {
    let (rule, level) = match problem.severity {
        Severity::Error if is_stored => (INVALID, Level::Warning),
        Severity::Error => (INVALID, Level::Error),
        Severity::Warning => (SUSPECT, Level::Note),
    };
    let path = problem.place.to_string();
    FindingRow::new(rule, level, &path, entry.spot(&path), problem.message.clone())
}

fn of_deviation(entry: &Entry, deviation: &Deviation) -> FindingRow {
    let path = deviation.place.to_string();
    let (allows, level) = match deviation.error {
        ErrorDirection::More => ("more", Level::Error),
        ErrorDirection::Either => ("either", Level::Error),
        ErrorDirection::Less => ("less", Level::Warning),
        ErrorDirection::Same => ("same", Level::Note),
    };
    FindingRow {
        support: Some(deviation.support.as_str()),
        carried_out: deviation.carried_out.map(|carried_out| carried_out.as_str()),
        allows: Some(allows),
        supported_since: deviation.supported_since.clone(),
        note: deviation.note.clone(),
        evidence: deviation.source.clone(),
        checked: Some(deviation.checked.as_str()),
        ..FindingRow::new(
            deviation.subject.as_str(),
            level,
            &path,
            entry.spot(&path),
            deviation.message.clone(),
        )
    }
}

fn of_unanswered(entry: &Entry, unanswered: &Unanswered) -> FindingRow {
    let path = unanswered.place.to_string();
    let (rule, message) = (unanswered.subject.as_str(), unanswered.why.to_string());
    FindingRow {
        support: Some("unknown"),
        ..FindingRow::new(rule, Level::Warning, &path, entry.spot(&path), message)
    }
}

fn of_finding(entry: &Entry, finding: &Finding) -> FindingRow {
    let path = finding.place.to_string();
    let level = match finding.kind.level() {
        findings::Level::Warning => Level::Warning,
        findings::Level::Info => Level::Note,
    };
    FindingRow::new(finding.kind.as_str(), level, &path, entry.spot(&path), finding.message.clone())
}

/// What is carried out otherwise, for evaluations of connectivity.
fn deviations(verdict: &PolicyVerdict) -> Vec<reach::Deviation> {
    let feature = |subject| match subject {
        Subject::Feature(feature) => Some(feature),
        Subject::Limit(_) => None,
    };
    let known = verdict.deviations.iter().map(|deviation| {
        let message: Arc<str> = deviation.message.as_str().into();
        reach::Deviation {
            policy: verdict.id.clone(),
            place: deviation.place.clone(),
            direction: deviation.direction,
            feature: feature(deviation.subject),
            instead: match deviation.carried_out {
                Some(carried_out) if deviation.support != Support::Undefined => Instead::Known(carried_out),
                _ => Instead::Undefined(Arc::clone(&message)),
            },
            message,
        }
    });
    let unknown = verdict.unanswered.iter().map(|unanswered| {
        let message: Arc<str> = unanswered.why.to_string().into();
        reach::Deviation {
            policy: verdict.id.clone(),
            place: unanswered.place.clone(),
            direction: None,
            feature: feature(unanswered.subject),
            instead: Instead::Undefined(Arc::clone(&message)),
            message,
        }
    });
    known.chain(unknown).collect()
}

/// Policies that exist and whose content is not known: what may not be read, and what is invalid as a whole.
pub(super) fn unread_policies(contents: &Contents) -> Vec<UnreadPolicies> {
    use settled_netpol::model::Kind;
    let kinds = [Kind::AdminNetworkPolicy, Kind::BaselineAdminNetworkPolicy, Kind::ClusterNetworkPolicy];
    let forbidden = contents.unread.iter().filter_map(|unread| {
        let kind = kinds.into_iter().find(|kind| {
            unread
                .objects
                .strip_suffix("ies")
                .is_some_and(|stem| kind.as_str().strip_suffix('y') == Some(stem))
        })?;
        Some(UnreadPolicies { kind, namespace: None, reason: unread.reason.as_str().into() })
    });
    let invalid = contents.policies.iter().filter(|entry| entry.parsed.policy.is_none()).map(|entry| {
        let id = &entry.parsed.id;
        let namespace = (!id.namespace.is_empty()).then(|| id.namespace.clone());
        let why = entry.parsed.problems.iter().find(|problem| problem.severity == Severity::Error);
        let why = why.map_or_else(|| "invalid".to_owned(), ToString::to_string);
        UnreadPolicies { kind: id.kind, namespace, reason: format!("{}: {why}", id.name).into() }
    });
    forbidden.chain(invalid).collect()
}

/// What a rule of findings is about.
pub(super) fn title(rule: &str) -> String {
    if let Ok(feature) = Feature::from_str(rule) {
        return format!("{} is not carried out as written", capitalized(feature.title()));
    }
    if let Some(count) = Count::ALL.iter().find(|count| count.as_str() == rule) {
        return format!("Too many {}", count.title());
    }
    if FindingKind::ALL.iter().any(|kind| kind.as_str() == rule) {
        return capitalized(&rule.replace('-', " "));
    }
    match rule {
        INVALID => "The API server refuses a field of the policy",
        SUSPECT => "A field of the policy has no effect",
        VERSION => "The version of the provider is not known",
        other => other,
    }
    .to_owned()
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
