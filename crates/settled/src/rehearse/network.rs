//! Network policies that a provider does not carry out as written.

use settled_netpol::parse::parse_policy;
use settled_netpol::profile::{Profiles, ProviderRef};
use settled_netpol::verdict::{ErrorDirection, Evaluator};
use settled_rehearsal::findings::{Check, Finding, Severity};

use super::sources::Source;
use crate::error::CommandError;

/// Findings for all policies among the manifests.
pub(super) fn check(provider: &ProviderRef, sources: &[Source]) -> Result<Vec<Finding>, CommandError> {
    let (profiles, _) = Profiles::embedded();
    let provider = profiles.provider(provider).map_err(|error| {
        CommandError::usage(format!("--provider: {error}"))
            .hint("settled netpol profiles lists the providers")
    })?;
    let parsed: Vec<_> = sources
        .iter()
        .enumerate()
        .filter_map(|(index, source)| {
            let namespace = &source.manifest.namespace;
            Some((index, parse_policy(&source.manifest.object(), namespace).ok()?))
        })
        .collect();
    let evaluator = Evaluator::new(&provider, parsed.iter().map(|(_, parsed)| parsed), None);
    let mut findings = Vec::new();
    for (index, policy) in &parsed {
        let verdict = evaluator.check(policy);
        if let Err(unknown) = &provider.version {
            let message = unknown.to_string();
            findings.push(Finding::new(
                Severity::Warning,
                Check::NetworkPolicy,
                Some(*index),
                "spec",
                message,
            ));
            continue;
        }
        for deviation in &verdict.deviations {
            let severity = match deviation.error {
                ErrorDirection::More | ErrorDirection::Either => Severity::Error,
                ErrorDirection::Less => Severity::Warning,
                ErrorDirection::Same => Severity::Note,
            };
            let field = deviation.place.to_string();
            let message = deviation.message.clone();
            let finding = Finding::new(severity, Check::NetworkPolicy, Some(*index), &field, message);
            findings.push(match &deviation.supported_since {
                Some(version) => finding.remedy(format!("version {version} supports it")),
                None => finding,
            });
        }
        for unanswered in &verdict.unanswered {
            let (field, message) = (unanswered.place.to_string(), unanswered.why.to_string());
            let finding =
                Finding::new(Severity::Warning, Check::NetworkPolicy, Some(*index), &field, message);
            findings.push(finding);
        }
    }
    Ok(findings)
}
