//! `settled cluster plan`: what becomes of each Machine, before anything is touched.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use settled_machines::convert::{is_kubeadm, is_v1alpha1, restorable};
use settled_machines::inventory::{Id, Inventory};
use settled_machines::live::{self, ApplyOptions};
use settled_machines::preview::{Change, Decision, PlanFile, Preview, preview};

use super::server::{self, Opened};
use super::{documents, providers};
use crate::cli::machines::{PlanArgs, TableOutput};
use crate::error::CommandError;
use crate::output;
use crate::render::columns::Columns;
use crate::session::INTERRUPTED;
use crate::stderr;
use crate::style::Palette;
use crate::text;

/// How many Machines a table lists.
const ROWS_MAX: usize = 1000;

pub(super) fn run(args: &PlanArgs) -> Result<ExitCode, CommandError> {
    let documents = match args.manifests.files.as_slice() {
        [] => Vec::new(),
        files => documents::read(files)?,
    };
    let planned =
        server::with(&args.server, async |opened| plan(opened, &documents, &opened.namespace, true).await)?;
    let Some(planned) = planned else { return Ok(ExitCode::from(INTERRUPTED)) };
    if let Some(path) = &args.out {
        let file = PlanFile::new(&planned.before, documents, &planned.preview, &planned.namespace);
        let written = serde_json::to_vec_pretty(&file).map_err(std::io::Error::from);
        written
            .and_then(|text| std::fs::write(path, text))
            .map_err(|error| CommandError::output(format!("cannot write {}", path.display()), error))?;
    }
    show(&planned.preview, args.output.format, args.all)?;
    Ok(ExitCode::SUCCESS)
}

/// A plan, and the world that it was made for.
pub(super) struct Planned {
    pub(super) before: Inventory,
    pub(super) preview: Preview,
    pub(super) namespace: String,
}

/// Plans an apply of these documents. The server says what becomes of the objects: defaults, validation and fields of others.
pub(super) async fn plan(
    opened: &Opened,
    documents: &[Value],
    namespace: &str,
    force: bool,
) -> Result<Planned, CommandError> {
    let wanted = manifests(documents, namespace)?;
    let mut namespaces: BTreeSet<&str> = wanted.iter().map(|(id, _)| id.namespace.as_str()).collect();
    if namespaces.is_empty() {
        namespaces.insert(namespace);
    }
    let client = opened.client();
    let mut before = Inventory::default();
    for namespace in namespaces {
        let read = live::read(&client, Some(namespace)).await.map_err(server::failed)?;
        for (id, object) in read.iter() {
            before.insert(id.clone(), object.clone());
        }
    }
    let mut after = before.clone();
    for (id, object) in wanted.iter() {
        let applied = match before.get(id) {
            None if restorable(object) => object.clone(),
            _ => {
                let options = ApplyOptions { dry_run: true, force };
                live::apply(&client, id, object, options).await.map_err(server::failed)?
            }
        };
        after.insert(id.clone(), applied);
    }
    let registry = providers::planners()?;
    let preview = preview(&before, &after, &registry)
        .map_err(|error| CommandError::input_error("cannot plan", error))?;
    Ok(Planned { before, preview, namespace: namespace.to_owned() })
}

/// The objects of documents. Other kinds are an error: an apply would leave them out.
pub(super) fn manifests(documents: &[Value], namespace: &str) -> Result<Inventory, CommandError> {
    let inventory = Inventory::new(documents.iter().cloned(), namespace);
    let Some(other) = inventory.others().first() else { return Ok(inventory) };
    let field = |pointer: &str| other.pointer(pointer).and_then(Value::as_str).unwrap_or("?").to_owned();
    let error = CommandError::input(format!(
        "{} {} {} is no object of cluster.settled.dev/v1alpha1",
        field("/apiVersion"),
        field("/kind"),
        field("/metadata/name")
    ));
    Err(if is_v1alpha1(other) || is_kubeadm(other) {
        error.hint("settled cluster import -f FILE converts it")
    } else {
        error.hint("settled apply -f FILE applies objects of other kinds")
    })
}

/// Prints a plan: rows on standard output, the summary on standard error.
pub(super) fn show(preview: &Preview, format: TableOutput, all: bool) -> Result<(), CommandError> {
    match format {
        TableOutput::Json => output::print_json(&value(preview))?,
        TableOutput::Table => output::print(table(preview, all).as_bytes())?,
    }
    stderr::print_line(&summary(preview));
    Ok(())
}

/// `2 InPlace, 1 Replace, 3 NoOp`.
pub(super) fn summary(preview: &Preview) -> String {
    let names = ["Create", "InPlace", "Replace", "Unsupported", "Delete", "NoOp"];
    let counts = names.iter().map(|name| (preview.count(name), name)).filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, name)| format!("{count} {name}")).collect();
    let machines = text::plural(preview.machines.len() as u64, "Machine");
    match counts.as_slice() {
        [] => "no Machines".to_owned(),
        counts => format!("{machines}: {}", counts.join(", ")),
    }
}

fn style(decision: &Decision) -> Style {
    let color = match decision {
        Decision::Create => AnsiColor::Green,
        Decision::InPlace { .. } => AnsiColor::Cyan,
        Decision::Replace => AnsiColor::Yellow,
        Decision::Unsupported | Decision::Delete => AnsiColor::Red,
        Decision::NoOp => return Style::new(),
    };
    Style::new().fg_color(Some(color.into()))
}

fn table(preview: &Preview, all: bool) -> String {
    let mut out = String::new();
    let changed: Vec<_> =
        preview.objects.iter().filter(|change| change.action != Change::Unchanged).collect();
    if !changed.is_empty() {
        let mut objects = Columns::new(["OBJECT", "ACTION", "FIELDS"]);
        for change in changed {
            let object = format!("{}/{}", change.id.kind, change.id.name);
            objects.row([object, change.action.as_str().to_owned(), change.fields.join(", ")]);
        }
        out.push_str(&objects.without_empty().text(output::width(None), Palette::stdout()));
        out.push('\n');
    }
    let rows = preview
        .machines
        .iter()
        .filter(|machine| all || machine.decision != Decision::NoOp || !machine.reason.is_empty());
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return out;
    }
    let namespaces: BTreeSet<&str> = rows.iter().map(|row| row.namespace.as_str()).collect();
    let mut machines = Columns::new(["MACHINE", "DECISION", "GROUP", "REASON"]);
    for row in rows.iter().take(ROWS_MAX) {
        let name = match namespaces.len() {
            1 => row.name.clone(),
            _ => format!("{}/{}", row.namespace, row.name),
        };
        let group = row.group.as_ref().map(Id::to_string).unwrap_or_default();
        let mut reason = row.reason.clone();
        if let Decision::InPlace { disruptive: true, .. } = row.decision {
            reason.push_str(" (drained before)");
        }
        let plain = |text: String| (text, Style::new());
        machines.styled([
            plain(name),
            (row.decision.as_str().to_owned(), style(&row.decision)),
            plain(group),
            plain(reason),
        ]);
    }
    out.push_str(&machines.without_empty().text(output::width(None), Palette::stdout()));
    let more = rows.len().saturating_sub(ROWS_MAX);
    if more > 0 {
        out.push_str(&format!("… and {more} more; -o json lists all\n"));
    }
    out
}

fn value(preview: &Preview) -> Value {
    let objects = preview.objects.iter().map(|change| {
        json!({
            "kind": change.id.kind.as_str(), "namespace": change.id.namespace, "name": change.id.name,
            "action": change.action.as_str(), "fields": change.fields,
        })
    });
    let machines = preview.machines.iter().map(|machine| {
        let mut row = json!({
            "namespace": machine.namespace, "name": machine.name,
            "decision": machine.decision.as_str(), "reason": machine.reason,
        });
        if let Some(group) = &machine.group {
            row["group"] = json!({"kind": group.kind.as_str(), "name": group.name});
        }
        if let Decision::InPlace { steps, disruptive } = &machine.decision {
            row["steps"] =
                steps.iter().map(|step| json!({"name": step.name, "argument": step.argument})).collect();
            row["disruptive"] = (*disruptive).into();
        }
        row
    });
    json!({"objects": objects.collect::<Vec<_>>(), "machines": machines.collect::<Vec<_>>()})
}
