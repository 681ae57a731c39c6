//! `settled netpol diff`: what connectivity changes between two sets of policies.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use settled_netpol::cluster::Cluster;
use settled_netpol::diff::{Change, Diff, diff};
use settled_netpol::model::{Policy, PolicyId};
use settled_netpol::profile::Profiles;
use settled_netpol::reach::{Outcome, UnknownReason, View};

use super::evaluate;
use super::explain::worse;
use super::files::{self, Contents, Entry};
use super::live::{self, Scope, Wanted};
use super::notices;
use super::providers::{self, Chosen};
use super::render::{connections, json as output_json};
use super::row::Unread;
use crate::cli::netpol::{DiffArgs, TextOutput};
use crate::error::CommandError;
use crate::output;
use crate::session;
use crate::stderr;
use crate::style::Palette;
use crate::text;

/// How many changes are listed as text.
const CHANGES_MAX: usize = 1000;

/// What changes with a provider, or as written; or why nobody knows.
type Changes = (Option<Arc<str>>, Result<Diff, UnknownReason>);

/// The two sets, and what both select.
struct Sets {
    before: Contents,
    after: Contents,
    cluster: Option<Cluster>,
    unread: Vec<Unread>,
}

pub(super) fn run(args: &DiffArgs) -> Result<ExitCode, CommandError> {
    let loaded = providers::load(&args.provider.profiles);
    let chosen = providers::named(&loaded.profiles, &args.provider.providers)?;
    let sets = match (&args.before, &args.after) {
        (Some(before), Some(after)) => of_files(args, &loaded.profiles, before, after)?,
        _ => match against_cluster(args, &loaded.profiles)? {
            Some(sets) => sets,
            None => return Ok(ExitCode::from(session::INTERRUPTED)),
        },
    };
    let Some(cluster) = &sets.cluster else {
        return Err(CommandError::input("the files have no pods: there is nothing that could connect").hint(
            "add Pods or workloads to the files, or compare with a cluster: settled netpol diff -f FILE",
        ));
    };
    let mut results: Vec<Changes> = Vec::new();
    if chosen.is_empty() {
        results.push((None, compare(&sets, cluster, None)));
    }
    for chosen in &chosen {
        results.push((Some(Arc::clone(&chosen.label)), compare(&sets, cluster, Some(chosen))));
    }
    match args.output {
        TextOutput::Text => output::print(text_of(&results).as_bytes())?,
        TextOutput::Json => output_json::print(&value(&results), false)?,
        TextOutput::Yaml => output_json::print(&value(&results), true)?,
    }
    chosen.iter().map(Chosen::row).for_each(|row| notices::provider(&row));
    notices::unread(&sets.unread);
    notices::not_evaluated(&sets.after.not_evaluated());
    let changes: usize =
        results.iter().filter_map(|(_, result)| Some(result.as_ref().ok()?.changes.len())).sum();
    let count = match changes {
        1 => "1 change".to_owned(),
        count => format!("{count} changes"),
    };
    stderr::print_line(&format!("{count} of connectivity"));
    let mut code = results.iter().map(|(_, result)| code_of(result)).fold(0, worse);
    if sets.before.unreadable + sets.after.unreadable > 0 || loaded.errors > 0 {
        code = worse(code, 2);
    }
    Ok(ExitCode::from(code))
}

/// Two files or directories; what is selected is that of both, the second counting.
fn of_files(args: &DiffArgs, profiles: &Profiles, before: &Path, after: &Path) -> Result<Sets, CommandError> {
    let read = |path: &Path| files::read_paths(&[path.to_owned()], None, &args.input, profiles);
    let (mut before, mut after) = (read(before)?, read(after)?);
    let objects = before.objects + after.objects;
    if objects == 0 && before.unreadable + after.unreadable == 0 {
        return Err(CommandError::input("no objects found in either"));
    }
    after.snapshot.complete_from(std::mem::take(&mut before.snapshot));
    let cluster = after.cluster(true);
    Ok(Sets { before, after, cluster, unread: Vec::new() })
}

/// The policies of the cluster, and those with the files applied.
fn against_cluster(args: &DiffArgs, profiles: &Profiles) -> Result<Option<Sets>, CommandError> {
    let files = files::read(&args.input, profiles)?;
    let wanted = Wanted { profiles, policies: Some(Scope::Everywhere), providers: false };
    let Some(live) = live::read(&args.input, &args.cluster, &wanted)? else { return Ok(None) };
    let mut before = live.contents;
    let cluster = before.cluster(false);
    let unread = std::mem::take(&mut before.unread);
    let mut applied: BTreeMap<PolicyId, Entry> = before
        .policies
        .iter()
        .map(|entry| (entry.parsed.id.clone(), Entry::of_cluster((*entry.parsed).clone())))
        .collect();
    let others = std::mem::take(&mut before.others);
    let mut after = files;
    for entry in std::mem::take(&mut after.policies) {
        applied.insert(entry.parsed.id.clone(), entry);
    }
    after.policies = applied.into_values().collect();
    after.others = others;
    Ok(Some(Sets { before, after, cluster, unread }))
}

fn policies(contents: &Contents) -> Vec<Policy> {
    contents.policies.iter().filter_map(|entry| entry.parsed.policy.clone()).collect()
}

/// The changes as written, or as a provider carries both sets out; or why nobody knows.
fn compare(sets: &Sets, cluster: &Cluster, chosen: Option<&Chosen<'_>>) -> Result<Diff, UnknownReason> {
    let (before, after) = (policies(&sets.before), policies(&sets.after));
    let before = view(&sets.before, &before, cluster, chosen);
    let after = view(&sets.after, &after, cluster, chosen);
    diff(cluster, &before, &after)
}

fn view<'a>(
    contents: &Contents,
    policies: &'a [Policy],
    cluster: &Cluster,
    chosen: Option<&Chosen<'_>>,
) -> View<'a> {
    let view = match chosen {
        Some(chosen) => {
            let deviations = evaluate::deviations(chosen, &contents.policies, Some(cluster));
            View::carried_out(policies, &deviations)
        }
        None => View::as_written(policies),
    };
    view.with_unread(evaluate::unread_policies(contents))
}

fn code_of(result: &Result<Diff, UnknownReason>) -> u8 {
    let Ok(Diff { changes, .. }) = result else { return 3 };
    let is_known = |change: &Change| change.before != Outcome::Unknown && change.after != Outcome::Unknown;
    if changes.iter().any(is_known) {
        1
    } else if changes.is_empty() {
        0
    } else {
        3
    }
}

fn text_of(results: &[Changes]) -> String {
    let palette = Palette::stdout();
    let mut out = String::new();
    for (provider, result) in results {
        if let Some(provider) = provider {
            out.push_str(&palette.heading(&format!("as carried out by {}:", text::clean(provider))));
            out.push('\n');
        }
        match result {
            Err(reason) => out.push_str(&format!("unknown: {}\n", text::clean(&reason.to_string()))),
            Ok(diff) => {
                for change in diff.changes.iter().take(CHANGES_MAX) {
                    let line = text::clean(&change.to_string());
                    let (mark, line) = match change.after {
                        Outcome::Allowed => ("+", palette.added(&line)),
                        Outcome::Denied => ("-", palette.removed(&line)),
                        Outcome::Unknown => ("?", palette.warning(&line)),
                    };
                    out.push_str(&format!("{mark} {line}\n"));
                }
                let more = diff.changes.len().saturating_sub(CHANGES_MAX);
                if more > 0 {
                    out.push_str(&format!("… and {more} more; -o json lists all\n"));
                }
                for reason in &diff.left_out {
                    out.push_str(&format!("left out: {}\n", text::clean(&reason.to_string())));
                }
            }
        }
    }
    out
}

fn value(results: &[Changes]) -> Value {
    let one = |(provider, result): &Changes| {
        let mut value = match result {
            Err(reason) => json!({"unknown": [reason.to_string()], "changes": []}),
            Ok(diff) => json!({
                "changes": diff.changes.iter().map(change).collect::<Vec<_>>(),
                "leftOut": diff.left_out.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }),
        };
        if let (Some(provider), Some(map)) = (provider, value.as_object_mut()) {
            map.insert("provider".to_owned(), json!(**provider));
        }
        value
    };
    json!({"results": results.iter().map(one).collect::<Vec<_>>()})
}

fn change(change: &Change) -> Value {
    let traffic = change.traffic.iter().map(
        |(protocol, ranges)| json!({"protocol": protocol.as_str(), "ports": connections::ports(ranges)}),
    );
    json!({
        "from": change.from.to_string(),
        "to": change.to.to_string(),
        "family": change.family.map(|family| family.to_string()),
        "traffic": traffic.collect::<Vec<_>>(),
        "before": change.before.to_string(),
        "after": change.after.to_string(),
    })
}
