//! `-k DIR`: runs kustomize, as a program of its own or in `kubectl`, and reads its output.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::text;

/// More than this is no output of a kustomization.
const MAX_OUTPUT: u64 = 256 << 20;
/// How much of its error messages is passed on.
const MAX_ERROR: u64 = 16 << 10;

/// Builds a kustomization: the manifests as YAML.
pub(super) fn build(dir: &Path) -> io::Result<Vec<u8>> {
    let programs: [(&str, &[&str]); 2] = [("kustomize", &["build"]), ("kubectl", &["kustomize"])];
    for (program, arguments) in programs {
        match run(program, arguments, dir.as_os_str()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
    }
    Err(io::Error::other(
        "neither kustomize nor kubectl is in the PATH: install one of them, or pass its output with -f -",
    ))
}

fn run(program: &str, arguments: &[&str], dir: &OsStr) -> io::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(arguments)
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let errors = child.stderr.take();
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut errors) = errors {
            errors.by_ref().take(MAX_ERROR).read_to_end(&mut text).ok();
            // The rest is drained, so that the program does not block on a full pipe.
            io::copy(&mut errors, &mut io::sink()).ok();
        }
        text
    });
    let mut output = Vec::new();
    let mut read = Ok(0);
    if let Some(stdout) = child.stdout.take() {
        read = stdout.take(MAX_OUTPUT + 1).read_to_end(&mut output);
    }
    if output.len() as u64 > MAX_OUTPUT {
        child.kill().ok();
        child.wait()?;
        return Err(io::Error::other(format!("{program} writes more than {} MB", MAX_OUTPUT >> 20)));
    }
    let status = child.wait()?;
    read?;
    if status.success() {
        return Ok(output);
    }
    let errors = errors.join().unwrap_or_default();
    let errors = text::clean(String::from_utf8_lossy(&errors).trim());
    Err(io::Error::other(format!("{program} {}: {errors}", arguments.join(" "))))
}
