//! Evaluation of policies for a provider: verdicts of the library as rows, and deviations for connectivity.

use std::collections::HashSet;
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

/// Texts that many rows share: policies of a cluster resemble each other.
#[derive(Debug, Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}

/// Evaluation of policies for one provider, policy by policy, once all of them were seen: they depend on each other.
pub(super) struct Check<'a> {
    chosen: &'a Chosen<'a>,
    evaluator: Evaluator<'a>,
    index: Option<&'a ClusterIndex<'a>>,
    texts: Texts,
    not_looked_for: Vec<NotLookedFor>,
}

impl<'a> Check<'a> {
    pub(super) fn new(
        chosen: &'a Chosen<'a>,
        entries: &[Entry],
        index: Option<&'a ClusterIndex<'a>>,
    ) -> Self {
        let evaluator = Evaluator::new(&chosen.provider, entries.iter().map(|entry| &*entry.parsed), index);
        Self { chosen, evaluator, index, texts: Texts::default(), not_looked_for: Vec::new() }
    }

    /// Features that were not looked for in the policies so far.
    pub(super) fn not_looked_for(self) -> Vec<NotLookedFor> {
        self.not_looked_for
    }

    /// What the provider makes of a policy.
    pub(super) fn row(&mut self, entry: &Entry) -> PolicyRow {
        let verdict = self.evaluator.check(&entry.parsed);
        let mut row = self.of_verdict(entry, &verdict);
        let mut found = default_deny_findings(&self.evaluator, &entry.parsed, &verdict);
        if let Some(policy) = &entry.parsed.policy {
            let findings = findings(policy, self.index);
            found.extend(findings.list);
            if findings.more > 0 {
                let message = format!("{} more findings are not listed", findings.more);
                row.findings.push(self.finding(entry, SUSPECT, Level::Note, "spec", &message));
            }
            for missing in findings.missing {
                let kinds = missing.kinds.iter().map(|kind| kind.as_str());
                NotLookedFor::add(&mut self.not_looked_for, missing.objects, &missing.reason, kinds);
            }
        }
        row.findings.extend(found.iter().map(|finding| self.of_finding(entry, finding)));
        for missing in &verdict.not_looked_for {
            let features = missing.features.iter().map(|feature| feature.as_str());
            NotLookedFor::add(&mut self.not_looked_for, missing.objects, &missing.reason, features);
        }
        row
    }

    fn of_verdict(&mut self, entry: &Entry, verdict: &PolicyVerdict) -> PolicyRow {
        let status = match (verdict.outcome, verdict.reason) {
            (Outcome::Failure, Reason::InvalidPolicy) => State::Invalid,
            (Outcome::Failure, _) => State::Failure,
            (Outcome::PartialFailure, _) => State::PartialFailure,
            (Outcome::Accepted, _) => State::Accepted,
            (Outcome::Unknown, _) => State::Unknown,
        };
        let problems = verdict.problems.iter().map(|problem| self.of_problem(entry, problem));
        let mut findings: Vec<FindingRow> = problems.collect();
        findings.extend(verdict.deviations.iter().map(|deviation| self.of_deviation(entry, deviation)));
        if let Err(unknown) = &self.chosen.provider.version {
            // The same for each feature.
            let finding = self.finding(entry, VERSION, Level::Warning, "spec", &unknown.to_string());
            findings.push(FindingRow { support: Some("unknown"), ..finding });
        } else {
            findings
                .extend(verdict.unanswered.iter().map(|unanswered| self.of_unanswered(entry, unanswered)));
        }
        let id = &verdict.id;
        PolicyRow {
            source: entry.source.clone(),
            spot: entry.begin(),
            kind: id.kind.as_str(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            generation: verdict.generation,
            provider: self.chosen.label.clone(),
            status,
            reason: verdict.reason.as_str(),
            message: self.texts.share(&conditions::message(verdict)),
            findings,
        }
    }

    fn finding(
        &mut self,
        entry: &Entry,
        rule: &'static str,
        level: Level,
        path: &str,
        message: &str,
    ) -> FindingRow {
        FindingRow::new(rule, level, self.texts.share(path), entry.spot(path), self.texts.share(message))
    }

    fn of_problem(&mut self, entry: &Entry, problem: &Problem) -> FindingRow {
        let (rule, level) = match problem.severity {
            Severity::Error if entry.parsed.is_stored => (INVALID, Level::Warning),
            Severity::Error => (INVALID, Level::Error),
            Severity::Warning => (SUSPECT, Level::Note),
        };
        self.finding(entry, rule, level, &problem.place.0, &problem.message)
    }

    fn of_deviation(&mut self, entry: &Entry, deviation: &Deviation) -> FindingRow {
        let (allows, level) = match deviation.error {
            ErrorDirection::More => ("more", Level::Error),
            ErrorDirection::Either => ("either", Level::Error),
            ErrorDirection::Less => ("less", Level::Warning),
            ErrorDirection::Same => ("same", Level::Note),
        };
        let mut shared = |text: &Option<String>| text.as_deref().map(|text| self.texts.share(text));
        let (supported_since, note, evidence) =
            (shared(&deviation.supported_since), shared(&deviation.note), shared(&deviation.source));
        let rule = deviation.subject.as_str();
        FindingRow {
            support: Some(deviation.support.as_str()),
            carried_out: deviation.carried_out.map(|carried_out| carried_out.as_str()),
            allows: Some(allows),
            supported_since,
            note,
            evidence,
            checked: Some(deviation.checked.as_str()),
            ..self.finding(entry, rule, level, &deviation.place.0, &deviation.message)
        }
    }

    fn of_unanswered(&mut self, entry: &Entry, unanswered: &Unanswered) -> FindingRow {
        let (rule, message) = (unanswered.subject.as_str(), unanswered.why.to_string());
        let finding = self.finding(entry, rule, Level::Warning, &unanswered.place.0, &message);
        FindingRow { support: Some("unknown"), ..finding }
    }

    fn of_finding(&mut self, entry: &Entry, finding: &Finding) -> FindingRow {
        let level = match finding.kind.level() {
            findings::Level::Warning => Level::Warning,
            findings::Level::Info => Level::Note,
        };
        self.finding(entry, finding.kind.as_str(), level, &finding.place.0, &finding.message)
    }
}

/// What a provider carries out otherwise than written, for evaluations of connectivity.
pub(super) fn deviations(
    chosen: &Chosen<'_>,
    entries: &[Entry],
    cluster: Option<&Cluster>,
) -> Vec<reach::Deviation> {
    let index = cluster.map(ClusterIndex::new);
    let parsed = || entries.iter().map(|entry| &*entry.parsed);
    let evaluator = Evaluator::new(&chosen.provider, parsed(), index.as_ref());
    parsed().flat_map(|parsed| of_connectivity(&evaluator.check(parsed))).collect()
}

fn of_connectivity(verdict: &PolicyVerdict) -> Vec<reach::Deviation> {
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
