//! The project's own tasks. `cargo xtask` without arguments says which there are.
//!
//! Only what needs no other crate of the project is done here; all else is a task of the lab, which is built when it is first needed.

#![allow(clippy::print_stdout, reason = "these tasks talk to whoever started them")]

mod code_map;
mod structure;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a task ends with: whether all was well, or why it could not be done at all.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => code(Command::new("bash").arg(root().join(".ci/run"))),
        ["structure"] => holds(&[&structure::run, &|| code_map::run(false)]),
        ["structure", "--write-docs"] => holds(&[&|| code_map::run(true)]),
        _ => lab(&words),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            println!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// 0 if all checks hold, else 1; each of them reports what does not.
fn holds(checks: &[&dyn Fn() -> Outcome<bool>]) -> Outcome<u8> {
    let results: Vec<bool> = checks.iter().map(|check| check()).collect::<Outcome<_>>()?;
    Ok(u8::from(!results.iter().all(|holds| *holds)))
}

/// Builds the lab and runs a task of it. Figures are those of the profile that packages are built in.
fn lab(words: &[String]) -> Outcome<u8> {
    let is_measured =
        words.first().is_some_and(|task| task == "bench") && !words.iter().any(|word| word == "--smoke");
    let profile = if is_measured { "dist" } else { "release" };
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--locked", "--package", "settled-lab", "--profile", profile]);
    command.arg("--manifest-path").arg(root().join("Cargo.toml")).arg("--").args(words);
    code(&mut command)
}

/// The exit code of a command; 2 where a signal ended it.
fn code(command: &mut Command) -> Outcome<u8> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}
