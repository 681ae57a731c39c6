//! Power loss: the log of the store on simulated disks that lose unsynced data completely, in part or by sectors.
//!
//! `kill -9` cannot detect a missing sync: the page cache survives it. The tests of `settled-store` count the
//! operations of the file layer, cut the power at any of them, and compare the result with the acknowledged writes.
//! Here they run in an optimized build, with many more disks than in `cargo test`.

use std::process::Command;

use super::{Report, Setting};
use crate::Outcome;

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    let disks = setting.cycles.unwrap_or(if setting.quick { 300 } else { 10_000 });
    let mut report = Report::default();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--package", "settled-store", "--lib", "--", "power_cuts"])
        // A profile set for the tests of this crate must not apply to them.
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "2")
        .env("SETTLED_STORE_DISKS", disks.to_string())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = said.lines().find_map(|line| line.strip_prefix("test result: ok. "));
    let passed = passed.and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok()).unwrap_or(0);
    report.expect(output.status.success() && passed > 1, || {
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines = said.lines().chain(errors.lines());
        lines
            .filter(|line| line.contains("seed") || line.starts_with("error"))
            .collect::<Vec<_>>()
            .join(" | ")
    });
    report.note(format!(
        "{disks} simulated disks, each through 7 starts with power cuts, kills and failed syncs"
    ));
    Ok(report)
}
