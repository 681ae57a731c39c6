//! Notices on standard error: what was not evaluated, and which findings are missing because something could not be read.

use super::row::{NotEvaluated, NotLookedFor, ProviderRow, Report, Unread};
use crate::stderr;
use crate::style::Palette;
use crate::text::{self, plural};

/// What depends on objects that could not be read.
fn missing(objects: &str) -> &'static str {
    match objects {
        "pods" => {
            "findings on named ports, on selectors that match nothing and on the pods that a policy selects"
        }
        "namespaces" => "findings on namespace selectors",
        "nodes" => "findings on ipBlocks with addresses of nodes and pods",
        "services" => "findings on ipBlocks with cluster IPs and on ports of Services",
        _ => "what these policies allow and deny before and after NetworkPolicies",
    }
}

/// All notices of a check.
pub(super) fn print(report: &Report) {
    report.providers.iter().for_each(provider);
    not_evaluated(&report.not_evaluated);
    unread(&report.unread);
    // Of a cluster, what could not be read says it.
    if report.unread.is_empty() {
        report.not_looked_for.iter().for_each(not_looked_for);
    }
}

/// Features that were not looked for: policies of files alone say nothing of the cluster.
fn not_looked_for(missing: &NotLookedFor) {
    let NotLookedFor { objects, reason, features } = missing;
    let line = match *objects {
        "cluster" => format!(
            "{} need Pods, Namespaces, Nodes or Services, which the files do not have; -o json lists them",
            plural(features.len() as u64, "check")
        ),
        _ => {
            let features: Vec<&str> = features.iter().copied().collect();
            format!("not evaluated, since {reason}: {}", features.join(", "))
        }
    };
    stderr::print_line(&format!("{} {}", Palette::stderr().hint("note:"), text::clean(&line)));
}

/// Objects that could not be read.
pub(super) fn unread(unread: &[Unread]) {
    for Unread { objects, reason } in unread {
        warn(&format!("cannot read {objects}: {reason}; missing: {}", missing(objects)));
    }
}

/// Kinds of policies that are not evaluated.
pub(super) fn not_evaluated(kinds: &[NotEvaluated]) {
    for NotEvaluated { api_version, kind, count, providers } in kinds {
        let objects = crate::names::count_of(usize::try_from(*count).unwrap_or(usize::MAX), kind);
        let owner = match &**providers {
            [] => "an unknown version".to_owned(),
            owners => format!("a kind of {}", owners.join(" and ")),
        };
        let verb = if *count == 1 { "decides" } else { "decide" };
        warn(&format!(
            "not evaluated: {objects} of {api_version}, {owner}, which also {verb} what may connect"
        ));
    }
}

/// How a provider was detected, and why nothing is known of it.
pub(super) fn provider(provider: &ProviderRow) {
    for evidence in &provider.evidence {
        let label = Palette::stderr().hint("detected:");
        stderr::print_line(&format!(
            "{label} {} by {}",
            text::clean(&provider.provider),
            text::clean(evidence)
        ));
    }
    if let Some(unknown) = &provider.unknown {
        warn(unknown);
    }
}

fn warn(message: &str) {
    stderr::print_line(&format!("{} {}", Palette::stderr().warning("warning:"), text::clean(message)));
}
