//! Builds of other programs of the workspace, with the features that other builds of a CI run have, so that dependencies are built once.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::{Outcome, corpora, process};

/// With what a program shares its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The tests of the workspace, which have built it already.
    Tests,
    /// This program, in its profile.
    Lab,
    /// Nothing: as its users build it, in the profile of this program.
    Alone,
}

/// Builds an example of a package and returns the program.
pub(crate) fn build(package: &str, name: &str, beside: Beside) -> Outcome<PathBuf> {
    let directory = compile(package, &["--example", name], beside)?;
    Ok(directory.join("examples").join(name))
}

/// Builds the suites that are compared with reference implementations, those of the API server beside the tests alone.
pub(crate) fn reference(beside: Beside) -> Outcome<PathBuf> {
    const NAME: &str = "settled-reference";
    let features: &[&str] = if beside == Beside::Tests { &[] } else { &["--no-default-features"] };
    Ok(compile(NAME, &[&["--bin", NAME], features].concat(), beside)?.join(NAME))
}

/// Compiles a program, and returns the directory of the profile.
fn compile(package: &str, program: &[&str], beside: Beside) -> Outcome<PathBuf> {
    let own = env::current_exe()?;
    let directory = own.parent().ok_or("this program is in no directory")?;
    let mut command = Command::new("cargo");
    command.args(["build", "--quiet", "--locked"]).args(program);
    let directory = match beside {
        Beside::Tests => {
            command.arg("--workspace");
            directory.with_file_name("debug")
        }
        Beside::Lab | Beside::Alone => {
            if beside == Beside::Lab {
                command.args(["--package", env!("CARGO_PKG_NAME")]);
            }
            command.args(["--package", package, "--profile", &process::profile()?]);
            directory.to_owned()
        }
    };
    if !process::passes(command.current_dir(corpora::root()))? {
        return Err(format!("{} of {package} does not build", program.join(" ")).into());
    }
    Ok(directory)
}
