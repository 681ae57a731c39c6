//! Instructions per object, counted by valgrind independently of noise.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use kstatus::Profile;
use serde_json::value::RawValue;
use settled_rules::RuleSet;

use crate::bench::verdict::{options, workloads};
use crate::measure::{Table, figure};
use crate::{Outcome, oracle, process};

/// The hidden task that runs in valgrind: file, profile, passes.
pub(crate) const CHILD: &str = "callgrind-child";

/// The profiles of the library, and the pack.
const CONTESTANTS: [&str; 3] = ["kstatus", "settled", PACK];
const PACK: &str = "pack";

/// Counts and prints.
pub(crate) fn run() -> Outcome<()> {
    if process::find("valgrind").is_none() {
        println!("\nSKIPPED: instruction counts: no `valgrind` in PATH");
        return Ok(());
    }
    println!("\n### Instructions per object, bytes to verdict\n");
    let mut table =
        Table::new(["workload", "`kstatus`", "`settled`", "per byte", "with the pack", "per byte"]);
    let file = oracle::cache()?.join(format!("callgrind-{}.json", std::process::id()));
    for workload in &workloads()? {
        fs::write(&file, workload.objects.join(&b'\n'))?;
        let objects = workload.objects.len() as f64;
        let mut per_object = [0.0; 3];
        for (profile, per_object) in CONTESTANTS.iter().zip(&mut per_object) {
            // The difference of two runs excludes reading the workload.
            let [few, many] = [1_u32, 4].map(|passes| instructions(&file, profile, passes));
            *per_object = (many? - few?) / (3.0 * objects);
        }
        let bytes = workload.objects.iter().map(Vec::len).sum::<usize>() as f64 / objects;
        table.row([
            workload.name.to_owned(),
            figure(per_object[0]),
            figure(per_object[1]),
            figure(per_object[1] / bytes),
            figure(per_object[2]),
            figure(per_object[2] / bytes),
        ]);
    }
    fs::remove_file(&file)?;
    table.print();
    Ok(())
}

fn instructions(file: &Path, profile: &str, passes: u32) -> Outcome<f64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["bench", CHILD])
        .arg(file)
        .args([profile, &passes.to_string()]);
    let output = process::started(command.output(), &command)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let collected = stderr
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .and_then(|(_, count)| count.trim().parse().ok())
        .filter(|_| output.status.success());
    collected.ok_or_else(|| format!("valgrind has reported no counts:\n{stderr}").into())
}

/// The program that runs in valgrind.
pub(crate) fn child(words: &[&str]) -> Outcome<bool> {
    let [file, profile, passes] = words else { return Err(format!("{CHILD} FILE PROFILE PASSES").into()) };
    let text = fs::read_to_string(file)?;
    let objects: Vec<&RawValue> =
        serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>()?;
    let rules = (*profile == PACK).then(RuleSet::default);
    let options = options(if rules.is_some() { Profile::Settled } else { profile.parse()? })?;
    for _ in 0..passes.parse::<u32>()? {
        for object in &objects {
            let json = black_box(object.get().as_bytes());
            match &rules {
                Some(rules) => black_box(rules.compute(json, &options)),
                None => black_box(kstatus::compute(json, &options)),
            };
        }
    }
    Ok(true)
}
