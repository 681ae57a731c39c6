//! `netpol check --from-provider A --to-provider B`: which policies change their meaning, and in which direction.

use super::row::{FindingRow, Level, PolicyRow, State};

const MORE: &str = "more";
const LESS: &str = "less";
const EITHER: &str = "either";

/// What the second provider does otherwise than the first with a policy, from the rows of both.
pub(super) fn row(before: &PolicyRow, after: PolicyRow) -> PolicyRow {
    let label = format!("{} -> {}", before.provider, after.provider);
    if after.status == State::Invalid {
        return PolicyRow { provider: label.into(), ..after };
    }
    let (from, to) = (before.provider.clone(), after.provider.clone());
    let is_same = |a: &FindingRow, b: &FindingRow| {
        a.rule == b.rule && a.path == b.path && a.support == b.support && a.carried_out == b.carried_out
    };
    let deviates = |finding: &&FindingRow| finding.support.is_some();
    let mut findings: Vec<FindingRow> = Vec::new();
    for finding in after.findings.iter().filter(deviates) {
        if !before.findings.iter().any(|other| is_same(other, finding)) {
            let message = format!("with {to}: {}", finding.message).into();
            findings.push(FindingRow { message, ..finding.clone() });
        }
    }
    for finding in before.findings.iter().filter(deviates) {
        let is_kept = after.findings.iter().any(|other| is_same(other, finding));
        // What both do otherwise than written, each in its way, is one change.
        let is_replaced =
            findings.iter().any(|other| other.rule == finding.rule && other.path == finding.path);
        if !is_kept && !is_replaced {
            let message = format!("no longer with {to}; with {from}: {}", finding.message).into();
            let allows = finding.allows.map(opposite);
            let level = if allows == Some(LESS) { Level::Warning } else { Level::Error };
            findings.push(FindingRow { message, allows, level, supported_since: None, ..finding.clone() });
        }
    }
    // Each may carry out what the other's profile does not know.
    let unknown = before.findings.iter().chain(&after.findings).any(FindingRow::is_unknown);
    let (status, reason, message) = if findings.iter().any(|finding| !finding.is_unknown()) {
        (State::Changed, "MeaningChanges", direction(&findings))
    } else if unknown || before.status == State::Unknown || after.status == State::Unknown {
        (State::Unknown, "ProviderUnknown", "nobody knows whether the meaning changes".to_owned())
    } else if after.status == State::Accepted {
        (State::Accepted, "Accepted", String::new())
    } else {
        (State::Unchanged, "Unchanged", format!("otherwise than written with both: {}", after.message))
    };
    PolicyRow { provider: label.into(), status, reason, message: message.into(), findings, ..after }
}

fn opposite(allows: &'static str) -> &'static str {
    match allows {
        MORE => LESS,
        LESS => MORE,
        other => other,
    }
}

fn direction(findings: &[FindingRow]) -> String {
    let has = |allows: &str| findings.iter().any(|finding| finding.allows == Some(allows));
    match (has(MORE), has(LESS), has(EITHER)) {
        (true, false, false) => "allows more than before".to_owned(),
        (false, true, false) => "allows less than before".to_owned(),
        _ => "allows more and less than before".to_owned(),
    }
}
