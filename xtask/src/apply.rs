//! Server-side apply against upstream's: random operations, answered by both.

use std::process::Command;

use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora, process};

/// What is asked, and in how many operations: the bar is 100,000 in all.
const MODES: [(&str, &str); 3] = [("merge", "80000"), ("kubernetes", "25000"), ("schema", "1500")];
const SEED: &str = "1";

/// Runs every mode; false where an answer differs.
pub(crate) fn run() -> Outcome<bool> {
    let program = match oracle::build("managed-fields")? {
        Oracle::Ready(program) => program,
        Oracle::Skipped(why) => {
            println!("SKIPPED: managed-fields: {why}");
            return Ok(true);
        }
    };
    let mut equal = true;
    for (mode, operations) in MODES {
        let mut command = Command::new("cargo");
        command
            .args(["run", "--quiet", "--release", "--locked", "--package", "settled-managed-fields"])
            .args(["--example", "differential", "--"])
            .arg(&program)
            .args([mode, operations, SEED])
            .current_dir(corpora::root());
        equal &= process::passes(&mut command)?;
    }
    Ok(equal)
}
