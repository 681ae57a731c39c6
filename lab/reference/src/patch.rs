//! Patches: random ones, applied by this workspace and by upstream.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a tool for developers, which shares a module with the tests"
)]

#[path = "../../../crates/patch/tests/harness/mod.rs"]
mod harness;

use std::io::{BufRead as _, BufReader, Lines, Write};
use std::process::{ChildStdout, Command, ExitCode, Stdio};

use serde_json::{Value, json};

/// How often upstream is asked again where its answer differs: it may have several.
const TRIES: usize = 60;

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let [oracle, mode, wanted, rest @ ..] = arguments else {
        eprintln!("usage: patch PROGRAM json|merge|value|strategic CASES [SEED] [--record FILE CASES]");
        return ExitCode::from(2);
    };
    let wanted: usize = wanted.parse().expect("CASES is a number");
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
    let (mut equal, mut different, mut results, mut errors, mut panics, mut several) = (0, 0, 0, 0, 0, 0);
    let mut recorded = Vec::new();
    for number in 0..wanted {
        let mut case = harness::generate::case(mode, &mut random);
        let ours = harness::answer(&case);
        let mut theirs = ask(&mut to, &mut from, &case);
        if !harness::among(&ours, &theirs) {
            several += 1;
            case["tries"] = json!(TRIES);
            theirs = ask(&mut to, &mut from, &case);
        }
        if record.as_ref().is_some_and(|(_, wanted)| number < *wanted) {
            recorded.push(json!({"case": case, "answers": theirs}).to_string() + "\n");
        }
        if !harness::among(&ours, &theirs) {
            different += 1;
            if different <= 5 {
                println!("DIFFERENT\n{case}\nours   {ours}\ntheirs {theirs}");
            }
            continue;
        }
        equal += 1;
        if theirs[0].get("panic").is_some() {
            panics += 1;
        } else if theirs[0].get("error").is_some() {
            errors += 1;
        } else {
            results += 1;
        }
    }
    drop(to);
    child.wait().unwrap();
    println!(
        "{equal} of {wanted} answers equal ({results} results, {errors} errors, {panics} panics of upstream; {several} asked \
         again); {different} differ"
    );
    if let Some((file, _)) = record {
        std::fs::write(&file, recorded.concat()).unwrap();
    }
    if different > 0 {
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}

fn ask(to: &mut impl Write, from: &mut Lines<BufReader<ChildStdout>>, case: &Value) -> Value {
    writeln!(to, "{case}").unwrap();
    serde_json::from_str(&from.next().unwrap().unwrap()).unwrap()
}
