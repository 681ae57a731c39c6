//! YAML conformance: regenerates the golden file with the Go program, and compares.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora, process};

/// Location of the documents, and of Go's committed results.
const CASES: &str = "conformance/yaml/cases.json";
const GOLDEN: &str = "crates/manifest/tests/golden/yaml-go.jsonl";

/// Maximum number of printed differing lines.
const PRINTED: usize = 20;

/// True if Go's results are equal to the committed file.
pub(crate) fn run() -> Outcome<bool> {
    let program = match oracle::build("yaml")? {
        Oracle::Ready(program) => program,
        Oracle::Skipped(reason) => {
            println!("SKIPPED: {reason}");
            return Ok(true);
        }
    };
    let cases = corpora::root().join(CASES);
    let mut command = Command::new(program);
    command
        .stdin(Stdio::from(File::open(&cases).map_err(|error| format!("{CASES}: {error}"))?))
        .stderr(Stdio::inherit());
    let output = process::started(command.output(), &command)?;
    if !output.status.success() {
        return Err(format!("conformance/yaml ended with {}", output.status).into());
    }
    let fresh = String::from_utf8(output.stdout)?;
    let committed =
        fs::read_to_string(corpora::root().join(GOLDEN)).map_err(|error| format!("{GOLDEN}: {error}"))?;

    let [fresh, committed] = [&fresh, &committed].map(|text| text.lines().collect::<Vec<_>>());
    let differing: Vec<usize> =
        (0..fresh.len().max(committed.len())).filter(|&at| fresh.get(at) != committed.get(at)).collect();
    println!("\n{GOLDEN}: {} documents, {} differ from what Go answers", fresh.len(), differing.len());
    for &at in differing.iter().take(PRINTED) {
        let line = |lines: &[&str]| lines.get(at).map_or("(none)", |line| line).to_owned();
        println!("line {}\n  Go        {}\n  committed {}", at + 1, line(&fresh), line(&committed));
    }
    if !differing.is_empty() {
        println!("conformance/yaml/README.md says how to write the file anew");
    }
    Ok(differing.is_empty() && !fresh.is_empty())
}
