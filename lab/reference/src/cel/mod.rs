//! CRD validation rules: cases, evaluated by this workspace and by upstream.
//!
//! Recorded cases, and random ones of the seed 1, may differ only where `known.txt` names them, and must there. Of another
//! seed, up to 1 % of verdicts and costs, and 5 % of texts, may.
//!
//! `cel PROGRAM CASES...` compares; `cel PROGRAM --random COUNT SEED` makes the cases up; `cel PROGRAM --record CASES` writes the cases with
//! upstream's answers. Cases may be recorded ones.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a tool for conformance: it ends where it can't go on, and prints what it found"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use settled_cel::{FieldError, Validator};
use settled_schema::{JsonSchemaProps, Schema};

use crate::program;

mod random;

/// The seed whose differences are known one by one.
const NAMED_SEED: &str = "1";
const WHERE: &str = "spec.validation.openAPIV3Schema";
/// How often upstream is asked again where its answer differs, and how often in one run of its program. Of two keys of a map, Go begins
/// with the second one time in eight.
const TRIES: usize = 20;
const REPEATS: usize = 10;
const KINDS: [&str; 6] = ["compile ok or not", "compile text", "estimate", "verdict", "error text", "cost"];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let Some((oracle, rest)) = arguments.split_first() else {
        return Err("PROGRAM CASES... | PROGRAM --random COUNT SEED | PROGRAM --record CASES".to_owned());
    };
    let shown = std::env::var("SHOW").ok();
    let mut named = true;
    let (cases, records) = match rest.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--random", count, seed] => {
            println!("seed {seed}");
            named = *seed == NAMED_SEED;
            (random::cases(count.parse().unwrap(), seed.parse().unwrap()), false)
        }
        ["--record", file] => (read(file), true),
        files => (files.iter().flat_map(|file| read(file)).collect(), false),
    };
    let answers = program::answers(oracle, &cases)?;
    if records {
        for (case, answer) in cases.iter().zip(answers) {
            println!("{}", json!({"case": case, "answer": answer}));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut table: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let (mut failed, mut news) = (0, 0);
    let known = known();
    let mut compared: Vec<Option<Vec<Difference>>> =
        cases.iter().zip(&answers).map(|(case, answer)| compare(case, answer)).collect();
    let again = ask_again(oracle, &cases, &mut compared)?;
    for (case, compared) in cases.iter().zip(compared) {
        let Some(compared) = compared else {
            failed += 1;
            continue;
        };
        for (kind, theirs, ours) in compared {
            let row = table.entry(kind).or_default();
            row.1 += 1;
            row.0 += usize::from(theirs == ours);
            let name = format!("{kind} {:016x}", hash(&case.to_string()));
            let is_news = named && (theirs == ours) == known.contains(name.as_str());
            news += usize::from(is_news);
            if is_news && theirs == ours {
                println!("no longer differs: {name}");
            } else if is_news || theirs != ours && shown.as_deref().is_some_and(|shown| kind.contains(shown))
            {
                println!("{name}: {case}\n  upstream {theirs}\n  here     {ours}");
            }
        }
    }
    println!(
        "{} cases, {failed} that upstream can't take, {again} of which upstream has several answers",
        cases.len()
    );
    let mut equal = true;
    for kind in KINDS {
        let (same, all) = table.get(kind).copied().unwrap_or_default();
        let rate = if all == 0 { 100.0 } else { 100.0 * same as f64 / all as f64 };
        println!("{kind:20} {same:6} of {all:6} {rate:7.2} %");
        equal &= named || rate >= if matches!(kind, "compile text" | "error text") { 95.0 } else { 99.0 };
    }
    if news > 0 {
        println!("{news} differ otherwise than lab/reference/src/cel/known.txt says");
        equal = false;
    }
    Ok(ExitCode::from(u8::from(!equal)))
}

/// What is compared, upstream's, ours.
type Difference = (&'static str, String, String);

/// None where upstream can't take the case.
fn compare(case: &Value, answer: &Value) -> Option<Vec<Difference>> {
    if answer.get("failed").is_some() {
        return None;
    }
    let mut ours = judge(case);
    // What else is wrong with a schema keeps upstream from looking at its rules.
    if answer.get("schema").is_some() {
        ours["compile"] = answer["compile"].clone();
    }
    Some(differences(answer, &ours))
}

/// Some of upstream's answers depend on the order in which Go walks through a map, which is random. Returns the number of cases of
/// which one of the later answers is ours.
fn ask_again(
    oracle: &str,
    cases: &[Value],
    compared: &mut [Option<Vec<Difference>>],
) -> Result<usize, String> {
    let differs =
        |found: &Option<Vec<Difference>>| found.iter().flatten().any(|(_, theirs, ours)| theirs != ours);
    let mut different: Vec<usize> = (0..cases.len()).filter(|at| differs(&compared[*at])).collect();
    let first = different.len();
    for _ in 0..TRIES {
        if different.is_empty() {
            break;
        }
        // Starting the program takes longer than its answers do.
        let repeated = different.iter().flat_map(|at| std::iter::repeat_n(*at, REPEATS));
        let questions: Vec<Value> = repeated.map(|at| cases[at].clone()).collect();
        let answers = program::answers(oracle, &questions)?;
        let mut rest = Vec::new();
        for (at, answers) in different.into_iter().zip(answers.chunks(REPEATS)) {
            let mut found = answers.iter().map(|answer| compare(&cases[at], answer));
            match found.find(|found| !differs(found)) {
                Some(equal) => compared[at] = equal,
                None => rest.push(at),
            }
        }
        different = rest;
    }
    Ok(first - different.len())
}

/// The differences that are known: what differs, and the hash of the case.
fn known() -> BTreeSet<&'static str> {
    let lines = include_str!("known.txt").lines();
    lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// FNV-1a: the same on every machine and in every version.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn read(file: &str) -> Vec<Value> {
    let text = settled_golden::read_to_string(Path::new(file)).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let cases = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    // Recorded cases come with their answers.
    cases.map(|case| case.get("case").cloned().unwrap_or(case)).collect()
}

fn errors(mut found: Vec<FieldError>) -> Value {
    found.sort_by(|a, b| a.field.cmp(&b.field));
    found
        .into_iter()
        .map(|error| json!({"reason": error.error_type.cause(), "field": error.field, "message": error.message()}))
        .collect()
}

fn judge(case: &Value) -> Value {
    let mut answer = json!({"compile": [], "estimates": [], "errors": [], "cost": 0});
    let schema = JsonSchemaProps::parse(&case["schema"]).ok();
    let Some(schema) = schema.and_then(|schema| Schema::new_structural(&schema).ok()) else { return answer };
    let (validator, compile) = Validator::compile(&schema, WHERE);
    answer["compile"] = errors(compile);
    if let Some(validator) = validator {
        answer["estimates"] = validator
            .estimates()
            .into_iter()
            .map(|(rule, cost)| json!({"rule": rule.rule, "cost": cost.to_string()}))
            .collect();
        if let Some(object) = case.get("object") {
            let (found, cost) = validator.validate_with_cost(object, case.get("old"));
            answer["errors"] = errors(found);
            answer["cost"] = cost.into();
        }
    }
    answer
}

/// Upstream makes up names for types.
fn normal(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("selfType") {
        out.push_str(&rest[..at + 8]);
        rest = rest[at + 8..].trim_start_matches(|char: char| char.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

fn list<'v>(answer: &'v Value, key: &str) -> &'v [Value] {
    answer[key].as_array().map_or(&[], Vec::as_slice)
}

fn differences(theirs: &Value, ours: &Value) -> Vec<Difference> {
    let places = |answer: &Value, key: &str| {
        let of = |error: &Value| format!("{} {}", error["field"], error["reason"]);
        list(answer, key).iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let texts = |answer: &Value, key: &str| {
        let mut texts: Vec<String> =
            list(answer, key).iter().map(|error| normal(&error.to_string())).collect();
        texts.sort();
        texts.join("\n")
    };
    let estimates = |answer: &Value| {
        list(answer, "estimates").iter().map(|one| one["cost"].to_string()).collect::<Vec<_>>().join(" ")
    };
    let mut found = vec![(KINDS[0], places(theirs, "compile"), places(ours, "compile"))];
    if !list(theirs, "compile").is_empty() && found[0].1 == found[0].2 {
        found.push((KINDS[1], texts(theirs, "compile"), texts(ours, "compile")));
    }
    found.push((KINDS[2], estimates(theirs), estimates(ours)));
    found.push((KINDS[3], places(theirs, "errors"), places(ours, "errors")));
    if !list(theirs, "errors").is_empty() && places(theirs, "errors") == places(ours, "errors") {
        found.push((KINDS[4], texts(theirs, "errors"), texts(ours, "errors")));
    }
    found.push((KINDS[5], theirs["cost"].to_string(), ours["cost"].to_string()));
    found
}
