//! `settled cluster describe`: a Cluster with its groups, Machines, Nodes and hosts.

use std::process::ExitCode;

use serde_json::{Value, json};
use settled_machines::describe::{Branch, State, describe};
use settled_machines::inventory::{Id, Kind};
use settled_machines::live;

use super::server;
use crate::cli::machines::{DescribeArgs, TextOutput};
use crate::error::CommandError;
use crate::output;
use crate::session::INTERRUPTED;
use crate::style::Palette;
use crate::text;

pub(super) fn run(args: &DescribeArgs) -> Result<ExitCode, CommandError> {
    let read = server::with(&args.server, async |opened| {
        let read = live::read(&opened.client(), Some(&opened.namespace)).await.map_err(server::failed)?;
        Ok((read, opened.namespace.clone()))
    })?;
    let Some((mut inventory, namespace)) = read else { return Ok(ExitCode::from(INTERRUPTED)) };
    if let Some(name) = &args.name {
        if inventory.get(&Id::new(Kind::Cluster, &namespace, name)).is_none() {
            return Err(CommandError::input(format!("there is no Cluster {name} in namespace {namespace}")));
        }
        inventory = inventory.of_cluster(&namespace, name);
    }
    let branches = describe(&inventory, args.all || args.output.format == TextOutput::Json);
    if branches.is_empty() {
        return Err(CommandError::input(format!("no clusters or machines found in namespace {namespace}")));
    }
    match args.output.format {
        TextOutput::Json => output::print_json(&branches.iter().map(value).collect::<Vec<_>>())?,
        TextOutput::Text => {
            let mut out = String::new();
            for branch in &branches {
                push(&mut out, branch, "", "", Palette::stdout());
            }
            output::print(out.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn push(out: &mut String, branch: &Branch, first: &str, rest: &str, palette: Palette) {
    let state = branch.state.as_str();
    let state = match branch.state {
        State::Ready | State::Unknown => palette.dim(state),
        State::Reconciling | State::Paused => palette.warning(state),
        State::Stalled | State::Deleting => palette.error(state),
    };
    let mut line = format!("{first}{} {state}", text::clean(&branch.name));
    for detail in [&branch.summary, &branch.message] {
        if !detail.is_empty() {
            line.push_str("  ");
            line.push_str(&text::clean(detail));
        }
    }
    out.push_str(&line);
    out.push('\n');
    let last = branch.children.len().saturating_sub(1);
    for (index, child) in branch.children.iter().enumerate() {
        let (head, tail) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        push(out, child, &format!("{rest}{head}"), &format!("{rest}{tail}"), palette);
    }
}

fn value(branch: &Branch) -> Value {
    json!({
        "object": branch.name, "state": branch.state.as_str(), "summary": branch.summary,
        "message": branch.message, "children": branch.children.iter().map(value).collect::<Vec<_>>(),
    })
}
