//! Protobuf sample for tests: random objects of every kind, encoded by Kubernetes' libraries in protobuf and JSON.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use flate2::{Compression, write::DeflateEncoder};

use crate::conformance::differential;
use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora};

const SEED: &str = "1";

/// Regenerates the sample.
pub(crate) fn record() -> Outcome<bool> {
    let program = match oracle::build("protobuf")? {
        Oracle::Ready(program) => program,
        Oracle::Skipped(why) => return Err(why.into()),
    };
    let suite = differential::find("protobuf").ok_or("there is no suite protobuf")?;
    let kinds = suite.command()?.arg("kinds").output()?.stdout;
    // Some sparse, some dense.
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
