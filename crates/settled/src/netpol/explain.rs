//! `settled netpol explain`: a policy in sentences, with what a provider does instead.

use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use settled_netpol::explain::{Explanation, ProviderRemark, explain};
use settled_netpol::index::ClusterIndex;
use settled_netpol::model::Place;
use settled_netpol::parse::Severity;

use super::evaluate::Check;
use super::files::{self, Contents, Entry};
use super::live::{self, Scope, Wanted};
use super::notices;
use super::providers::{self, Chosen};
use super::render::json;
use super::row::PolicyRow;
use crate::cli::netpol::{ExplainArgs, TextOutput};
use crate::cluster;
use crate::error::CommandError;
use crate::output;
use crate::session;
use crate::style::Palette;
use crate::text;

pub(super) fn run(args: &ExplainArgs) -> Result<ExitCode, CommandError> {
    let loaded = providers::load(&args.provider.profiles);
    let chosen = providers::named(&loaded.profiles, &args.provider.providers)?;
    let mut contents = if args.input.names_files() {
        files::read(&args.input, &loaded.profiles)?
    } else {
        let wanted =
            Wanted { profiles: &loaded.profiles, policies: Some(Scope::Arguments), providers: false };
        match live::read(&args.input, &args.cluster, &wanted)? {
            Some(live) => live.contents,
            None => return Ok(ExitCode::from(session::INTERRUPTED)),
        }
    };
    let snapshot = contents.cluster(args.input.names_files());
    let named = find(args, &contents)?;
    let index = snapshot.as_ref().map(ClusterIndex::new);
    let mut checks: Vec<Check<'_>> =
        chosen.iter().map(|chosen| Check::new(chosen, &contents.policies, index.as_ref())).collect();
    let mut explained = Vec::new();
    let mut code = if contents.unreadable > 0 || loaded.errors > 0 { 2 } else { 0 };
    for index in named {
        let Some(entry) = contents.policies.get(index) else { continue };
        let rows: Vec<PolicyRow> = checks.iter_mut().map(|check| check.row(entry)).collect();
        code = rows.iter().map(PolicyRow::exit_code).fold(code, worse);
        explained.push(Explained::new(entry, rows, chosen.len() > 1));
    }
    match args.output {
        TextOutput::Text => {
            let texts: Vec<String> = explained.iter().map(Explained::text).collect();
            output::print(texts.join("\n").as_bytes())?;
        }
        TextOutput::Json => json::print(&explained, false)?,
        TextOutput::Yaml => json::print(&explained, true)?,
    }
    chosen.iter().map(Chosen::row).for_each(|row| notices::provider(&row));
    Ok(ExitCode::from(code))
}

/// The exit code that counts if both apply: 2, 4, 5, 1, 3.
pub(super) fn worse(one: u8, other: u8) -> u8 {
    const PRECEDENCE: [u8; 6] = [2, 4, 5, 1, 3, 0];
    let rank = |code: u8| PRECEDENCE.iter().position(|known| *known == code).unwrap_or_default();
    if rank(one) <= rank(other) { one } else { other }
}

/// The policies of this name.
fn find(args: &ExplainArgs, contents: &Contents) -> Result<Vec<usize>, CommandError> {
    let (kind, name) =
        args.policy.split_once('/').map_or((None, &*args.policy), |(kind, name)| (Some(kind), name));
    let namespaces = cluster::namespaces(args.input.namespace.as_deref())?;
    let is_meant = |entry: &Entry| {
        let id = &entry.parsed.id;
        let is_kind = kind.is_none_or(|kind| {
            let singular = id.kind.as_str().to_ascii_lowercase();
            let kind = kind.to_ascii_lowercase();
            let short = match &*singular {
                "networkpolicy" => "netpol",
                "adminnetworkpolicy" => "anp",
                "baselineadminnetworkpolicy" => "banp",
                _ => "cnp",
            };
            kind == singular
                || kind == short
                || singular.strip_suffix('y').is_some_and(|stem| kind == format!("{stem}ies"))
        });
        let is_place = namespaces.is_empty()
            || id.namespace.is_empty()
            || namespaces.iter().any(|one| **one == *id.namespace);
        is_kind && is_place && *id.name == *name
    };
    let found: Vec<usize> = contents
        .policies
        .iter()
        .enumerate()
        .filter(|(_, entry)| is_meant(entry))
        .map(|(index, _)| index)
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let error = CommandError::input(format!("no policy {} found", args.policy));
    let names: Vec<String> =
        contents.policies.iter().take(10).map(|entry| entry.parsed.id.to_string()).collect();
    Err(match names.is_empty() {
        true if args.input.names_files() => error.hint("the files have no network policies"),
        true => error.hint("set -n NAMESPACE or -A"),
        false => error.hint(format!("there are {}", names.join(", "))),
    })
}

/// An explained policy.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    kind: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    sentences: Vec<Sentence>,
    /// What the API server refuses or warns of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Problem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    providers: Vec<PolicyRow>,
}

#[derive(Serialize)]
struct Sentence {
    depth: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    text: String,
}

#[derive(Serialize)]
struct Problem {
    path: String,
    level: &'static str,
    message: String,
}

impl Explained {
    fn new(entry: &Entry, rows: Vec<PolicyRow>, several: bool) -> Self {
        let remarks: Vec<ProviderRemark> = rows
            .iter()
            .flat_map(|row| {
                row.findings
                    .iter()
                    .filter(|finding| finding.support.is_some())
                    .map(move |finding| (row, finding))
            })
            .map(|(row, finding)| ProviderRemark {
                place: Some(Place(Arc::clone(&finding.path))),
                text: match several {
                    true => format!("{}: {}", row.provider, finding.message),
                    false => finding.message.to_string(),
                },
            })
            .collect();
        let explanation = entry.parsed.policy.as_ref().map(|policy| explain(policy, &remarks));
        let sentences = explanation.map_or_else(Vec::new, |Explanation { sentences }| sentences);
        let id = &entry.parsed.id;
        Self {
            kind: id.kind.as_str(),
            namespace: id.namespace.to_string(),
            name: id.name.to_string(),
            sentences: sentences
                .into_iter()
                .map(|sentence| Sentence {
                    depth: sentence.depth,
                    path: sentence.place.map(|place| place.to_string()),
                    text: sentence.text,
                })
                .collect(),
            problems: entry
                .parsed
                .problems
                .iter()
                .map(|problem| Problem {
                    path: problem.place.to_string(),
                    level: if problem.severity == Severity::Error { "error" } else { "warning" },
                    message: problem.message.clone(),
                })
                .collect(),
            providers: rows,
        }
    }

    fn text(&self) -> String {
        let palette = Palette::stdout();
        let width = output::width(None);
        let mut out = String::new();
        let mut say = |depth: usize, line: &str, is_heading: bool| {
            let indent = " ".repeat(depth * 2);
            let line = text::clean(line);
            let lines = match width {
                Some(width) => text::wrap(&line, width.saturating_sub(indent.len()).max(20), usize::MAX).0,
                None => vec![line],
            };
            for line in lines {
                let line = if is_heading { palette.heading(&line) } else { line };
                out.push_str(&indent);
                out.push_str(&line);
                out.push('\n');
            }
        };
        for (index, sentence) in self.sentences.iter().enumerate() {
            say(sentence.depth, &sentence.text, index == 0);
        }
        if self.sentences.is_empty() {
            let head = format!("{} {:?}: nobody can say which pods it is for.", self.kind, self.name);
            say(0, &head, true);
        }
        for problem in &self.problems {
            let word = if problem.level == "error" { "Refused by the API server" } else { "Note" };
            say(0, &format!("{word}: {}: {}", problem.path, problem.message), false);
        }
        for row in &self.providers {
            say(0, &format!("{}: {} ({})", row.provider, row.status.as_str(), row.reason), false);
        }
        out
    }
}
