//! Test cases of rules: objects with their expected verdicts.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kstatus::{CustomRule as _, Options, Verdict};

use crate::completeness::Shown;
use crate::document::{Item, LoadError, documents};
use crate::load::API_VERSION;
use crate::origin::Rule;
use crate::rule::{Outcome, Trace};
use crate::set::RuleSet;

/// A case whose verdict is not what is expected, or that cannot be read.
#[derive(Clone, Debug)]
pub struct CaseFailure {
    /// The file, line and name of the case.
    pub case: String,
    /// Differences: field, expected value, actual value.
    pub differences: Vec<(String, String, String)>,
}

impl fmt::Display for CaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.case)?;
        for (field, expected, found) in &self.differences {
            write!(f, "\n  - {field}: {expected}\n  + {field}: {found}")?;
        }
        Ok(())
    }
}

/// Result of test cases.
#[derive(Clone, Debug, Default)]
pub struct CaseReport {
    /// Number of cases.
    pub cases: usize,
    /// Those that failed.
    pub failures: Vec<CaseFailure>,
    /// Files that cannot be read.
    pub errors: Vec<LoadError>,
    /// Branches that no case reached, and expressions that touched an absent field in every case.
    pub warnings: Vec<String>,
    /// Kinds, outcomes and situations of which a rule has no case.
    pub missing: Vec<String>,
}

impl CaseReport {
    /// Adds what came of other cases.
    pub fn merge(&mut self, other: Self) {
        self.cases += other.cases;
        self.failures.extend(other.failures);
        self.errors.extend(other.errors);
        self.warnings.extend(other.warnings);
        self.missing.extend(other.missing);
    }
}

/// Coverage of the branches of a rule over all cases.
#[derive(Default)]
struct Coverage {
    branches: BTreeMap<usize, Fate>,
    shown: Shown,
    missing: Vec<String>,
}

impl Coverage {
    /// Takes note of all branches of a rule.
    fn cover(&mut self, rule: &Rule) {
        let branches = rule.compiled().into_iter().flat_map(crate::rule::Compiled::branches);
        for (index, (key, text)) in branches.enumerate() {
            self.branches.entry(index).or_insert_with(|| Fate {
                key,
                text: text.to_owned(),
                reached: false,
                had_value: false,
                absent: None,
            });
        }
    }
}

struct Fate {
    key: &'static str,
    text: String,
    reached: bool,
    had_value: bool,
    absent: Option<String>,
}

/// Runs the cases of a file of `kind: RuleTest`.
///
/// Of an object whose `now` is not given, the present time is `now`.
pub fn run_cases(rules: &RuleSet, files: &[(&str, &str)], now: Timestamp) -> CaseReport {
    let mut report = CaseReport::default();
    let mut coverage: BTreeMap<(String, usize), Coverage> = BTreeMap::new();
    for (file, text) in files {
        for document in documents(file, text) {
            match document {
                Ok(document) => run_document(rules, file, document.root(), now, &mut report, &mut coverage),
                Err(error) => report.errors.push(error),
            }
        }
    }
    // Of a file of the user's that is tried all rules count, also those that no case has met.
    for (_, rule) in rules.own_rules() {
        if coverage.keys().any(|(file, _)| file == rule.file()) {
            let covered = coverage.entry((rule.file().to_owned(), rule.draft().line)).or_default();
            covered.cover(rule);
            covered.missing = covered.shown.missing(rule);
        }
    }
    // Rules of the user's that are tried: then those behind them are not what is tested.
    let tests_own = coverage.keys().any(|(file, _)| !file.starts_with("builtin:"));
    for ((file, line), rule) in coverage {
        if tests_own && file.starts_with("builtin:") {
            continue;
        }
        report.missing.extend(rule.missing.iter().map(|missing| format!("{file}:{line}: {missing}")));
        for fate in rule.branches.values().filter(|fate| !fate.reached) {
            report.warnings.push(format!("{file}:{line}: no case reaches {}: {}", fate.key, fate.text));
        }
        for fate in rule.branches.values().filter(|fate| !fate.had_value) {
            if let Some(absent) = &fate.absent {
                report.warnings.push(format!(
                    "{file}:{line}: {}: {}: in every case it touches {absent}, which is absent; is it spelt right? \
                     has() and default() ask first",
                    fate.key, fate.text
                ));
            }
        }
    }
    report
}

fn run_document(
    rules: &RuleSet,
    file: &str,
    item: Item<'_, '_>,
    now: Timestamp,
    report: &mut CaseReport,
    coverage: &mut BTreeMap<(String, usize), Coverage>,
) {
    let is = |key: &str, word: &str| item.get(key).is_some_and(|item| item.node.is(word));
    if !(is("apiVersion", API_VERSION) && is("kind", "RuleTest")) {
        // A file may hold rules beside cases.
        if !is("kind", "RulePack") {
            report.errors.push(item.error(format!("expected `apiVersion: {API_VERSION}, kind: RuleTest`")));
        }
        return;
    }
    item.only(&["apiVersion", "kind", "metadata", "cases"], &mut report.errors);
    let cases = match item.get("cases").map(|cases| cases.list()) {
        Some(Ok(cases)) => cases,
        Some(Err(error)) => return report.errors.push(error),
        None => return report.errors.push(item.error("`cases` is missing: the list of cases")),
    };
    for case in cases {
        report.cases += 1;
        case.only(&["name", "object", "expect", "now"], &mut report.errors);
        match run_case(rules, case, now, coverage) {
            Ok(differences) if differences.is_empty() => {}
            Ok(differences) => {
                let name = case.get("name").and_then(|name| name.node.as_str()).unwrap_or_default();
                let case = format!("{file}:{}: {name}", case.line());
                report.failures.push(CaseFailure { case, differences });
            }
            Err(error) => report.errors.push(error),
        }
    }
}

fn run_case(
    rules: &RuleSet,
    case: Item<'_, '_>,
    now: Timestamp,
    coverage: &mut BTreeMap<(String, usize), Coverage>,
) -> Result<Vec<(String, String, String)>, LoadError> {
    let item = case.get("object").ok_or_else(|| case.error("`object` is missing"))?;
    let object = item.object()?;
    let expect = case.get("expect").ok_or_else(|| case.error("`expect` is missing"))?.map()?;
    let now = match case.get("now") {
        Some(now) => {
            now.text()?.parse().map_err(|_| now.error("expected a time such as 2026-01-31T12:00:00Z"))?
        }
        None => now,
    };
    let options = Options::new(now);
    let mut cover = |rule: &Rule, trace: &Trace| {
        // An annotation is no rule that could be covered.
        if rule.draft().line == 0 {
            return;
        }
        let covered = coverage.entry((rule.file().to_owned(), rule.draft().line)).or_default();
        covered.cover(rule);
        for (index, _, _, outcome) in &trace.tried {
            let Some(fate) = covered.branches.get_mut(index) else { continue };
            match outcome {
                Outcome::True => (fate.reached, fate.had_value) = (true, true),
                Outcome::False => fate.had_value = true,
                Outcome::Absent(what) => fate.absent = Some(what.clone()),
                Outcome::Error(_) => {}
            }
        }
    };
    let traced = rules.verdict_traced(&object, &options, &mut cover);
    let verdict = rules.verdict(&object, &options);
    debug_assert_eq!(traced, verdict, "a trace evaluates every condition that is tried");
    let decider = rules.decider(&object);
    if let Some(rule) = decider.first() {
        let covered = coverage.entry((rule.file().to_owned(), rule.draft().line)).or_default();
        covered.shown.add(&object, &verdict, decider.suspended(&object, &options).is_some());
        covered.missing = covered.shown.missing(rule);
    }
    let mut differences = Vec::new();
    let mut errors = Vec::new();
    expect.only(
        &["status", "reason", "message", "class", "terminal", "basis", "blocking", "confidence"],
        &mut errors,
    );
    if let Some(error) = errors.pop() {
        return Err(error);
    }
    for (key, expected) in expect.members() {
        let found = field(&verdict, &key);
        let expected = match expected.node.as_bool() {
            Some(value) => value.to_string(),
            None => expected.text()?.into_owned(),
        };
        if found != expected {
            differences.push((key.into_owned(), expected, found));
        }
    }
    // What explains a difference, whether or not it was asked for.
    if !differences.is_empty() {
        for key in ["reason", "message", "basis"] {
            if !differences.iter().any(|(known, ..)| known == key) && expect.get(key).is_none() {
                differences.push((key.to_owned(), "(any)".to_owned(), field(&verdict, key)));
            }
        }
        for problem in &verdict.problems {
            differences.push(("problem".to_owned(), "none".to_owned(), problem.message.to_string()));
        }
    }
    Ok(differences)
}

fn field(verdict: &Verdict, key: &str) -> String {
    match key {
        "status" => verdict.status.to_string(),
        "reason" => verdict.reason.to_string(),
        "message" => verdict.message.to_string(),
        "basis" => verdict.basis.to_string(),
        "confidence" => verdict.confidence.to_string(),
        "class" => verdict.failure.map_or_else(|| "none".to_owned(), |failure| failure.class.to_string()),
        "terminal" => verdict.failure.is_some_and(|failure| failure.terminal).to_string(),
        "blocking" => verdict.blocking.to_string(),
        _ => String::new(),
    }
}
