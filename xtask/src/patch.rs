//! The patches of the API against upstream's: random objects and patches, answered by both.

use std::process::Command;

use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora, process};

/// What is asked, and in how many cases.
const MODES: [(&str, &str); 4] =
    [("json", "60000"), ("merge", "25000"), ("value", "5000"), ("strategic", "60000")];
const SEED: &str = "1";

/// Runs every mode; false where an answer differs.
pub(crate) fn run() -> Outcome<bool> {
    let program = match oracle::build("patch")? {
        Oracle::Ready(program) => program,
        Oracle::Skipped(why) => {
            println!("SKIPPED: patch: {why}");
            return Ok(true);
        }
    };
    let mut equal = true;
    for (mode, cases) in MODES {
        let mut command = Command::new("cargo");
        command
            .args(["run", "--quiet", "--release", "--locked", "--package", "settled-patch"])
            .args(["--example", "differential", "--"])
            .arg(&program)
            .args([mode, cases, SEED])
            .current_dir(corpora::root());
        equal &= process::passes(&mut command)?;
    }
    Ok(equal)
}
