//! `settled netpol matrix`: features of policies by providers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use settled_netpol::feature::{Count, Feature, UnknownFeature};
use settled_netpol::profile::{
    Answer, Circumstances, Direction, Profile, Profiles, ProviderRef, Row, Support,
};

use super::providers::{self, Chosen};
use super::render::json;
use crate::cli::netpol::{MatrixArgs, MatrixOutput};
use crate::error::CommandError;
use crate::output;
use crate::render::columns::Columns;
use crate::render::github::markdown;
use crate::style::Palette;
use settled_netpol::model::Family;

pub(super) fn run(args: &MatrixArgs) -> Result<ExitCode, CommandError> {
    let loaded = providers::load(&args.provider.profiles);
    let chosen = match &*args.provider.providers {
        [] => newest(&loaded.profiles)?,
        names => providers::named(&loaded.profiles, names)?,
    };
    let features = features(&args.features)?;
    let matrix = Matrix::new(&chosen, &features);
    match args.output {
        MatrixOutput::Table => output::print(matrix.table(&chosen).as_bytes())?,
        MatrixOutput::Markdown => output::print(matrix.markdown(&chosen).as_bytes())?,
        MatrixOutput::Json => json::print(&matrix, false)?,
        MatrixOutput::Yaml => json::print(&matrix, true)?,
    }
    let is_unknown = chosen.iter().any(|chosen| chosen.provider.version.is_err());
    Ok(ExitCode::from(match (loaded.errors, is_unknown) {
        (1.., _) => 2,
        (0, true) => 3,
        (0, false) => 0,
    }))
}

/// All profiles in the last version that they know, in each variant.
fn newest(profiles: &Profiles) -> Result<Vec<Chosen<'_>>, CommandError> {
    let variants = |profile: &Profile| match &*profile.variants {
        [] => vec![None],
        variants => variants.iter().cloned().map(Some).collect(),
    };
    let references = profiles.iter().flat_map(|profile| {
        variants(profile).into_iter().map(|variant| ProviderRef {
            name: profile.name.clone(),
            version: Some(profile.versions.through.to_string()),
            variant,
            options: Vec::new(),
        })
    });
    references.map(|reference| Chosen::new(profiles, &reference, Vec::new())).collect()
}

fn features(ids: &[String]) -> Result<Vec<Feature>, CommandError> {
    if ids.is_empty() {
        return Ok(Feature::ALL.to_vec());
    }
    let parse = |id: &String| {
        id.parse().map_err(|error: UnknownFeature| {
            CommandError::usage(error.to_string()).hint("settled netpol matrix lists the features")
        })
    };
    ids.iter().map(parse).collect()
}

/// The circumstances that rows may depend on.
const CIRCUMSTANCES: [(Direction, Family); 4] = [
    (Direction::Ingress, Family::V4),
    (Direction::Egress, Family::V4),
    (Direction::Ingress, Family::V6),
    (Direction::Egress, Family::V6),
];

#[derive(Serialize)]
struct Matrix {
    providers: Vec<Column>,
    features: Vec<Line>,
    limits: Vec<Line>,
}

#[derive(Serialize)]
struct Column {
    provider: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: &'static str,
    title: &'static str,
    cells: Vec<Cell>,
}

/// What a provider does with a feature.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cell {
    provider: String,
    /// `yes`, `more`, `less`, `dropped`, `undefined`, `unknown`, or several by circumstances.
    summary: String,
    /// One for each statement of the profile that is of use.
    statements: Vec<Statement>,
}

#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    support: &'static str,
    /// In which circumstances, if not in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    carried_out: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<&'static str>,
}

/// The word in cells.
fn word(support: Support) -> &'static str {
    match support {
        Support::Supported => "yes",
        Support::Widened => "more",
        Support::Narrowed => "less",
        Support::Dropped => "dropped",
        Support::Undefined => "undefined",
    }
}

impl Matrix {
    fn new(chosen: &[Chosen<'_>], features: &[Feature]) -> Self {
        let columns = chosen.iter().map(|chosen| Column {
            provider: chosen.label.to_string(),
            title: chosen.provider.profile.title.clone(),
            unknown: chosen.provider.version.as_ref().err().map(ToString::to_string),
        });
        let lines = features.iter().map(|feature| Line {
            id: feature.as_str(),
            title: feature.title(),
            cells: chosen.iter().map(|chosen| cell(chosen, *feature)).collect(),
        });
        // Limits are no features: who asks for features gets those.
        let all = features.len() == Feature::ALL.len();
        let limits = Count::ALL.iter().filter(|_| all).map(|count| Line {
            id: count.as_str(),
            title: count.title(),
            cells: chosen.iter().map(|chosen| limit(chosen, *count)).collect(),
        });
        Self { providers: columns.collect(), features: lines.collect(), limits: limits.collect() }
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.features.iter().chain(&self.limits)
    }

    /// Tables of as many providers as fit.
    fn table(&self, chosen: &[Chosen<'_>]) -> String {
        const GAP: usize = 2;
        let palette = Palette::stdout();
        let width = output::width(None);
        let first = self.lines().map(|line| line.id.len()).max().unwrap_or_default() + GAP;
        let widths: Vec<usize> = (0..chosen.len())
            .map(|index| {
                let cells = self.lines().filter_map(|line| line.cells.get(index));
                let widest = cells.map(|cell| cell.summary.len()).max().unwrap_or_default();
                widest.max(chosen.get(index).map_or(0, |chosen| chosen.label.len())) + GAP
            })
            .collect();
        let mut out = String::new();
        let mut start = 0;
        while start < chosen.len() {
            let mut end = start + 1;
            let mut used = first + widths.get(start).copied().unwrap_or_default();
            while let Some(more) =
                widths.get(end).filter(|more| width.is_none_or(|width| used + **more <= width))
            {
                used += more;
                end += 1;
            }
            let names =
                chosen.get(start..end).unwrap_or_default().iter().map(|chosen| chosen.label.to_string());
            let mut table = Columns::new(std::iter::once("FEATURE".to_owned()).chain(names));
            for line in self.lines() {
                let cells = line.cells.get(start..end).unwrap_or_default().iter().map(|cell| &*cell.summary);
                table.row(std::iter::once(line.id).chain(cells));
            }
            if start > 0 {
                out.push('\n');
            }
            out.push_str(&table.text(None, palette));
            start = end;
        }
        out
    }

    fn markdown(&self, chosen: &[Chosen<'_>]) -> String {
        let mut out = String::from("| feature |");
        for chosen in chosen {
            let _infallible = write!(out, " {} |", markdown(&chosen.label));
        }
        out.push_str("\n|---|");
        out.push_str(&"---|".repeat(chosen.len()));
        out.push('\n');
        let mut notes: Vec<String> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for line in self.lines() {
            let _infallible = write!(out, "| {}<br>`{}` |", markdown(line.title), line.id);
            for cell in &line.cells {
                let mut text = cell.summary.clone();
                for note in cell.statements.iter().filter_map(Statement::note) {
                    let number = *numbers.entry(note.clone()).or_insert_with(|| {
                        notes.push(note);
                        notes.len()
                    });
                    let _infallible = write!(text, "[^{number}]");
                }
                let _infallible = write!(out, " {text} |");
            }
            out.push('\n');
        }
        for (index, note) in notes.iter().enumerate() {
            let _infallible = write!(out, "\n[^{}]: {note}", index + 1);
        }
        if !notes.is_empty() {
            out.push('\n');
        }
        out
    }
}

impl Statement {
    /// A footnote; none for what is supported without a condition.
    fn note(&self) -> Option<String> {
        let is_plain = self.support == "yes" && self.note.is_none() && self.when.is_none();
        if is_plain {
            return None;
        }
        let mut parts = Vec::new();
        parts.extend(self.when.as_ref().map(|when| format!("{when}: {}.", self.support)));
        parts.extend(self.note.as_deref().map(markdown));
        parts.extend(
            self.supported_since.as_ref().map(|since| format!("Supported since {}.", markdown(since))),
        );
        parts.extend(self.source.as_ref().map(|source| format!("<{source}>")));
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

fn cell(chosen: &Chosen<'_>, feature: Feature) -> Cell {
    let mut statements: Vec<(Vec<(Direction, Family)>, Statement)> = Vec::new();
    for (direction, family) in CIRCUMSTANCES {
        let circumstances = Circumstances { direction: Some(direction), family: Some(family) };
        let statement = match chosen.provider.support(feature, circumstances) {
            Answer::Row(row) => {
                let since = chosen.provider.supported_since(feature, circumstances);
                of_row(row, since.filter(|_| row.support != Support::Supported).map(ToString::to_string))
            }
            Answer::UnlistedSupported => Statement { support: "yes", ..Statement::unknown(None) },
            Answer::Unknown(why) => Statement::unknown(Some(why.to_string())),
        };
        match statements.iter_mut().find(|(_, known)| *known == statement) {
            Some((circumstances, _)) => circumstances.push((direction, family)),
            None => statements.push((vec![(direction, family)], statement)),
        }
    }
    let mut words: Vec<String> = Vec::new();
    let statements: Vec<Statement> = statements
        .into_iter()
        .map(|(circumstances, mut statement)| {
            statement.when = when(&circumstances);
            words.push(match &statement.when {
                Some(when) => format!("{when} {}", statement.support),
                None => statement.support.to_owned(),
            });
            statement
        })
        .collect();
    let same = statements
        .iter()
        .all(|statement| Some(statement.support) == statements.first().map(|first| first.support));
    let summary = match statements.first() {
        Some(first) if same => first.support.to_owned(),
        _ => words.join(", "),
    };
    Cell { provider: chosen.label.to_string(), summary, statements }
}

/// In which of the circumstances; None if in all.
fn when(circumstances: &[(Direction, Family)]) -> Option<String> {
    if circumstances.len() == CIRCUMSTANCES.len() {
        return None;
    }
    let directions = [Direction::Ingress, Direction::Egress];
    let families = [Family::V4, Family::V6];
    let all = |direction: Option<Direction>, family: Option<Family>| {
        CIRCUMSTANCES.iter().all(|one| {
            let is_meant = direction.is_none_or(|direction| one.0 == direction)
                && family.is_none_or(|family| one.1 == family);
            is_meant == circumstances.contains(one)
        })
    };
    if let Some(direction) = directions.into_iter().find(|direction| all(Some(*direction), None)) {
        return Some(direction.to_string());
    }
    if let Some(family) = families.into_iter().find(|family| all(None, Some(*family))) {
        return Some(family.as_str().to_owned());
    }
    let each = circumstances.iter().map(|(direction, family)| format!("{direction}/{}", family.as_str()));
    Some(each.collect::<Vec<_>>().join("+"))
}

fn of_row(row: &Row, supported_since: Option<String>) -> Statement {
    Statement {
        support: word(row.support),
        when: None,
        carried_out: row.carried_out.map(|carried_out| carried_out.as_str()),
        max: None,
        supported_since,
        note: row.note.clone(),
        source: row.source.clone(),
        checked: Some(row.checked.as_str()),
    }
}

impl Statement {
    fn unknown(note: Option<String>) -> Self {
        Self {
            support: "unknown",
            when: None,
            carried_out: None,
            max: None,
            supported_since: None,
            note,
            source: None,
            checked: None,
        }
    }
}

fn limit(chosen: &Chosen<'_>, count: Count) -> Cell {
    let mut statements: Vec<Statement> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for found in chosen.provider.limits(count, Circumstances::default()) {
        match found {
            Ok(limit) => {
                words.push(format!("max {}", limit.max));
                statements.push(Statement {
                    support: word(limit.beyond),
                    when: Some(format!("more than {}", limit.max)),
                    carried_out: limit.carried_out.map(|carried_out| carried_out.as_str()),
                    max: Some(limit.max),
                    supported_since: None,
                    note: limit.note.clone(),
                    source: limit.source.clone(),
                    checked: Some(limit.checked.as_str()),
                });
            }
            Err(why) => {
                words.push("unknown".to_owned());
                statements.push(Statement::unknown(Some(why.to_string())));
            }
        }
    }
    words.dedup();
    let summary = if words.is_empty() { "-".to_owned() } else { words.join(", ") };
    Cell { provider: chosen.label.to_string(), summary, statements }
}
