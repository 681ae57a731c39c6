//! CRD schemas: made-up questions, answered by this workspace and by upstream.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a tool for developers, which shares a module with the tests"
)]

#[path = "../../../crates/schema/tests/harness/mod.rs"]
mod harness;

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::program::{Arguments, Program};

/// How often upstream is asked again where its answer differs.
const TRIES: usize = 200;

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let [path, rest @ ..] = arguments else {
        return Err("PROGRAM QUESTIONS [SEED] [--record FILE QUESTIONS]".to_owned());
    };
    let mut task = Arguments::parse(rest)?;
    println!("seed {}", task.seed);

    let mut program = Program::start(path)?;
    let mut random = harness::random::Random::new(task.seed);
    // By operation: how many, equal, refused by upstream, with errors.
    let mut counts: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    let mut different = BTreeMap::<String, usize>::new();
    let written = include_str!("../../../crates/schema/tests/corners.jsonl")
        .lines()
        .filter(|line| line.starts_with('{'));
    let mut questions: Vec<Value> =
        written.map(|line| serde_json::from_str(line).expect("a question")).collect();
    questions.reverse();
    for number in 0..task.count {
        let question = questions.pop().unwrap_or_else(|| harness::generate::question(&mut random));
        program.send(&question)?;
        let ours = harness::answer(&question);
        let mut theirs = program.receive()?;
        task.keep(number, &json!({"question": question, "answer": theirs}));
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
            theirs = program.ask(&question)?;
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
    program.finish()?;
    for (op, [all, equal, refused, errors]) in &counts {
        println!("{op}: {equal} of {all} answers equal ({errors} with errors, {refused} refused)");
    }
    let all: usize = counts.values().map(|count| count[0]).sum();
    let different: usize = different.values().sum();
    println!("{} of {all} answers equal", all - different);
    Ok(task.finish(different))
}
