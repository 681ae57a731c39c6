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
    /// Nothing: in the profile of this program, but small, since memory is measured.
    Small,
}

/// Static, and with the linker's options of `packaging/build.sh`, as packages are; optimized for size where the profile of a package does
/// not say otherwise. The options are those of the program alone, whose dependencies are built as without them.
const SMALL: &[&str] = if cfg!(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")) {
    &[
        "-Copt-level=s",
        "-Clto=fat",
        "-Ctarget-feature=+crt-static",
        "-Clink-arg=-Wl,--icf=all",
        "-Clink-arg=-Wl,-z,pack-relative-relocs",
    ]
} else {
    &["-Copt-level=s", "-Clto=fat"]
};

/// Builds an example of a package and returns the program.
pub(crate) fn build(package: &str, name: &str, beside: Beside) -> Outcome<PathBuf> {
    let directory = process::directory()?;
    let mut command = Command::new("cargo");
    let directory = match beside {
        Beside::Tests => {
            command.args(["build", "--quiet", "--locked", "--workspace", "--example", name]);
            directory.with_file_name("debug")
        }
        Beside::Alone | Beside::Small => {
            command.args(["rustc", "--quiet", "--locked", "--package", package, "--example", name]);
            command.args(["--profile", &process::profile()?, "--"]);
            command.args(if beside == Beside::Small { SMALL } else { &[] });
            directory
        }
    };
    if !process::passes(command.current_dir(corpora::root()))? {
        return Err(format!("the example {name} of {package} does not build").into());
    }
    Ok(directory.join("examples").join(name))
}
