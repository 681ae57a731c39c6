//! Schemas of CustomResourceDefinitions against upstream's API server: made-up questions, answered by both.

use std::process::Command;

use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora, process};

const QUESTIONS: &str = "60000";
const SEED: &str = "1";

/// Asks both; false where an answer differs.
pub(crate) fn run() -> Outcome<bool> {
    let program = match oracle::build("schema")? {
        Oracle::Ready(program) => program,
        Oracle::Skipped(why) => {
            println!("SKIPPED: schema: {why}");
            return Ok(true);
        }
    };
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--release", "--locked", "--package", "settled-schema"])
        .args(["--example", "differential", "--"])
        .arg(&program)
        .args([QUESTIONS, SEED])
        .current_dir(corpora::root());
    process::passes(&mut command)
}
