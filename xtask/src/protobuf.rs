//! Bodies in protobuf against Go's: random objects of every kind, written by Kubernetes' own libraries in protobuf and in
//! JSON, and read here.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use flate2::{Compression, write::DeflateEncoder};

use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora, process};

const OBJECTS: &str = "30000";
const SEED: &str = "1";

fn example() -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--locked", "--package", "settled-apiserver", "--example", "protobuf", "--"])
        .current_dir(corpora::root());
    command
}

/// Reads both; false where an object differs. `record` writes the sample of the tests anew instead.
pub(crate) fn run(record: bool) -> Outcome<bool> {
    let program = match oracle::build("protobuf")? {
        Oracle::Ready(program) => program,
        Oracle::Skipped(why) => {
            println!("SKIPPED: protobuf: {why}");
            return Ok(true);
        }
    };
    if !record {
        return process::passes(example().arg(&program).args([OBJECTS, SEED]));
    }
    let kinds = example().arg("kinds").output()?.stdout;
    // Some with little in them, and some with more.
    let count = 2 * kinds.split(|byte| *byte == b'\n').count().saturating_sub(1);
    let mut oracle = Command::new(program)
        .args([SEED, &count.to_string(), "0.8", "0.97"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    oracle.stdin.take().ok_or("no standard input")?.write_all(&kinds)?;
    let output = oracle.wait_with_output()?;
    if !output.status.success() {
        return Ok(false);
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&output.stdout)?;
    let packed = encoder.finish()?;
    println!("{count} objects, {} KB", packed.len() / 1000);
    fs::write(corpora::root().join("crates/apiserver/tests/golden/protobuf.tsv.deflate"), packed)?;
    Ok(true)
}
