//! `settled netpol check`: whether providers carry out policies as written.

use std::process::ExitCode;
use std::time::Instant;

use jiff::Timestamp;
use settled_netpol::profile::Profiles;

use super::detection;
use super::evaluate::{self, Evaluation};
use super::files::{self, Contents};
use super::live::{self, Live, Scope, Wanted};
use super::migration;
use super::notices;
use super::providers::{self, Chosen};
use super::render::{github, json, junit, sarif, table};
use super::row::{NotLookedFor, Report, State};
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
    match (&args.from_provider, &*chosen) {
        (Some(_), [from, to]) => {
            report.policies = migration::rows(from, to, &contents.policies, cluster.as_ref());
        }
        _ => {
            for chosen in &chosen {
                let Evaluation { rows, not_looked_for, .. } =
                    evaluate::policies(chosen, &contents.policies, cluster.as_ref());
                report.policies.extend(rows);
                for NotLookedFor { objects, reason, features } in not_looked_for {
                    NotLookedFor::add(&mut report.not_looked_for, objects, &reason, features);
                }
            }
        }
    }
    let count = contents.policies.len();
    let mut index = 0;
    report.policies.retain(|_| {
        index += 1;
        shown.get((index - 1) % count.max(1)).copied().unwrap_or(true)
    });
    // A file or a profile that cannot be used must not pass for one that has been checked.
    let code = match contents.unreadable > 0 || loaded.errors > 0 {
        true => 2,
        false => report.exit_code(),
    };
    let summary = summary(&report, &contents, started);
    if !args.quiet {
        print(args, &report, code, &summary, started)?;
        notices::print(&report);
        if report.policies.is_empty() && !args.input.all_namespaces {
            let label = Palette::stderr().hint("hint:");
            stderr::print_line(&format!("{label} -A checks the policies of all namespaces"));
        }
        if args.output != CheckOutput::Github {
            stderr::print_line(&summary);
        }
    }
    Ok(ExitCode::from(code))
}

/// Policies and providers, from files and from the cluster; None if the user interrupts it.
fn gather<'p>(
    args: &CheckArgs,
    profiles: &'p Profiles,
    named: Vec<Chosen<'p>>,
) -> Result<Option<(Contents, Vec<Chosen<'p>>)>, CommandError> {
    if args.input.names_files() {
        let contents = files::read(&args.input)?;
        if !named.is_empty() {
            return Ok(Some((contents, named)));
        }
        if let Some(chosen) = detection::in_files(profiles, &contents)? {
            return Ok(Some((contents, chosen)));
        }
        let wanted = Wanted { policies: None, providers: Some(profiles) };
        let Some(live) = live::read(&args.input, &args.cluster, &wanted)? else { return Ok(None) };
        let chosen = live.inventory.map(|inventory| detection::chosen(profiles, &inventory));
        return Ok(Some((contents, chosen.unwrap_or(Ok(named))?)));
    }
    let wanted = Wanted { policies: Some(Scope::Arguments), providers: named.is_empty().then_some(profiles) };
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
        CheckOutput::Sarif => output::print_json(&sarif::log(report, code, evaluate::title)),
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
