//! `settled netpol check`: whether providers carry out policies as written.

use std::process::ExitCode;
use std::time::Instant;

use jiff::Timestamp;
use settled_netpol::cluster::Cluster;
use settled_netpol::index::ClusterIndex;
use settled_netpol::profile::Profiles;

use super::detection;
use super::evaluate::{Check, title};
use super::files::{self, Contents, Entry};
use super::live::{self, Live, Scope, Wanted};
use super::migration;
use super::notices;
use super::providers::{self, Chosen};
use super::render::{github, json, junit, sarif, table};
use super::row::{NotLookedFor, PolicyRow, Report, State};
use crate::cli::netpol::{CheckArgs, CheckOutput};
use crate::cluster;
use crate::error::CommandError;
use crate::output;
use crate::session;
use crate::stderr;
use crate::style::Palette;
use crate::text::{self, plural};

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, CommandError> {
    let started = Instant::now();
    let loaded = providers::load(&args.provider.profiles);
    let profiles = &loaded.profiles;
    let names: Vec<String> = match (&args.from_provider, &args.to_provider) {
        (Some(from), Some(to)) => vec![from.clone(), to.clone()],
        _ => args.provider.providers.clone(),
    };
    let named = providers::named(profiles, &names)?;
    let Some((mut contents, chosen)) = gather(args, profiles, named)? else {
        return Ok(ExitCode::from(session::INTERRUPTED));
    };
    let mut report = Report { not_evaluated: contents.not_evaluated(), ..Report::default() };
    let cluster = contents.cluster(args.input.names_files());
    if !args.input.names_files() {
        report.unread = std::mem::take(&mut contents.unread);
    }
    let shown = shown(args, &contents)?;
    report.providers = chosen.iter().map(Chosen::row).collect();
    let policies = std::mem::take(&mut contents.policies).into_iter().zip(shown);
    evaluate(args, &chosen, policies, cluster.as_ref(), &mut report);
    // A file or a profile that cannot be used must not pass for one that has been checked.
    let code = match contents.unreadable > 0 || loaded.errors > 0 {
        true => 2,
        false => report.exit_code(),
    };
    let summary = summary(&report, &contents, started);
    if !args.quiet {
        print(args, &report, code, &summary, started)?;
        notices::print(&report);
        if report.policies.is_empty() && !args.input.names_files() && !args.input.all_namespaces {
            let label = Palette::stderr().hint("hint:");
            stderr::print_line(&format!("{label} -A checks the policies of all namespaces"));
        }
        // Of files of which none could be read, the errors say it.
        let has_result = !report.policies.is_empty() || contents.unreadable == 0;
        if args.output != CheckOutput::Github && has_result {
            stderr::print_line(&summary);
        }
    }
    Ok(ExitCode::from(code))
}

/// Evaluates policies. Each is dropped as soon as its rows are made: many take more memory than what is reported of them.
fn evaluate(
    args: &CheckArgs,
    chosen: &[Chosen<'_>],
    policies: impl Iterator<Item = (Entry, bool)>,
    cluster: Option<&Cluster>,
    report: &mut Report,
) {
    let index = cluster.map(ClusterIndex::new);
    let (policies, shown): (Vec<Entry>, Vec<bool>) = policies.unzip();
    let mut checks: Vec<Check<'_>> =
        chosen.iter().map(|chosen| Check::new(chosen, &policies, index.as_ref())).collect();
    // By provider.
    let mut rows: Vec<Vec<PolicyRow>> = vec![Vec::new(); chosen.len()];
    for (entry, _) in policies.into_iter().zip(shown).filter(|(_, is_shown)| *is_shown) {
        let mut made = checks.iter_mut().map(|check| check.row(&entry));
        let made = match args.from_provider.is_some() {
            true => {
                made.next().zip(made.next()).map(|(from, to)| migration::row(&from, to)).into_iter().collect()
            }
            false => made.collect::<Vec<PolicyRow>>(),
        };
        for (mut row, rows) in made.into_iter().zip(&mut rows) {
            if args.quiet {
                // Only the exit code is wanted.
                (row.findings, row.message) = (Vec::new(), "".into());
            }
            rows.push(row);
        }
    }
    report.policies = rows.into_iter().flatten().collect();
    for NotLookedFor { objects, reason, features } in checks.into_iter().flat_map(Check::not_looked_for) {
        NotLookedFor::add(&mut report.not_looked_for, objects, &reason, features);
    }
}

/// Policies and providers, from files and from the cluster; None if the user interrupts it.
fn gather<'p>(
    args: &CheckArgs,
    profiles: &'p Profiles,
    named: Vec<Chosen<'p>>,
) -> Result<Option<(Contents, Vec<Chosen<'p>>)>, CommandError> {
    if args.input.names_files() {
        let contents = files::read(&args.input, profiles)?;
        if !named.is_empty() {
            return Ok(Some((contents, named)));
        }
        if let Some(chosen) = detection::in_files(profiles, &contents)? {
            return Ok(Some((contents, chosen)));
        }
        let wanted = Wanted { profiles, policies: None, providers: true };
        let Some(live) = live::read(&args.input, &args.cluster, &wanted)? else { return Ok(None) };
        let chosen = live.inventory.map(|inventory| detection::chosen(profiles, &inventory));
        return Ok(Some((contents, chosen.unwrap_or(Ok(named))?)));
    }
    let wanted = Wanted { profiles, policies: Some(Scope::Arguments), providers: named.is_empty() };
    let Some(Live { contents, inventory }) = live::read(&args.input, &args.cluster, &wanted)? else {
        return Ok(None);
    };
    let chosen = match inventory {
        Some(inventory) => detection::chosen(profiles, &inventory)?,
        None => named,
    };
    Ok(Some((contents, chosen)))
}

/// Which policies are shown: all others are only evaluated with them.
fn shown(args: &CheckArgs, contents: &Contents) -> Result<Vec<bool>, CommandError> {
    let from_files = args.input.names_files();
    let namespaces = cluster::namespaces(args.input.namespace.as_deref())?;
    let is_shown = |namespace: &str| {
        !from_files
            || namespaces.is_empty()
            || namespace.is_empty()
            || namespaces.iter().any(|name| name == namespace)
    };
    let shown: Vec<bool> =
        contents.policies.iter().map(|entry| is_shown(&entry.parsed.id.namespace)).collect();
    if from_files && contents.unreadable == 0 && !shown.contains(&true) {
        let objects = plural(contents.objects, "object");
        let error = match namespaces.is_empty() {
            true => format!("no network policies found; read {objects}"),
            false => {
                format!("no network policies found in namespace {}; read {objects}", namespaces.join(", "))
            }
        };
        return Err(CommandError::input(error));
    }
    Ok(shown)
}

/// `3 policies, cilium@1.15: 1 PartialFailure, 2 Accepted (2 files, 14 ms)`
fn summary(report: &Report, contents: &Contents, started: Instant) -> String {
    let providers: Vec<&str> = report.providers.iter().map(|provider| &*provider.provider).collect();
    let policies = match report.policies.len() {
        1 => "1 policy".to_owned(),
        count => format!("{count} policies"),
    };
    let mut line = format!("{policies}, {}", providers.join(", "));
    let mut separator = ": ";
    for state in State::ALL {
        let count = report.count(state);
        if count > 0 {
            line.push_str(&format!("{separator}{count} {}", state.as_str()));
            separator = ", ";
        }
    }
    let time = text::elapsed(started.elapsed());
    match contents.inputs {
        0 => line.push_str(&format!(" (cluster, {time})")),
        files => line.push_str(&format!(" ({}, {time})", plural(files, "file"))),
    }
    text::clean(&line)
}

fn print(
    args: &CheckArgs,
    report: &Report,
    code: u8,
    summary: &str,
    started: Instant,
) -> Result<(), CommandError> {
    let width = output::width(args.width);
    let table = |is_wide| output::print(table::table(report, is_wide, width, Palette::stdout()).as_bytes());
    match args.output {
        CheckOutput::Table | CheckOutput::Wide if report.policies.is_empty() => Ok(()),
        CheckOutput::Table => table(false),
        CheckOutput::Wide => table(true),
        CheckOutput::Json => json::report(report, false),
        CheckOutput::Yaml => json::report(report, true),
        CheckOutput::Jsonl => json::lines(report),
        CheckOutput::Sarif => output::print_json(&sarif::log(report, code, title)),
        CheckOutput::Junit => {
            let document = junit::document(report, Timestamp::now(), started.elapsed(), summary);
            output::print(document.as_bytes())
        }
        CheckOutput::Github => {
            output::print(github::commands(report, summary).as_bytes())?;
            output::append_step_summary(&github::summary(report, summary))
        }
    }
}
