//! Notes what the binary is built from, for `--version`: the commit and its date.
//!
//! Packagers, who have no repository, set SETTLED_COMMIT and SETTLED_BUILD_DATE. A debug build does not ask git: each commit would build it
//! anew.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::path::Path;
use std::process::Command;

fn main() {
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    println!("cargo::rerun-if-changed=build.rs");
    // A missing file, as in an archive or a linked worktree, would count as changed at each build.
    let heads = ["../../.git/HEAD", "../../.git/logs/HEAD"];
    for head in heads.into_iter().filter(|head| is_release && Path::new(head).is_file()) {
        println!("cargo::rerun-if-changed={head}");
    }
    for (variable, format) in [("SETTLED_COMMIT", "%h"), ("SETTLED_BUILD_DATE", "%cs")] {
        println!("cargo::rerun-if-env-changed={variable}");
        let from_git = || git(format).filter(|_| is_release);
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty()).or_else(from_git);
        println!("cargo::rustc-env={variable}={}", value.as_deref().unwrap_or("unknown"));
    }
}

/// What git says of the last commit, if there is git and a repository.
fn git(format: &str) -> Option<String> {
    let output = Command::new("git").args(["log", "-1", &format!("--format={format}")]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
