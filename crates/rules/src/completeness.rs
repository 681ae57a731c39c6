//! Which cases a rule needs: each outcome that it knows, no status, and a status of an older generation.

use std::collections::BTreeSet;

use kstatus::{Node, Object, Status, Verdict};

use crate::draft::{Check, Draft, Says};
use crate::origin::Rule;
use crate::provenance::{ObservedGeneration, Provenance};

/// What the cases of one rule show.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    kinds: BTreeSet<String>,
    situations: BTreeSet<Situation>,
}

/// What a case shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Situation {
    Done,
    InProgress,
    Failed,
    Suspended,
    NoStatus,
    LaggingStatus,
    LaggingCondition,
}

impl Situation {
    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::InProgress => "in progress",
            Self::Failed => "failed",
            Self::Suspended => "suspended",
            Self::NoStatus => "no status",
            Self::LaggingStatus => "status.observedGeneration behind metadata.generation",
            Self::LaggingCondition => "observedGeneration of a condition behind metadata.generation",
        }
    }
}

impl Shown {
    /// Adds a case.
    pub(crate) fn add(&mut self, object: &Object<'_>, verdict: &Verdict, is_suspended: bool) {
        self.kinds.insert(object.type_names().1.into_owned());
        let root = object.root();
        self.situations.extend(match verdict.status {
            Status::Current if is_suspended => Some(Situation::Suspended),
            Status::Current => Some(Situation::Done),
            Status::InProgress => Some(Situation::InProgress),
            Status::Failed => Some(Situation::Failed),
            _ => None,
        });
        let status =
            root.get("status").filter(|status| !status.is_null() && status.members().next().is_some());
        let Some(status) = status else {
            self.situations.insert(Situation::NoStatus);
            return;
        };
        let generation =
            root.get("metadata").and_then(|metadata| metadata.get("generation")).and_then(number);
        let lags = |holder: Node<'_>| match (holder.get("observedGeneration").and_then(number), generation) {
            (Some(observed), Some(generation)) => observed < generation,
            _ => false,
        };
        if lags(status) {
            self.situations.insert(Situation::LaggingStatus);
        }
        if any_below(status, &lags) {
            self.situations.insert(Situation::LaggingCondition);
        }
    }

    /// What no case of the rule shows.
    pub(crate) fn missing(&self, rule: &Rule) -> Vec<String> {
        let draft = rule.draft();
        let kinds = draft.matches.kinds.iter().flatten();
        let kinds = kinds.filter(|kind| !self.kinds.iter().any(|known| known.eq_ignore_ascii_case(kind)));
        let kinds = kinds.map(|kind| format!("no case of {kind}"));
        let situations = wanted(rule).into_iter().filter(|wanted| !self.situations.contains(wanted));
        kinds.chain(situations.map(|wanted| format!("no case: {}", wanted.name()))).collect()
    }
}

/// The number in a generation: some kinds have it as text.
fn number(node: Node<'_>) -> Option<i64> {
    node.as_int().or_else(|| node.as_str()?.parse().ok())
}

/// Whether it holds for a map somewhere below a node.
fn any_below(node: Node<'_>, holds: &dyn Fn(Node<'_>) -> bool) -> bool {
    let below = |node: Node<'_>| holds(node) || any_below(node, holds);
    node.members().any(|(_, value)| below(value)) || node.elements().any(below)
}

/// Whether a rule looks at the status: some kinds report elsewhere.
fn reads_status(draft: &Draft) -> bool {
    let reads =
        ["status.", "isTrue(", "isFalse(", "isUnknown(", "reasonOf(", "condition(", "worst(", "observed("];
    draft.branches.iter().any(|branch| reads.iter().any(|word| branch.when.text.contains(word)))
}

fn wanted(rule: &Rule) -> Vec<Situation> {
    let draft = rule.draft();
    let has = |says| draft.branches.iter().any(|branch| branch.says == says);
    let is_always_current =
        draft.branches.iter().any(|branch| branch.says == Says::Current && branch.when.text.trim() == "true");
    let mut wanted = Vec::new();
    let mut want = |situation, wants: bool| wanted.extend(wants.then_some(situation));
    want(Situation::Done, has(Says::Current));
    want(Situation::InProgress, has(Says::InProgress) || has(Says::Current) && !is_always_current);
    want(Situation::Failed, has(Says::Failed));
    want(Situation::Suspended, has(Says::Suspended));
    want(Situation::NoStatus, true);
    let generation = match &rule.provenance() {
        Some(Provenance::Checked(source)) => Some(source.generation),
        _ => None,
    };
    // Of a rule that was not checked it is not known where its controller reports the generation.
    let (status, conditions) = match generation {
        Some(ObservedGeneration::Status) => (true, false),
        Some(ObservedGeneration::Conditions) => (false, true),
        Some(ObservedGeneration::Both) => (true, true),
        Some(ObservedGeneration::None) => (false, false),
        None => {
            let is_checked = !matches!(draft.checks_generation, Check::Off);
            (is_checked && has(Says::Current) && !is_always_current && reads_status(draft), false)
        }
    };
    want(Situation::LaggingStatus, status);
    want(Situation::LaggingCondition, conditions);
    wanted
}
