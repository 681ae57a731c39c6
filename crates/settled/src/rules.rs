//! `settled rules`: lists, shows, explains, tests and imports rules.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use kstatus::Basis;
use serde_json::json;
use settled_rules::{CaseReport, Explanation, Provenance, RuleInfo, import, run_cases};

use crate::arguments;
use crate::cli::{
    RulesArgs, RulesCommand, RulesExplainArgs, RulesImportArgs, RulesListArgs, RulesOutput, RulesShowArgs,
    RulesTestArgs,
};
use crate::error::CommandError;
use crate::filter::Filter;
use crate::inputs::{self, Inputs};
use crate::output::{self, Stopped};
use crate::pipeline::{self, Event, InputId, Work};
use crate::propose;
use crate::row::{Identity, Reader, Verdicts};
use crate::rule_files;
use crate::stderr;
use crate::style::Palette;
use crate::text::{self, plural};

pub(crate) fn run(args: &RulesArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        RulesCommand::List(args) => list(args),
        RulesCommand::Show(args) => show(args),
        RulesCommand::Explain(args) => explain(args),
        RulesCommand::Test(args) => test(args),
        RulesCommand::Import(args) => import_file(args),
        RulesCommand::Propose(args) => propose::run(args),
    }
}

/// What a rule was checked against. Of a built-in rule it is always said, of others where they say it.
fn provenance(rule: &RuleInfo) -> Option<String> {
    match &rule.provenance {
        Some(checked @ Provenance::Checked(_)) => Some(format!("checked against {checked}")),
        Some(unverified) => Some(unverified.to_string()),
        None if rule.basis == Basis::RulePack => Some("unverified".to_owned()),
        None => None,
    }
}

/// Whether it was checked against the source of the kind's controller.
fn is_verified(rule: &RuleInfo) -> bool {
    matches!(rule.provenance, Some(Provenance::Checked(_)))
}

/// Where a rule comes from, in a word.
fn origin(rule: &RuleInfo) -> &'static str {
    match rule.basis {
        Basis::RulePack => "built-in",
        Basis::CrdAnnotation => "crd",
        _ => "user",
    }
}

fn list(args: &RulesListArgs) -> Result<ExitCode, CommandError> {
    let rules = arguments::rules_builder(&args.rules)?.build();
    let wanted = args.text.as_deref().unwrap_or_default().to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    let list: Vec<RuleInfo> = rules.list();
    let list = list.into_iter().filter(|rule| has(&rule.group) || rule.kinds.iter().any(|kind| has(kind)));
    let list: Vec<RuleInfo> = list.collect();
    let mut text = String::new();
    match args.output {
        RulesOutput::Json => {
            let values = list.iter().map(|rule| {
                json!({
                    "group": rule.group, "kinds": rule.kinds, "narrowed": rule.narrowed, "origin": origin(rule),
                    "basis": rule.basis, "file": rule.file, "line": rule.line, "reads": rule.reads,
                    "source": rule.provenance.as_ref().map(ToString::to_string),
                })
            });
            let values: Vec<_> = values.collect();
            text = serde_json::to_string_pretty(&values).unwrap_or_default() + "\n";
        }
        RulesOutput::Table => {
            let rows: Vec<[String; 4]> = list
                .iter()
                .flat_map(|rule| {
                    rule.kinds.iter().map(|kind| {
                        let narrowed = if rule.narrowed.is_empty() {
                            String::new()
                        } else {
                            format!(" ({})", rule.narrowed)
                        };
                        let place = format!("{}:{}", rule.file, rule.line);
                        let origin = match (rule.basis, is_verified(rule)) {
                            (Basis::RulePack, false) => "built-in, unverified".to_owned(),
                            _ => origin(rule).to_owned(),
                        };
                        [rule.group.clone(), format!("{kind}{narrowed}"), origin, place]
                    })
                })
                .collect();
            columns(&["GROUP", "KIND", "ORIGIN", "SOURCE"], &rows, &mut text);
        }
    }
    if list.is_empty() {
        return Err(CommandError::input(format!("no rule has a group or kind that contains `{wanted}`"))
            .hint("kinds without a rule are evaluated by their conditions and phases"));
    }
    output::print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Rows in aligned columns.
fn columns<const N: usize>(head: &[&str; N], rows: &[[String; N]], out: &mut String) {
    let palette = Palette::stdout();
    let mut widths = head.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text::width(cell));
        }
    }
    let mut line = |cells: [&str; N], is_head: bool| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let cell = text::clean(cell);
            let space = " ".repeat(width.saturating_sub(text::width(&cell)) + 2);
            line.push_str(&cell);
            line.push_str(&space);
        }
        let line = line.trim_end();
        out.push_str(&if is_head { palette.heading(line) } else { line.to_owned() });
        out.push('\n');
    };
    line(*head, true);
    for row in rows {
        line(std::array::from_fn(|at| row[at].as_str()), false);
    }
}

fn show(args: &RulesShowArgs) -> Result<ExitCode, CommandError> {
    let Some((group, kind)) = args.kind.rsplit_once('/') else {
        return Err(CommandError::usage(format!("`{}` is not a group and kind", args.kind)).hint(
            "write the API group, a slash and the kind: cert-manager.io/Certificate; for the core group /Pod",
        ));
    };
    let rules = arguments::rules_builder(&args.rules)?.build();
    let fitting: Vec<RuleInfo> = rules.list().into_iter().filter(|rule| rule.fits(group, kind)).collect();
    let mut text = String::new();
    for (index, rule) in fitting.iter().enumerate() {
        let separator = if index > 0 { "\n" } else { "" };
        let _ = writeln!(text, "{separator}# {} rule, {}:{}", origin(rule), rule.file, rule.line);
        if let Some(provenance) = provenance(rule) {
            let _ = writeln!(text, "# {}", text::clean(&provenance));
        }
        let _ = writeln!(text, "{}", text::clean_lines(&rule.text));
    }
    output::print(text.as_bytes())?;
    if fitting.is_empty() {
        return Err(CommandError::input(format!("no rule for {}", args.kind)).hint(
            "the kind has a built-in rule, or is evaluated by its conditions and phase; docs/rules.md describes how to write \
             a rule",
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(args: &RulesExplainArgs) -> Result<ExitCode, CommandError> {
    let work = Explain {
        how: arguments::verdicts(&args.verdict)?,
        filter: Filter::new(&args.filter),
        reader: Reader::default(),
    };
    let inputs = Inputs::new(&args.input, "rules explain")?;
    work.how.learn(&args.input);
    let (mut shown, mut hidden, mut passed, mut unreadable) = (0, 0, 0, 0);
    let mut out = output::stdout();
    let stopped = pipeline::run(inputs, arguments::settings(&args.input), &work, |event| match event {
        Event::Output(input, explained) => {
            for explained in explained.drain(..) {
                let text = match explained {
                    Explained::Passed => {
                        passed += 1;
                        continue;
                    }
                    Explained::Hidden => {
                        hidden += 1;
                        continue;
                    }
                    Explained::Malformed(error) => {
                        unreadable += 1;
                        stderr::unreadable_document(&input.source, &error);
                        continue;
                    }
                    Explained::Object(text) => text,
                };
                let separator = if shown > 0 { "\n" } else { "" };
                write!(out, "{separator}{text}")?;
                shown += 1;
            }
            Ok(())
        }
        Event::Unreadable(input, error) => {
            unreadable += 1;
            stderr::unreadable(&input.source, error);
            Ok(())
        }
        Event::End => Ok(()),
        Event::Idle => Ok(out.flush()?),
    })?;
    Stopped::forgive(stopped.and_then(|()| Ok(out.flush()?)))?;
    match shown + hidden + unreadable {
        0 if passed > 0 => Err(CommandError::input(format!(
            "no object matches the filters; read {}",
            plural(passed, "object")
        ))
        .hint("omit --kind, --namespace and --name to see all objects")),
        0 => Err(inputs::nothing_found(&args.input)),
        _ => Ok(ExitCode::from(if unreadable > 0 { 2 } else { 0 })),
    }
}

/// Explanation of one document.
enum Explained {
    Object(String),
    /// No object, and why.
    Malformed(String),
    /// An object whose status does not match the filters.
    Hidden,
    /// An object that does not match the filters.
    Passed,
}

/// Explains verdicts, on any thread.
#[derive(Debug)]
struct Explain {
    how: Verdicts,
    filter: Filter,
    reader: Reader,
}

impl Clone for Explain {
    fn clone(&self) -> Self {
        Self { how: self.how.clone(), filter: self.filter.clone(), reader: Reader::default() }
    }
}

impl Work for Explain {
    type Output = Vec<Explained>;

    fn size(explained: &Vec<Explained>) -> usize {
        let text = |explained: &Explained| match explained {
            Explained::Object(text) | Explained::Malformed(text) => text.capacity(),
            Explained::Hidden | Explained::Passed => 0,
        };
        explained.iter().map(text).sum()
    }

    fn work(&mut self, input: &InputId, batch: &settled_manifest::Batch, texts: &mut Vec<Explained>) {
        let Self { how, filter, reader } = self;
        texts.clear();
        let rules = Arc::clone(&how.rules);
        reader.objects_with_rules(input, batch, &rules, |found| {
            texts.push(match found {
                Ok((object, _)) => {
                    let identity = Identity::of(object);
                    if filter.selects(&identity) {
                        let explanation = how.rules.explain(object, &how.options);
                        if filter.shows(&explanation.verdict) {
                            Explained::Object(explanation_text(&identity, &explanation))
                        } else {
                            Explained::Hidden
                        }
                    } else {
                        Explained::Passed
                    }
                }
                Err(error) => Explained::Malformed(error.to_string()),
            });
        });
    }
}

/// The decisive rule and the values that it read.
fn explanation_text(identity: &Identity<'_>, explanation: &Explanation) -> String {
    let palette = Palette::stdout();
    let verdict = &explanation.verdict;
    let mut out = String::new();
    let namespace = identity
        .namespace
        .as_deref()
        .map_or(String::new(), |namespace| format!(" in {}", text::clean(namespace)));
    let status = palette.status(verdict.status, verdict.status.as_str());
    let _ = writeln!(
        out,
        "{}{}: {status} {}: {}",
        text::clean(&identity.to_string()),
        namespace,
        text::clean(&verdict.reason),
        text::clean(&verdict.message)
    );
    let _ = writeln!(out, "  basis: {}, confidence: {}", verdict.basis, verdict.confidence);
    for problem in &verdict.problems {
        let _ = writeln!(out, "  problem: {} {}", problem.path, text::clean(&problem.message));
    }
    if explanation.rules.is_empty() {
        out.push_str("  no rule applies\n");
    }
    for rule in &explanation.rules {
        let _ = writeln!(out, "  rule {}", text::clean(&rule.name));
        for tried in &rule.tried {
            let mark = if tried.decided { "=>" } else { "  " };
            let line = format!("{mark} {}: {}  [{}]", tried.branch, tried.expression, tried.outcome);
            let _ = writeln!(out, "    {}", text::clean_lines(&line));
        }
        if !rule.seen.is_empty() {
            out.push_str("    saw\n");
        }
        for (what, value) in &rule.seen {
            const MAX_VALUE_WIDTH: usize = 400;
            let (value, _) = text::truncate(&text::clean(value), MAX_VALUE_WIDTH);
            let _ = writeln!(out, "      {} = {value}", text::clean(what));
        }
    }
    out
}

fn test(args: &RulesTestArgs) -> Result<ExitCode, CommandError> {
    let now = args.now.unwrap_or_else(Timestamp::now);
    let files = rule_files::test_files(&args.paths)?;
    let mut total = CaseReport::default();
    for file in &files {
        let cases = rule_files::read(file)?;
        // The rules beside the cases come before all others.
        let beside = PathBuf::from(file.to_string_lossy().replacen(".test.", ".", 1));
        let mut builder = arguments::rules_builder(&args.rules)?;
        if beside != *file && beside.is_file() {
            builder = match builder.add(&beside.display().to_string(), &rule_files::read(&beside)?) {
                Ok(builder) => builder,
                Err(errors) => {
                    total.errors.extend(errors.0);
                    continue;
                }
            };
        }
        total.merge(run_cases(&builder.build(), &[(&file.display().to_string(), &cases)], now));
    }
    if args.strict {
        total.warnings.append(&mut total.missing);
    }
    if total.cases == 0 && total.errors.is_empty() {
        return Err(CommandError::input("no test cases found").hint("docs/rules.md describes test cases"));
    }
    let palette = Palette::stdout();
    let mut text = String::new();
    for failure in &total.failures {
        let _ = writeln!(text, "{}", text::clean(&failure.case));
        for (field, expected, found) in &failure.differences {
            let expected = format!("  - {field}: {}", text::clean(expected));
            let found = format!("  + {field}: {}", text::clean(found));
            let _ = writeln!(text, "{}\n{}", palette.removed(&expected), palette.added(&found));
        }
    }
    output::print(text.as_bytes())?;
    let palette = Palette::stderr();
    for warning in &total.warnings {
        stderr::print_line(&format!("{} {}", palette.hint("warning:"), text::clean(warning)));
    }
    for error in &total.errors {
        stderr::print_line(&format!("{} {}", palette.error("error:"), text::clean(&error.to_string())));
    }
    stderr::print_line(&format!(
        "{} in {}: {} failed, {}, {}",
        plural(total.cases as u64, "case"),
        plural(files.len() as u64, "file"),
        total.failures.len(),
        plural(total.errors.len() as u64, "error"),
        plural(total.warnings.len() as u64, "warning"),
    ));
    let failed = !total.failures.is_empty() || (args.strict && !total.warnings.is_empty());
    Ok(ExitCode::from(match (total.errors.is_empty(), failed) {
        (false, _) => 2,
        (true, true) => 1,
        (true, false) => 0,
    }))
}

fn import_file(args: &RulesImportArgs) -> Result<ExitCode, CommandError> {
    let name = args.file.display().to_string();
    let imported = import(&name, &rule_files::read(&args.file)?);
    output::print(imported.yaml.as_bytes())?;
    let palette = Palette::stderr();
    for note in &imported.notes {
        stderr::print_line(&format!("{} {}", palette.hint("not converted:"), text::clean(&note.to_string())));
    }
    Ok(ExitCode::from(if imported.notes.is_empty() { 0 } else { 1 }))
}
