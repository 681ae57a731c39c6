//! The summary condition of a controller's conditions.

use super::types::{Declaration, Finding, Severity, Status};
use crate::text::{join, truncate};

/// Reason of a good summary without warnings.
pub(crate) const AS_EXPECTED: &str = "AsExpected";
/// Reason of a good summary with warnings.
const WITH_WARNINGS: &str = "WithWarnings";
/// Maximum number of conditions named in the message.
const MAX_NAMED: usize = 3;
/// Maximum size of a condition's message in the summary, in bytes.
const MAX_PART: usize = 256;

/// The kstatus condition beside the summary. At most one is set.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    Reconciling(Finding),
    Stalled(Finding),
}

/// Derives the summary:
///
/// | first match | summary | reason and message from |
/// |---|---|---|
/// | a bad condition of severity error | False | the bad ones of severity error |
/// | else, stalled | False | the progress |
/// | else, reconciling | Unknown | the progress |
/// | else, an unknown condition of severity error | Unknown | the unknown ones |
/// | else, a bad condition of severity warning | True, `WithWarnings` | the warnings |
/// | else | True, `AsExpected` | |
pub(super) fn summarize(parts: &[(&Declaration, &Finding)], progress: Option<&Progress>) -> Finding {
    let are = |severity: Severity, unknown: bool| -> Vec<(&Declaration, &Finding)> {
        let is = |(declared, finding): &&(&Declaration, &Finding)| {
            let Some(bad) = declared.bad() else { return false };
            let wanted = if unknown { Status::Unknown } else { bad };
            declared.severity == severity && finding.status == wanted
        };
        parts.iter().filter(is).copied().collect()
    };
    let errors = are(Severity::Error, false);
    if let Some((_, first)) = errors.first() {
        return Finding::new(Status::False, first.reason.as_str(), message(&errors));
    }
    match progress {
        Some(Progress::Stalled(finding)) => return Finding { status: Status::False, ..finding.clone() },
        Some(Progress::Reconciling(finding)) => {
            return Finding { status: Status::Unknown, ..finding.clone() };
        }
        None => {}
    }
    let unknown = are(Severity::Error, true);
    if let Some((_, first)) = unknown.first() {
        return Finding::new(Status::Unknown, first.reason.as_str(), message(&unknown));
    }
    let warnings = are(Severity::Warning, false);
    if warnings.is_empty() {
        return Finding::new(Status::True, AS_EXPECTED, "");
    }
    Finding::new(Status::True, WITH_WARNINGS, message(&warnings))
}

fn message(parts: &[(&Declaration, &Finding)]) -> String {
    let named = parts.iter().map(|(declared, finding)| match finding.message.as_str() {
        "" => format!("{} is {}", declared.name, finding.status),
        message => format!("{}: {}", declared.name, truncate(message, MAX_PART)),
    });
    join(named, "; ", MAX_NAMED)
}
