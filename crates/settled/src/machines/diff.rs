//! `settled cluster diff` and `sync`: compares two clusters, and makes the second declare what the first does.

use std::process::ExitCode;

use serde_json::{Value, json};
use settled_machines::compare::{
    Comparison, Difference, Normalized, Options, Part, SyncPlan, compare, compare_observed, plan_sync,
};
use settled_machines::inventory::{Id, Inventory};
use settled_machines::live;
use settled_machines::preview::{Preview, preview};

use super::sources::Source;
use super::{plan, providers, server};
use crate::cli::machines::{DiffArgs, PartName, SourceArgs, SyncArgs, TableOutput, TextOutput};
use crate::error::CommandError;
use crate::output;
use crate::patience::Patience;
use crate::session::{self, INTERRUPTED};
use crate::stderr;
use crate::style::Palette;
use crate::text;

pub(super) fn run_diff(args: &DiffArgs) -> Result<ExitCode, CommandError> {
    // 1 is an answer here: whatever goes wrong is 2.
    match differences(args) {
        Ok(Some(comparison)) => {
            show(&comparison, args.output.format)?;
            Ok(ExitCode::from(u8::from(!comparison.is_empty())))
        }
        Ok(None) => Ok(ExitCode::from(INTERRUPTED)),
        Err(error) => {
            error.report();
            Ok(ExitCode::from(2))
        }
    }
}

fn differences(args: &DiffArgs) -> Result<Option<Comparison>, CommandError> {
    let options = Options { ignore_replicas: args.ignore_replicas };
    let Some((a, b)) = both(&args.a, &args.b, &args.server)? else { return Ok(None) };
    if args.observed {
        return Ok(Some(compare_observed(&a, &b, options)));
    }
    let mut comparison = compare(&Normalized::new(&a, options), &Normalized::new(&b, options));
    if let Some(part) = args.part {
        let part = match part {
            PartName::Agnostic => Part::Agnostic,
            PartName::Provider => Part::Provider,
        };
        comparison.differences.retain(|difference| difference.part == part);
    }
    Ok(Some(comparison))
}

fn both(a: &str, b: &str, args: &SourceArgs) -> Result<Option<(Inventory, Inventory)>, CommandError> {
    let (a, b) = (Source::parse(a, &args.connection.cluster)?, Source::parse(b, &args.connection.cluster)?);
    let patience = Patience::with_timeout(Some(args.connection.timeout));
    session::run(async {
        let read = async { Ok((a.read(args, patience).await?, b.read(args, patience).await?)) };
        tokio::select! {
            read = read => read,
            () = patience.exhausted() => Err(CommandError::cluster(format!("not read within {}", patience.limit()))),
        }
    })
}

fn show(comparison: &Comparison, format: TextOutput) -> Result<(), CommandError> {
    match format {
        TextOutput::Json => output::print_json(&value(comparison))?,
        TextOutput::Text => output::print(lines(comparison).as_bytes())?,
    }
    let count = |part| comparison.of_part(part).count();
    let parts = [Part::Agnostic, Part::Provider, Part::Observed].map(|part| (part, count(part)));
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(part, count)| format!("{count} {}", part.as_str()))
        .collect();
    stderr::print_line(&match comparison.differences.len() {
        0 => "no differences".to_owned(),
        count => format!("{} ({})", text::plural(count as u64, "difference"), parts.join(", ")),
    });
    Ok(())
}

/// A value in one line.
fn short(value: &Value) -> String {
    const COLUMNS: usize = 200;
    text::truncate(&text::clean(&value.to_string()), COLUMNS).0
}

fn lines(comparison: &Comparison) -> String {
    let palette = Palette::stdout();
    let mut out = String::new();
    let mut role = None;
    for difference in &comparison.differences {
        if role != Some(&difference.role) {
            role = Some(&difference.role);
            out.push_str(&palette.heading(&text::clean(&difference.role.to_string())));
            out.push('\n');
        }
        let path = match difference.path.as_str() {
            "" => "the object".to_owned(),
            path => path.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~"),
        };
        out.push_str(&format!("  {} ({})\n", text::clean(&path), difference.part.as_str()));
        let are_formats_different = difference.path.ends_with("providerSpec/value")
            && difference.a.is_some()
            && difference.b.is_some();
        let shown = |value: &Value| match difference.path.as_str() {
            "" => "exists only here".to_owned(),
            _ if are_formats_different => format!(
                "{} (differs by provider)",
                short(&json!([value.get("apiVersion"), value.get("kind")]))
            ),
            _ => short(value),
        };
        if let Some(value) = &difference.a {
            out.push_str(&palette.removed(&format!("  - {}", shown(value))));
            out.push('\n');
        }
        if let Some(value) = &difference.b {
            out.push_str(&palette.added(&format!("  + {}", shown(value))));
            out.push('\n');
        }
    }
    out
}

fn value(comparison: &Comparison) -> Value {
    let difference = |difference: &Difference| {
        json!({
            "kind": difference.role.kind.as_str(), "role": difference.role.name, "part": difference.part.as_str(),
            "path": difference.path, "a": difference.a, "b": difference.b,
        })
    };
    json!({
        "differences": comparison.differences.iter().map(difference).collect::<Vec<_>>(),
        "patches": comparison.patches(),
    })
}

/// What a synchronization comes to.
enum Synced {
    Done(SyncPlan),
    Interrupted,
}

pub(super) fn run_sync(args: &SyncArgs) -> Result<ExitCode, CommandError> {
    let (a, b) = (
        Source::parse(&args.a, &args.server.connection.cluster)?,
        Source::parse(&args.b, &args.server.connection.cluster)?,
    );
    let patience = Patience::with_timeout(Some(args.server.connection.timeout));
    let synced = session::run(async {
        let work = synchronize(args, &a, &b, patience);
        tokio::select! {
            synced = work => synced.map(Synced::Done),
            () = patience.exhausted() => Err(CommandError::cluster(format!("not done within {}", patience.limit()))),
        }
    })?;
    let Synced::Done(plan) = synced.unwrap_or(Synced::Interrupted) else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    for unsynced in &plan.unsynced {
        let place = format!("{} {}", unsynced.difference.role, unsynced.difference.path);
        stderr::warning(&format!("{}: {}", place.trim_end(), unsynced.reason));
    }
    let changes = plan.steps.len() + plan.created.len();
    stderr::print_line(&match (changes, args.dry_run) {
        (0, _) => "nothing to synchronize".to_owned(),
        (count, true) => format!("{} to change (dry run)", text::plural(count as u64, "object")),
        (count, false) => format!("{} changed", text::plural(count as u64, "object")),
    });
    Ok(ExitCode::from(u8::from(!plan.unsynced.is_empty())))
}

async fn synchronize(
    args: &SyncArgs,
    a: &Source,
    b: &Source,
    patience: Patience,
) -> Result<SyncPlan, CommandError> {
    let options = Options { ignore_replicas: args.ignore_replicas };
    let namespace = args.server.namespace.as_deref();
    let first = a.read(&args.server, patience).await?;
    let opened = b.open(namespace, patience).await?;
    let client = opened.client();
    let read = live::read(&client, namespace).await.map_err(server::failed)?;
    let second = b.select(read.clone())?;
    let (first, normalized) = (Normalized::new(&first, options), Normalized::new(&second, options));
    let sync = plan_sync(&compare(&first, &normalized), &first, &normalized);
    // The plan comes first, of each Machine.
    let mut after = second.clone();
    for step in &sync.steps {
        let patched = live::patch(&client, &step.id, &step.patch, true).await.map_err(server::failed)?;
        after.insert(step.id.clone(), patched);
    }
    for object in &sync.created {
        if let Some(id) = Id::of(object, &opened.namespace) {
            after.insert(id, object.clone());
        }
    }
    let registry = providers::planners()?;
    let preview: Preview = preview(&second, &after, &registry)
        .map_err(|error| CommandError::input_error("cannot plan", error))?;
    if sync.steps.is_empty() && sync.created.is_empty() {
        if args.output.format == TableOutput::Json {
            plan::show(&preview, args.output.format, false)?;
        }
        return Ok(sync);
    }
    plan::show(&preview, args.output.format, false)?;
    if args.dry_run {
        return Ok(sync);
    }
    for step in &sync.steps {
        live::patch(&client, &step.id, &step.patch, false).await.map_err(server::failed)?;
    }
    for object in &sync.created {
        if let Some(id) = Id::of(object, &opened.namespace) {
            live::create(&client, &id, object).await.map_err(server::failed)?;
        }
    }
    Ok(sync)
}
