//! `settled apply`: what the server made of each object, and then a wait.

use std::process::ExitCode;

use jiff::Timestamp;
use settled_tracker::{Applied, ApplyEvent, ApplyOptions, Outcome, Wanted, apply};

use crate::cli::live::{ApplyArgs, DryRun, WaitOutput};
use crate::cluster;
use crate::command;
use crate::error::CommandError;
use crate::names::Names;
use crate::output;
use crate::patience::Patience;
use crate::progress::write_timed;
use crate::render::explain::{self, Explain};
use crate::style::Palette;
use crate::text::plural;
use crate::wait::{self, Output, kubectl_name};

pub(crate) fn run(args: &ApplyArgs) -> Result<ExitCode, CommandError> {
    let dry_run = args.dry_run == DryRun::Server;
    if dry_run && args.wait {
        return Err(CommandError::usage("a dry run changes nothing that --wait could wait for"));
    }
    if let [_, _, ..] = &*cluster::namespaces(args.namespace.as_deref())? {
        return Err(CommandError::usage("apply takes one namespace: an object without one is applied once"));
    }
    let (until, limits) = cluster::policy(&args.policy)?;
    let rules = command::rule_set(&args.rules)?;
    let objects = cluster::objects(&args.files)?;
    let output = Output::new(args.output, &args.show, &args.policy)?;
    let options = ApplyOptions {
        field_manager: args.field_manager.clone(),
        force: args.force_conflicts,
        dry_run,
        namespace: args.namespace.clone(),
    };
    let patience = Patience::with_timeout(Some(args.policy.timeout));
    wait::interruptible(async |signals| {
        let cluster = cluster::connect(&args.cluster, patience).await?;
        let mut told = Told {
            format: args.output,
            quiet: args.show.quiet,
            dry_run,
            names: Names::default(),
            broken: None,
        };
        let applied = tokio::select! {
            applied = apply(&cluster, objects, &options, |event| told.event(&event)) => applied,
            () = patience.exhausted() => {
                let error = format!("not all objects were applied within {}", patience.limit());
                return Err(CommandError::cluster(error).hint("--timeout allows more time"));
            }
            () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
        };
        let report = applied.map_err(|error| cluster::unreachable(&error))?;
        if let Some(error) = told.broken {
            return Err(error);
        }
        if report.refused > 0 {
            let waited = if args.wait { "; nothing is waited for" } else { "" };
            let refused = plural(report.refused as u64, "object");
            output::diagnose(&format!(
                "{} {refused} of {} not applied{waited}",
                Palette::stderr().error("error:"),
                report.refused + report.targets.len()
            ));
            return Ok(ExitCode::from(1));
        }
        if !args.wait {
            return Ok(ExitCode::SUCCESS);
        }
        let mut request = cluster::look(report.targets, args.namespace.as_deref(), rules, args.judge);
        request.until = until;
        request.limits = limits;
        request.wanted = Wanted { events: true, log_lines: args.evidence.log_lines() };
        let tracker = tokio::select! {
            tracker = cluster::start(cluster, request) => tracker?,
            () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
        };
        wait::follow(tracker, output, signals).await
    })
}

/// Tells what happens while applying.
struct Told {
    format: WaitOutput,
    quiet: bool,
    dry_run: bool,
    names: Names,
    /// Why nothing more can be told.
    broken: Option<CommandError>,
}

impl Told {
    fn event(&mut self, event: &ApplyEvent) {
        if self.format == WaitOutput::Jsonl {
            if !self.quiet {
                let mut line = Vec::new();
                // Memory takes everything.
                write_timed(event, Timestamp::now(), &mut line).ok();
                self.print(&line);
            }
            return;
        }
        match event {
            ApplyEvent::Applied { object, result } => {
                self.names.see(object);
                let line = format!(
                    "{} {}{}{}\n",
                    kubectl_name(object),
                    word(*result),
                    self.names.place(object),
                    if self.dry_run { " (server dry run)" } else { "" }
                );
                match self.format {
                    _ if self.quiet => {}
                    // Elsewhere standard output is for the result.
                    WaitOutput::Text => self.print(line.as_bytes()),
                    _ => output::diagnose(line.trim_end()),
                }
            }
            ApplyEvent::Refused { object, message, conflicts, remedy } => {
                self.names.see(object);
                let mut error = CommandError::input(match &*object.kind {
                    "" => message.clone(),
                    _ => format!("{}{}: {message}", kubectl_name(object), self.names.place(object)),
                });
                for conflict in conflicts {
                    error = error.detail(format!("{} is owned by {}", conflict.field, conflict.manager));
                }
                if let Some(remedy) = remedy {
                    error = error.hint(remedy.clone());
                }
                error.report();
            }
            ApplyEvent::Awaiting { objects } if !self.quiet => {
                let names: Vec<String> =
                    objects.iter().take(5).map(|object| self.names.name(object)).collect();
                let more = objects.len().saturating_sub(names.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                output::diagnose(&format!("waiting for {}{more} first", names.join(", ")));
            }
            ApplyEvent::Awaiting { .. } => {}
            ApplyEvent::NotAwaited(report) => {
                let names = Names::of(report.targets.iter().map(|target| &target.object));
                let explain =
                    Explain { palette: Palette::stderr(), width: None, names: &names, now: Timestamp::now() };
                output::diagnose(explain.report(report).trim_end());
                if report.outcome == Outcome::Unreachable {
                    for notice in &report.notices {
                        explain::notice(notice, Palette::stderr())
                            .iter()
                            .for_each(|line| output::diagnose(line));
                    }
                }
            }
        }
    }

    fn print(&mut self, text: &[u8]) {
        if let Err(error) = output::print(text) {
            self.broken.get_or_insert(error);
        }
    }
}

fn word(applied: Applied) -> &'static str {
    match applied {
        Applied::Created => "created",
        Applied::Changed => "changed",
        Applied::Unchanged => "unchanged",
    }
}
