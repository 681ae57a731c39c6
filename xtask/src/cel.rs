//! Validation rules of CRDs against upstream's: the cases of upstream's own tests, and made-up ones.

use std::process::Command;

use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora, process};

/// What is asked: recorded cases, and how many made-up ones with which seed.
const RUNS: [&[&str]; 2] = [&["crates/cel/tests/cases/recorded.jsonl"], &["--random", "10000", "1"]];

/// Runs all; false where too many answers differ.
pub(crate) fn run() -> Outcome<bool> {
    let program = match oracle::build("cel")? {
        Oracle::Ready(program) => program,
        Oracle::Skipped(why) => {
            println!("SKIPPED: cel: {why}");
            return Ok(true);
        }
    };
    let mut equal = true;
    for run in RUNS {
        let mut command = Command::new("cargo");
        command
            .args(["run", "--quiet", "--release", "--locked", "--package", "settled-cel"])
            .args(["--example", "differential", "--"])
            .arg(&program)
            .args(run)
            .current_dir(corpora::root());
        equal &= process::passes(&mut command)?;
    }
    Ok(equal)
}
