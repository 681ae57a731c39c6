//! Examples of the workspace, built on demand.

use std::path::PathBuf;
use std::process::Command;

use crate::{Outcome, corpora, process};

/// With what an example shares its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The tests of the workspace, which have built it already.
    Tests,
    /// Nothing: as its users build it, in the profile of this program.
    Alone,
}

/// Builds an example of a package and returns the program.
pub(crate) fn build(package: &str, name: &str, beside: Beside) -> Outcome<PathBuf> {
    let directory = process::directory()?;
    let mut command = Command::new("cargo");
    command.args(["build", "--quiet", "--locked", "--example", name]);
    let directory = match beside {
        Beside::Tests => {
            command.arg("--workspace");
            directory.with_file_name("debug")
        }
        Beside::Alone => {
            command.args(["--package", package, "--profile", &process::profile()?]);
            directory
        }
    };
    if !process::passes(command.current_dir(corpora::root()))? {
        return Err(format!("the example {name} of {package} does not build").into());
    }
    Ok(directory.join("examples").join(name))
}
