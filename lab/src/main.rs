//! Benchmarks, comparisons with reference implementations, and fault injection. Run by `cargo xtask`, whose help lists the tasks.

#![allow(clippy::print_stdout, reason = "these tasks print their results")]

mod accuracy;
mod bench;
mod builtins;
mod clients;
mod cluster;
mod conformance;
mod corpora;
mod examples;
mod faults;
mod measure;
mod oracle;
mod process;
mod random;
mod server;

use std::error::Error;
use std::process::ExitCode;

/// Result of a task: whether it passed, or the error that prevented it.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[&str]) -> Outcome<bool> {
    match words {
        ["conformance", words @ ..] => conformance::run(words),
        ["faults", flags @ ..] => faults::run(flags),
        ["clients", words @ ..] => clients::run(words),
        ["accuracy", flags @ ..] => {
            let [markdown, differences] = flagged(flags, ["--markdown", "--differences"])?;
            accuracy::run(markdown, differences)
        }
        ["generate", "builtins"] => builtins::run(),
        ["bench", words @ ..] => bench::run(words),
        _ => Err(format!("no such task: {}; `cargo xtask help` lists them", words.join(" ")).into()),
    }
}

/// Which of the known flags are set.
fn flagged<const N: usize>(given: &[&str], known: [&str; N]) -> Outcome<[bool; N]> {
    if let Some(unknown) = given.iter().find(|flag| !known.contains(flag)) {
        return Err(format!("no such flag: {unknown}; there are {}", known.join(", ")).into());
    }
    Ok(known.map(|flag| given.contains(&flag)))
}
