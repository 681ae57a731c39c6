//! Patches: random ones, applied by this workspace and by upstream.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a tool for developers, which shares a module with the tests"
)]

#[path = "../../../crates/patch/tests/harness/mod.rs"]
mod harness;

use std::process::ExitCode;

use serde_json::json;

use crate::program::{Arguments, Program};

/// How often upstream is asked again where its answer differs: it may have several.
const TRIES: usize = 60;

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let [path, mode, rest @ ..] = arguments else {
        return Err("PROGRAM json|merge|value|strategic CASES [SEED] [--record FILE CASES]".to_owned());
    };
    let mut task = Arguments::parse(rest)?;
    println!("mode {mode}, seed {}", task.seed);

    let mut program = Program::start(path)?;
    let mut random = harness::random::Random::new(task.seed);
    let (mut equal, mut different, mut results, mut errors, mut panics, mut several) = (0, 0, 0, 0, 0, 0);
    for number in 0..task.count {
        let mut case = harness::generate::case(mode, &mut random);
        let ours = harness::answer(&case);
        let mut theirs = program.ask(&case)?;
        if !harness::among(&ours, &theirs) {
            several += 1;
            case["tries"] = json!(TRIES);
            theirs = program.ask(&case)?;
        }
        task.keep(number, &json!({"case": case, "answers": theirs}));
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
    program.finish()?;
    println!(
        "{equal} of {} answers equal ({results} results, {errors} errors, {panics} panics of upstream; {several} asked \
         again); {different} differ",
        task.count
    );
    Ok(task.finish(different))
}
