//! Server-side apply: random operations, answered by this workspace and by upstream.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a tool for developers, which shares a module with the tests"
)]

#[path = "../../../crates/managed-fields/tests/harness/mod.rs"]
mod harness;

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::program::{Arguments, Program};

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let [path, mode, rest @ ..] = arguments else {
        return Err("PROGRAM merge|kubernetes|schema OPERATIONS [SEED] [--record FILE CASES]".to_owned());
    };
    let mut task = Arguments::parse(rest)?;
    println!("mode {mode}, seed {}", task.seed);

    let mut program = Program::start(path)?;
    let mut random = harness::random::Random::new(task.seed);
    let (mut operations, mut equal, mut different, mut cases) = (0, 0, 0, 0);
    let (mut conflicts, mut failures, mut changes) = (0, 0, 0);
    while operations < task.count {
        let case = harness::generate::case(mode, &mut random);
        program.send(&case)?;
        let ours = harness::answer(&case);
        let theirs = program.receive()?;
        task.keep(cases, &json!({"case": case, "answers": theirs}));
        cases += 1;
        let (ours, theirs) = (ours.as_array().unwrap(), theirs.as_array().unwrap());
        operations += ours.len().max(theirs.len());
        let mut same = 0;
        for (ours, theirs) in ours.iter().zip(theirs) {
            if harness::same(ours, theirs) {
                same += 1;
                if theirs.get("conflicts").is_some() {
                    conflicts += 1;
                } else if theirs.get("error").is_some() {
                    failures += 1;
                } else if theirs.get("same").is_none() {
                    changes += 1;
                }
            } else {
                break;
            }
        }
        equal += same;
        if same < ours.len() || same < theirs.len() {
            different += 1;
            if different <= 3 {
                println!("DIFFERENT in operation {same} of\n{case}");
                println!("ours   {}", ours.get(same).unwrap_or(&Value::Null));
                println!("theirs {}", theirs.get(same).unwrap_or(&Value::Null));
            }
        }
    }
    program.finish()?;
    println!(
        "{equal} of {operations} answers equal in {cases} cases ({conflicts} conflicts, {failures} other errors, \
         {changes} changes); {different} cases differ"
    );
    Ok(task.finish(different))
}
