//! Completion of argument values.

use clap_complete::CompletionCandidate;
use kstatus::FailureClass;
#[cfg(feature = "netpol")]
use settled_netpol::{feature::Feature, profile::Profiles};
use settled_rules::RuleSet;
use settled_tracker::release::ReleaseKind;

use super::line::Line;
use super::words::{is_harmless, last_item};
use super::{lookup, types};

/// Finds the values of an argument that begin as the word at the cursor does.
pub(super) type Find = fn(&Line, &str) -> Vec<CompletionCandidate>;

/// Conditions that are waited for often.
const CONDITIONS: [&str; 12] = [
    "Ready",
    "Available",
    "Complete",
    "Failed",
    "Progressing",
    "Established",
    "ContainersReady",
    "PodScheduled",
    "Initialized",
    "Accepted",
    "Programmed",
    "Healthy",
];

/// Completer for an argument of a command.
pub(super) fn of(command: &str, id: &str, hidden: bool) -> Option<Find> {
    Some(match (command, id) {
        (_, "names" | "targets") if !hidden => targets,
        ("show", "kind") => rules,
        ("list", "text") => rule_groups,
        (_, "kind") => |line, current| types::values(line, current, ""),
        (_, "namespace") => namespaces,
        (_, "context") => |line, current| plain(lookup::kubeconfig(line).contexts, "", current),
        (_, "cluster") => |line, current| plain(lookup::kubeconfig(line).clusters, "", current),
        (_, "user") => |line, current| plain(lookup::kubeconfig(line).users, "", current),
        (_, "releases") => releases,
        (_, "conditions") => conditions,
        #[cfg(feature = "netpol")]
        (_, "providers" | "from_provider" | "to_provider") => providers,
        #[cfg(feature = "netpol")]
        ("profiles", "name") => |_, current| {
            let (profiles, _) = Profiles::embedded();
            plain(profiles.iter().map(|profile| profile.name.clone()).collect(), "", current)
        },
        #[cfg(feature = "netpol")]
        ("matrix", "features") => |_, current| {
            plain(Feature::ALL.iter().map(|feature| feature.as_str().to_owned()).collect(), "", current)
        },
        ("explain", "policy") => {
            |line, current| plain(lookup::names(line, &["networkpolicies"]), "", current)
        }
        (_, "fail_fast") => |_, current| listed(current, &classes().chain(["all"]).collect::<Vec<_>>()),
        (_, "graces") => |_, current| {
            let all = classes().map(|class| format!("{class}="));
            plain(all.collect(), "", current)
        },
        (_, "logs") => |_, current| words(&["tail", "live", "none"], current),
        _ => return None,
    })
}

/// The formats of `--report`; the file is the shell's to complete.
pub(super) fn reports(current: &str) -> Vec<CompletionCandidate> {
    words(&["junit=", "github=", "jsonl=", "json="], current)
}

/// `TYPE/NAME…`, `TYPE NAME…`, or types with commas between them.
fn targets(line: &Line, current: &str) -> Vec<CompletionCandidate> {
    // clap_complete asks about an option with its value, too.
    if current.starts_with('-') {
        return Vec::new();
    }
    if let Some((resource, name)) = current.split_once('/') {
        let head = &current[..current.len() - name.len()];
        let taken = line.targets.iter().filter_map(|target| target.strip_prefix(head));
        return others(lookup::names(line, &[resource]), taken.collect(), head, name);
    }
    match line.targets.split_first() {
        None => types::values(line, current, ""),
        Some(_) if line.targets.iter().any(|target| target.contains('/')) => {
            types::values(line, current, "/")
        }
        Some(_) if line.selects => Vec::new(),
        Some((resources, names)) => {
            let resources: Vec<&str> = resources.split(',').collect();
            others(lookup::names(line, &resources), names.iter().map(|name| &**name).collect(), "", current)
        }
    }
}

/// The names that are not on the command line already.
fn others(mut names: Vec<String>, taken: Vec<&str>, head: &str, current: &str) -> Vec<CompletionCandidate> {
    names.retain(|name| name == current || !taken.contains(&&**name));
    plain(names, head, current)
}

/// A list with commas: its last item.
fn namespaces(line: &Line, current: &str) -> Vec<CompletionCandidate> {
    let (head, current) = last_item(current);
    plain(lookup::namespaces(line), head, current)
}

fn releases(line: &Line, current: &str) -> Vec<CompletionCandidate> {
    let Some((word, name)) = current.split_once('/') else {
        let all = ReleaseKind::all().map(|(word, _)| format!("{word}/"));
        return plain(all.collect(), "", current);
    };
    let Some((_, release_kind)) = ReleaseKind::all().find(|(known, _)| *known == word) else {
        return Vec::new();
    };
    plain(lookup::releases(line, release_kind), &format!("{word}/"), name)
}

fn conditions(_: &Line, current: &str) -> Vec<CompletionCandidate> {
    match current.strip_prefix("condition=") {
        Some(name) => {
            let all = CONDITIONS.iter().map(|name| (*name).to_owned());
            plain(all.collect(), "condition=", name)
        }
        None => words(
            &["ready", "current", "failed", "create", "delete", "condition=", "jsonpath=", "cel="],
            current,
        ),
    }
}

/// Providers in the last version that their profile knows; of one that is named, also in the first.
#[cfg(feature = "netpol")]
fn providers(_: &Line, current: &str) -> Vec<CompletionCandidate> {
    let (profiles, _) = Profiles::embedded();
    let all = profiles.iter().flat_map(|profile| {
        let is_named = current.starts_with(&format!("{}@", profile.name));
        let first = is_named.then_some(&profile.versions.from);
        let versions = first.into_iter().chain([&profile.versions.through]);
        versions.map(|version| format!("{}@{version}", profile.name)).collect::<Vec<_>>()
    });
    plain(all.collect(), "", current)
}

/// `GROUP/KIND` of all rules in the program.
fn rules(_: &Line, current: &str) -> Vec<CompletionCandidate> {
    let list = RuleSet::builder().build().list();
    let kinds = list.iter().flat_map(|rule| {
        rule.kinds
            .iter()
            .map(|kind| if rule.group.is_empty() { kind.clone() } else { format!("{}/{kind}", rule.group) })
    });
    let mut kinds: Vec<String> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    plain(kinds, "", current)
}

fn rule_groups(_: &Line, current: &str) -> Vec<CompletionCandidate> {
    let mut groups: Vec<String> =
        RuleSet::builder().build().list().into_iter().map(|rule| rule.group).collect();
    groups.sort_unstable();
    groups.dedup();
    plain(groups, "", current)
}

fn classes() -> impl Iterator<Item = &'static str> {
    FailureClass::ALL.iter().map(|class| class.as_str())
}

fn words(all: &[&str], current: &str) -> Vec<CompletionCandidate> {
    plain(all.iter().map(|word| (*word).to_owned()).collect(), "", current)
}

/// The words of a list with commas, without those that are in it.
fn listed(current: &str, all: &[&str]) -> Vec<CompletionCandidate> {
    let (head, last) = last_item(current);
    let rest = all.iter().filter(|word| !head.split(',').any(|taken| taken == **word));
    plain(rest.map(|word| (*word).to_owned()).collect(), head, last)
}

/// The names that begin as `current` does, after what stands before them on the command line.
fn plain(names: Vec<String>, head: &str, current: &str) -> Vec<CompletionCandidate> {
    let names = names.into_iter().filter(|name| name.starts_with(current) && is_harmless(name));
    names.map(|name| CompletionCandidate::new(format!("{head}{name}"))).collect()
}
