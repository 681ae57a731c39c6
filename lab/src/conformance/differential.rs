//! Differential tests of libraries: suites of `settled-reference`, which generate inputs from a seed, compare results with
//! those of a Go program in `conformance/`, and exit with 1 if they differ.

use std::process::Command;

use crate::oracle::{self, Oracle};
use crate::{Outcome, corpora, process};

const SEED: u64 = 1;

/// A suite, and its invocation.
pub(crate) struct Suite {
    /// Name of the suite, and of the Go program's directory in `conformance/`.
    pub(crate) name: &'static str,
    runs: &'static [Run],
}

/// Argument before the number of inputs; number of inputs in a quick run, and in a full one.
type Run = (&'static [&'static str], u32, u32);

pub(crate) const SUITES: [Suite; 6] = [
    Suite {
        name: "managed-fields",
        runs: &[(&["merge"], 80_000, 80_000), (&["kubernetes"], 25_000, 25_000), (&["schema"], 1_500, 1_500)],
    },
    Suite {
        name: "cel",
        runs: &[(&["crates/cel/tests/cases/recorded.jsonl.zst"], 0, 0), (&["--random"], 1_000, 10_000)],
    },
    Suite {
        name: "patch",
        runs: &[
            (&["json"], 20_000, 60_000),
            (&["merge"], 10_000, 25_000),
            (&["value"], 5_000, 5_000),
            (&["strategic"], 20_000, 60_000),
        ],
    },
    Suite { name: "schema", runs: &[(&[], 20_000, 60_000)] },
    Suite { name: "selectors", runs: &[(&[], 60_000, 60_000)] },
    Suite { name: "protobuf", runs: &[(&[], 5_000, 30_000)] },
];

/// Number of inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    quick: bool,
    seed: u64,
}

impl Size {
    /// Options of a run of all suites.
    pub(crate) const QUICK: Self = Self { quick: true, seed: SEED };
    pub(crate) const FULL: Self = Self { quick: false, seed: SEED };

    /// Parses `[--quick] [--seed N]`; all inputs by default.
    pub(crate) fn parse(words: &[&str]) -> Outcome<Self> {
        let mut size = Self::FULL;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => size.quick = true,
                "--seed" => size.seed = words.next().ok_or("--seed needs a number")?.parse()?,
                unknown => return Err(format!("no such flag: {unknown}; there are --quick, --seed N").into()),
            }
        }
        Ok(size)
    }
}

/// The suite of that name.
pub(crate) fn find(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name)
}

impl Suite {
    /// The command that runs it.
    pub(crate) fn command(&self) -> Outcome<Command> {
        let mut command = Command::new(process::beside("settled-reference")?);
        command.arg(self.name).current_dir(corpora::root());
        Ok(command)
    }

    /// Runs both; false if too many results differ.
    pub(crate) fn run(&self, size: Size) -> Outcome<bool> {
        let program = match oracle::build(self.name)? {
            Oracle::Ready(program) => program,
            Oracle::Skipped(why) => {
                println!("SKIPPED: {}: {why}", self.name);
                return Ok(true);
            }
        };
        let mut equal = true;
        for (words, quick, full) in self.runs {
            let count = if size.quick { quick } else { full };
            println!("\n{} {} {count}", self.name, words.join(" "));
            let mut command = self.command()?;
            command.arg(&program).args(*words);
            // `None` if the inputs are in a file.
            if *count > 0 {
                command.args([count.to_string(), size.seed.to_string()]);
            }
            equal &= process::passes(&mut command)?;
        }
        Ok(equal)
    }
}
