//! Bodies in protobuf: random objects of every kind, encoded by Kubernetes' libraries in protobuf and in JSON, and read here.

#![allow(clippy::print_stdout, reason = "it prints for the process that started it")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use settled_apiserver::testing;

use crate::program::Program;

/// A line for each kind.
fn kinds() -> String {
    testing::sent_kinds().iter().map(|(api_version, kind)| format!("{api_version} {kind}\n")).collect()
}

/// The first place where two values differ.
fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            let null = &Value::Null;
            names.into_iter().find_map(|name| match (ours.get(name), theirs.get(name)) {
                (None, Some(Value::Null)) => Some(format!("{path}.{name}: ours has none, theirs null")),
                (Some(Value::Null), None) => Some(format!("{path}.{name}: ours is null, theirs has none")),
                (a, b) => difference(&format!("{path}.{name}"), a.unwrap_or(null), b.unwrap_or(null)),
            })
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.into_iter().find_map(|(at, (a, b))| difference(&format!("{path}[{at}]"), a, b))
        }
        _ => (ours != theirs).then(|| format!("{path}: ours {ours}, theirs {theirs}")),
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let (path, count, seed) = match arguments {
        [word] if word == "kinds" => {
            print!("{}", kinds());
            return Ok(ExitCode::SUCCESS);
        }
        [path, count, seed] => (path, count, seed),
        _ => return Err("PROGRAM COUNT SEED | kinds".to_owned()),
    };
    let lines = Program::start_with(path, &[seed, count])?.answer_all(kinds())?;

    let (mut objects, mut different, mut bytes) = (0_usize, 0_usize, [0_usize; 2]);
    let mut times = [Duration::ZERO; 2];
    for line in &lines {
        objects += 1;
        let (message, json) = line.split_once('\t').unwrap_or_default();
        let message = STANDARD.decode(message).unwrap_or_default();
        bytes[0] += message.len();
        bytes[1] += json.len();
        let start = Instant::now();
        let ours = testing::protobuf(&message);
        times[0] += start.elapsed();
        let start = Instant::now();
        let theirs: Value = serde_json::from_str(json).unwrap_or_default();
        times[1] += start.elapsed();
        let kind = theirs["kind"].to_string();
        let found = match (ours.and_then(testing::canonical), testing::canonical(theirs)) {
            (Ok(ours), Ok(theirs)) => difference("", &ours, &theirs),
            (ours, theirs) => Some(format!("ours {:?}, theirs {:?}", ours.err(), theirs.err())),
        };
        if let Some(difference) = found {
            different += 1;
            if different <= 20 {
                println!("{objects} {kind}{difference}");
            }
        }
    }
    println!(
        "protobuf: {objects} objects of {} kinds with seed {seed}: {different} differ",
        kinds().lines().count()
    );
    let rate = |at: usize| {
        f64::from(u32::try_from(bytes[at] / 1000).unwrap_or(u32::MAX)) / 1000.0 / times[at].as_secs_f64()
    };
    println!("read: protobuf {:.0} MB/s, JSON by serde_json {:.0} MB/s", rate(0), rate(1));
    Ok(ExitCode::from(u8::from(objects.to_string() != *count || different > 0)))
}
