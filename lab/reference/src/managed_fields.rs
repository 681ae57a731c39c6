//! Server-side apply: random operations, answered by this workspace and by upstream.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a tool for developers, which shares a module with the tests"
)]

#[path = "../../../crates/managed-fields/tests/harness/mod.rs"]
mod harness;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let [oracle, mode, wanted, rest @ ..] = arguments else {
        eprintln!(
            "usage: managed-fields PROGRAM merge|kubernetes|schema OPERATIONS [SEED] [--record FILE CASES]"
        );
        return ExitCode::from(2);
    };
    let wanted: usize = wanted.parse().expect("OPERATIONS is a number");
    let seed = rest.first().filter(|first| !first.starts_with("--"));
    let seed: u64 = seed.map_or(1, |seed| seed.parse().expect("SEED is a number"));
    let record = rest
        .iter()
        .position(|one| one == "--record")
        .map(|place| (rest[place + 1].clone(), rest[place + 2].parse::<usize>().expect("CASES is a number")));
    println!("mode {mode}, seed {seed}");

    let mut child =
        Command::new(oracle).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the oracle starts");
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut random = harness::random::Random::new(seed);
    let (mut operations, mut equal, mut different, mut cases) = (0, 0, 0, 0);
    let (mut conflicts, mut failures, mut changes) = (0, 0, 0);
    let mut recorded = String::new();
    while operations < wanted {
        let case = harness::generate::case(mode, &mut random);
        writeln!(to, "{case}").unwrap();
        let ours = harness::answer(&case);
        let theirs: Value = serde_json::from_str(&from.next().unwrap().unwrap()).unwrap();
        cases += 1;
        if let Some((_, wanted)) = &record
            && cases <= *wanted
        {
            recorded.push_str(&format!("{}\n", json!({"case": case, "answers": theirs})));
        }
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
    drop(to);
    child.wait().unwrap();
    println!(
        "{equal} of {operations} answers equal in {cases} cases ({conflicts} conflicts, {failures} other errors, \
         {changes} changes); {different} cases differ"
    );
    if let Some((file, _)) = record {
        std::fs::write(&file, recorded).unwrap();
    }
    if different > 0 {
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}
