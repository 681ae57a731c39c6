//! The profile `settled`, case by case: `tests/cases/*.txt`.
//!
//! A case is a comment that says what is special, options (`!assume-current`, `!no-address-required`), an object (its
//! apiVersion and kind come from the heading above) and the expected verdict after `=>`. Run with `UPDATE_CASES=1` to
//! write the verdicts that come out into the files, then read the difference.

use std::fmt::Write as _;
use std::path::Path;

use kstatus::{Options, Verdict, compute, compute_value};
use serde_json::{Map, Value};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

/// The present time in all cases.
pub(crate) const NOW: &str = "2026-01-01T00:00:00Z";

/// One case.
pub(crate) struct Case {
    /// The file and the line of the object.
    pub(crate) place: String,
    pub(crate) object: Value,
    pub(crate) options: Options,
    expected: String,
}

/// Visits every case. With `update` the files are written anew, with what `visit` gives as expectation.
fn walk(update: bool, visit: &mut dyn FnMut(&Case) -> String) {
    let mut files: Vec<_> = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        walk_file(&file, update, visit);
    }
}

fn walk_file(file: &Path, update: bool, visit: &mut dyn FnMut(&Case) -> String) {
    let text = std::fs::read_to_string(file).unwrap();
    let name = file.file_name().unwrap().to_string_lossy();
    let mut rewritten = String::new();
    let (mut api_version, mut kind) = ("", "");
    let mut options = Options::new(NOW.parse().unwrap());
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        writeln!(rewritten, "{line}").unwrap();
        if let Some(heading) = line.strip_prefix("## ") {
            (api_version, kind) = heading.split_once(' ').unwrap();
        } else if let Some(option) = line.strip_prefix('!') {
            match option {
                "assume-current" => options.assume_current = true,
                "no-address-required" => options.require_address = false,
                _ => panic!("{name}:{}: unknown option {option}", index + 1),
            }
        } else if line.starts_with('{') {
            let place = format!("{name}:{}", index + 1);
            let mut object: Map<String, Value> =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{place}: {error}"));
            object.insert("apiVersion".to_owned(), api_version.into());
            object.insert("kind".to_owned(), kind.into());
            let expected =
                lines.next_if(|(_, line)| line.starts_with("=> ")).map(|(_, line)| line.to_owned());
            let case = Case {
                place,
                object: Value::Object(object),
                options,
                expected: expected.unwrap_or_default(),
            };
            writeln!(rewritten, "{}", visit(&case)).unwrap();
            options = Options::new(NOW.parse().unwrap());
        }
    }
    if update {
        std::fs::write(file, rewritten).unwrap();
    }
}

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    walk(false, &mut |case| {
        let Case { place, object, options, expected } = case;
        cases.push(Case {
            place: place.clone(),
            object: object.clone(),
            options: options.clone(),
            expected: expected.clone(),
        });
        expected.clone()
    });
    cases
}

/// A verdict in one line.
fn line(verdict: &Verdict) -> String {
    let mut line = format!("=> {} {} {}", verdict.status, verdict.reason, verdict.basis);
    if let Some(failure) = verdict.failure {
        write!(line, " ({}, {})", failure.class, if failure.terminal { "terminal" } else { "recoverable" })
            .unwrap();
    }
    write!(line, ": {}", verdict.message.escape_debug()).unwrap();
    for problem in &verdict.problems {
        write!(line, " [{}: {}]", problem.path, problem.message).unwrap();
    }
    line
}

#[test]
fn verdicts_are_as_expected() {
    let mut wrong = String::new();
    let mut cases = 0;
    let update = std::env::var_os("UPDATE_CASES").is_some();
    walk(update, &mut |case| {
        cases += 1;
        let bytes = serde_json::to_vec(&case.object).unwrap();
        let verdict = compute(&bytes, &case.options);
        let found = line(&verdict);
        if found != case.expected && !update {
            writeln!(wrong, "{}\n  expected {}\n  found    {found}", case.place, case.expected).unwrap();
        }
        assert_eq!(compute_value(&case.object, &case.options), verdict, "{}", case.place);
        found
    });
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= 325, "only {cases} cases were found");
}
