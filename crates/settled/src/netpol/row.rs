//! Rows of `netpol check`: what is reported of a policy and a provider, in all formats.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

/// How a provider carries out a policy. In the order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum State {
    /// The API server would refuse the policy.
    Invalid,
    /// The policy is not carried out.
    Failure,
    /// It is carried out in part, or otherwise than written.
    PartialFailure,
    /// With another provider, its meaning changes.
    Changed,
    /// Nobody knows.
    Unknown,
    /// Two providers carry it out alike, and otherwise than written.
    Unchanged,
    /// It is carried out as written.
    Accepted,
}

impl State {
    pub(super) const ALL: [Self; 7] = [
        Self::Invalid,
        Self::Failure,
        Self::PartialFailure,
        Self::Changed,
        Self::Unknown,
        Self::Unchanged,
        Self::Accepted,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Failure => "Failure",
            Self::PartialFailure => "PartialFailure",
            Self::Changed => "Changed",
            Self::Unchanged => "Unchanged",
            Self::Unknown => "Unknown",
            Self::Accepted => "Accepted",
        }
    }
}

/// How urgent a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Error,
    Warning,
    /// Worth knowing; it changes neither the state nor the exit code.
    Note,
}

impl Level {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Spot {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// What is reported of one part of a policy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FindingRow {
    /// Id of the rule: a feature's, or that of a semantic finding.
    pub(super) rule: &'static str,
    pub(super) level: Level,
    /// The field, such as `spec.ingress[0].ports[0].endPort`.
    pub(super) path: Arc<str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) spot: Option<Spot>,
    /// How the provider carries it out: `narrowed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) support: Option<&'static str>,
    /// What is done instead: `first-port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carried_out: Option<&'static str>,
    /// `more` or `less` than written, or `either`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allows: Option<&'static str>,
    pub(super) message: Arc<str>,
    /// The first version that supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) supported_since: Option<Arc<str>>,
    /// What the profile adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<Arc<str>>,
    /// Where the profile has it from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<Arc<str>>,
    /// How that was checked: `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) checked: Option<&'static str>,
}

impl FindingRow {
    /// A finding that is not about a provider.
    pub(super) fn new(
        rule: &'static str,
        level: Level,
        path: Arc<str>,
        spot: Option<Spot>,
        message: Arc<str>,
    ) -> Self {
        Self {
            rule,
            level,
            path,
            spot,
            support: None,
            carried_out: None,
            allows: None,
            message,
            supported_since: None,
            note: None,
            evidence: None,
            checked: None,
        }
    }

    /// Whether nobody knows how it is carried out.
    pub(super) fn is_unknown(&self) -> bool {
        self.support == Some("unknown")
    }
}

/// What is reported of a policy and a provider.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyRow {
    /// The file; none for policies of a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<Arc<str>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) spot: Option<Spot>,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<i64>,
    pub(super) provider: Arc<str>,
    pub(super) status: State,
    pub(super) reason: &'static str,
    pub(super) message: Arc<str>,
    pub(super) findings: Vec<FindingRow>,
}

impl PolicyRow {
    /// Exit code for the state.
    pub(super) fn exit_code(&self) -> u8 {
        match self.status {
            State::Invalid => 2,
            State::Failure | State::PartialFailure | State::Changed => 1,
            State::Unknown => 3,
            State::Unchanged | State::Accepted => 0,
        }
    }

    /// `shop/web`, or `web` of the cluster.
    pub(super) fn policy(&self) -> String {
        let kind = if self.kind == "NetworkPolicy" { String::new() } else { format!("{}/", self.kind) };
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{kind}{}{slash}{}", self.namespace, self.name)
    }

    /// `k8s/web.yaml:12:5` of a place in the row's file.
    pub(super) fn place(&self, spot: Option<Spot>) -> String {
        let Some(source) = &self.source else { return String::new() };
        let source = if &**source == "-" { "standard input" } else { source };
        match spot {
            Some(Spot { line, column }) => format!("{source}:{line}:{column}"),
            None => source.to_owned(),
        }
    }
}

/// Provider that policies are checked against.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProviderRow {
    /// As in rows: `cilium@1.16`.
    pub(super) provider: Arc<str>,
    pub(super) title: String,
    /// Why nothing is known of it, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unknown: Option<String>,
    /// How it was detected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) evidence: Vec<String>,
}

/// All that is reported.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) providers: Vec<ProviderRow>,
    pub(super) policies: Vec<PolicyRow>,
    /// Kinds of policies that are not evaluated, with how many there are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_evaluated: Vec<NotEvaluated>,
    /// Objects that could not be read, and with them the findings that depend on them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unread: Vec<Unread>,
    /// Features that were not looked for, since objects of the cluster were not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_looked_for: Vec<NotLookedFor>,
}

/// Features that were not looked for.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NotLookedFor {
    pub(super) objects: &'static str,
    pub(super) reason: String,
    pub(super) features: BTreeSet<&'static str>,
}

impl NotLookedFor {
    /// Adds features to those of the same objects.
    pub(super) fn add(
        all: &mut Vec<Self>,
        objects: &'static str,
        reason: &str,
        features: impl IntoIterator<Item = &'static str>,
    ) {
        match all.iter_mut().find(|known| known.objects == objects) {
            Some(known) => known.features.extend(features),
            None => {
                let features = features.into_iter().collect();
                all.push(Self { objects, reason: reason.to_owned(), features });
            }
        }
    }
}

/// Policies of a kind that is not evaluated.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotEvaluated {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) count: u64,
    /// The providers whose kind it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) providers: Vec<String>,
}

/// Objects that could not be read.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Unread {
    pub(super) objects: &'static str,
    pub(super) reason: String,
}

impl Report {
    /// How many rows have a state.
    pub(super) fn count(&self, state: State) -> u64 {
        self.policies.iter().filter(|row| row.status == state).count() as u64
    }

    /// Exit code for the states of the policies: 2 before 1 before 3.
    pub(super) fn exit_code(&self) -> u8 {
        let codes = self.policies.iter().map(PolicyRow::exit_code);
        let has = |wanted| codes.clone().any(|code| code == wanted);
        [2, 1, 3].into_iter().find(|code| has(*code)).unwrap_or(0)
    }
}
