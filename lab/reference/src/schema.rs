//! CRD schemas: made-up questions, answered by this workspace and by upstream.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a tool for developers, which shares a module with the tests"
)]

#[path = "../../../crates/schema/tests/harness/mod.rs"]
mod harness;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};

/// How often upstream is asked again where its answer differs.
const TRIES: usize = 200;

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let [oracle, wanted, rest @ ..] = arguments else {
        eprintln!("usage: schema PROGRAM QUESTIONS [SEED] [--record FILE QUESTIONS]");
        return ExitCode::from(2);
    };
    let wanted: usize = wanted.parse().expect("QUESTIONS is a number");
    let seed = rest.first().filter(|first| !first.starts_with("--"));
    let seed: u64 = seed.map_or(1, |seed| seed.parse().expect("SEED is a number"));
    let record = rest.iter().position(|one| one == "--record").map(|place| {
        (rest[place + 1].clone(), rest[place + 2].parse::<usize>().expect("QUESTIONS is a number"))
    });
    println!("seed {seed}");

    let mut child =
        Command::new(oracle).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the oracle starts");
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut random = harness::random::Random::new(seed);
    // By operation: how many, equal, refused by upstream, with errors.
    let mut counts: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    let mut different = BTreeMap::<String, usize>::new();
    let mut recorded = String::new();
    let written = include_str!("../../../crates/schema/tests/corners.jsonl")
        .lines()
        .filter(|line| line.starts_with('{'));
    let mut questions: Vec<Value> =
        written.map(|line| serde_json::from_str(line).expect("a question")).collect();
    questions.reverse();
    for number in 0..wanted {
        let question = questions.pop().unwrap_or_else(|| harness::generate::question(&mut random));
        writeln!(to, "{question}").unwrap();
        let ours = harness::answer(&question);
        let mut theirs: Value = serde_json::from_str(&from.next().unwrap().unwrap()).unwrap();
        if let Some((_, wanted)) = &record
            && number < *wanted
        {
            recorded.push_str(&format!("{}\n", json!({"question": question, "answer": theirs})));
        }
        let op = question["op"].as_str().unwrap().to_owned();
        let count = counts.entry(op.clone()).or_default();
        count[0] += 1;
        count[2] += usize::from(theirs.get("failed").is_some());
        count[3] += usize::from(theirs.get("errors").is_some());
        // Some of upstream's answers depend on the order in which Go walks through a map, which is random.
        for _ in 0..TRIES {
            if harness::same(&question, &ours, &theirs) {
                break;
            }
            writeln!(to, "{question}").unwrap();
            theirs = serde_json::from_str(&from.next().unwrap().unwrap()).unwrap();
        }
        if harness::same(&question, &ours, &theirs) {
            count[1] += 1;
        } else {
            let seen = different.entry(op).or_default();
            *seen += 1;
            if *seen <= 4 {
                println!("DIFFERENT\n{question}\nours   {ours}\ntheirs {theirs}");
            }
        }
    }
    drop(to);
    child.wait().unwrap();
    for (op, [all, equal, refused, errors]) in &counts {
        println!("{op}: {equal} of {all} answers equal ({errors} with errors, {refused} refused)");
    }
    if let Some((file, _)) = record {
        std::fs::write(&file, recorded).unwrap();
    }
    let all: usize = counts.values().map(|count| count[0]).sum();
    let different: usize = different.values().sum();
    println!("{} of {all} answers equal", all - different);
    if different > 0 {
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}
