//! Foreign oracles: Go programs of ours around others' libraries, built once into a cache outside the repository.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::{Outcome, corpora, process};

/// An oracle, or why there is none here.
pub(crate) enum Oracle {
    /// The built program.
    Ready(PathBuf),
    /// It can't be built on this machine. Only where `CI` is not `true`: there it is an error.
    Skipped(String),
}

/// The folder for what is built or generated and never committed.
pub(crate) fn cache() -> Outcome<PathBuf> {
    let folder = if let Some(folder) = std::env::var_os("SETTLED_CACHE") {
        PathBuf::from(folder)
    } else if let Some(folder) = std::env::var_os("XDG_CACHE_HOME") {
        Path::new(&folder).join("settled")
    } else {
        let home = std::env::home_dir().ok_or("no home folder: set SETTLED_CACHE")?;
        home.join(".cache/settled")
    };
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Builds the Go module `conformance/NAME` unless the same one has been built with the same Go before.
pub(crate) fn build(name: &str) -> Outcome<Oracle> {
    let module = corpora::root().join("conformance").join(name);
    let Some(go) = process::find("go") else {
        let reason = format!("conformance/{name} needs Go, and no `go` is in PATH");
        if std::env::var("CI").is_ok_and(|value| value == "true") {
            return Err(reason.into());
        }
        return Ok(Oracle::Skipped(reason));
    };

    let mut hasher = DefaultHasher::new();
    let version = Command::new(&go).arg("version").output()?.stdout;
    version.hash(&mut hasher);
    hash_folder(&module, &mut hasher)?;
    let program = cache()?.join(format!("{name}-{:016x}", hasher.finish()));
    if program.is_file() {
        return Ok(Oracle::Ready(program));
    }

    println!("building conformance/{name} with {}", String::from_utf8_lossy(&version).trim());
    let start = Instant::now();
    // Built beside its final name: two builds at once, or one that is cut off, leave no half program there.
    let unfinished = program.with_extension(format!("{}.unfinished", std::process::id()));
    let built = process::passes(
        Command::new(&go)
            .args(["build", "-trimpath", "-mod=readonly", "-o"])
            .arg(&unfinished)
            .arg(".")
            .env("CGO_ENABLED", "0")
            .current_dir(&module),
    )?;
    if !built {
        return Err(format!("conformance/{name} does not build").into());
    }
    fs::rename(&unfinished, &program)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(Oracle::Ready(program))
}

/// Hashes the names and contents of a folder's files, sorted, so that the hash depends on nothing else.
fn hash_folder(folder: &Path, hasher: &mut DefaultHasher) -> Outcome<()> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        path.file_name().hash(hasher);
        if path.is_dir() {
            hash_folder(&path, hasher)?;
        } else {
            fs::read(&path)?.hash(hasher);
        }
    }
    Ok(())
}
