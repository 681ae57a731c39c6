//! Data directories of `settled serve`, and removal of temporary ones.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::cli::serve::ServeArgs;
use crate::error::CommandError;

/// Prefix of temporary directories.
const PREFIX: &str = "settled-serve-";
/// Locked for as long as the process lives whose directory it is.
const LOCK: &str = "lock";
/// All that such a directory ever holds, besides parts of them.
const KUBECONFIG: &str = "admin.kubeconfig";

/// The directory of a server.
pub(super) enum Directory {
    Kept(PathBuf),
    Temporary(Temporary),
}

/// A directory that goes with the process.
pub(super) struct Temporary {
    path: PathBuf,
    _directory: TempDir,
    _lock: File,
}

/// Whether objects are gone with the process. A command gets a fresh server unless there is a directory for it.
pub(super) fn is_memory(args: &ServeArgs) -> bool {
    args.memory || !args.command.is_empty() && args.data_dir.is_none()
}

impl Directory {
    pub(super) fn of(args: &ServeArgs) -> Result<Self, CommandError> {
        if let Some(path) = &args.data_dir {
            return Ok(Self::Kept(absolute(path)));
        }
        if is_memory(args) {
            let parent = std::env::temp_dir();
            remove_leftovers(&parent);
            let made = Temporary::new(&parent);
            return made
                .map(Self::Temporary)
                .map_err(|error| CommandError::input_error("cannot create a temporary directory", error));
        }
        let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        let state = state.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")));
        let Some(state) = state else {
            return Err(CommandError::usage("no home directory for the data")
                .hint("set a directory with --data-dir DIR"));
        };
        Ok(Self::Kept(absolute(&state.join("settled"))))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(temporary) => &temporary.path,
        }
    }

    pub(super) fn is_temporary(&self) -> bool {
        matches!(self, Self::Temporary(_))
    }
}

impl Temporary {
    fn new(parent: &Path) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // Locked before it is renamed, so that no other process removes it.
        let (new, path) = (directory.path().join("lock.new"), directory.path().join(LOCK));
        let lock = File::create_new(&new)?;
        lock.try_lock().map_err(io::Error::from)?;
        fs::rename(&new, &path)?;
        Ok(Self { path: absolute(directory.path()), _directory: directory, _lock: lock })
    }
}

/// Absolute, since printed paths are used in other directories.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Removes the directories of servers that were killed. A directory is one of those if it is the user's own, holds nothing else
/// than a server writes there, and nobody holds its lock.
fn remove_leftovers(parent: &Path) {
    let named = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in named.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())) {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && is_own(&path) && is_own(&path.join(LOCK)) {
            // Whatever is not removed is left as it was.
            let _best_effort = remove_leftover(&path);
        }
    }
}

/// Whether a file is the user's, who may share the directory with others.
#[cfg(unix)]
fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.uid() == user)
}

/// Each user has a temporary directory of their own there.
#[cfg(windows)]
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn remove_leftover(path: &Path) -> io::Result<()> {
    let lock = File::open(path.join(LOCK))?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    let names: Vec<_> = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    let known = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        // A part of the kubeconfig is called by its name, the process and `tmp`.
        name == LOCK || name == KUBECONFIG || name.starts_with(KUBECONFIG) && name.ends_with(".tmp")
    };
    if !names.iter().all(known) {
        return Ok(());
    }
    for name in &names {
        fs::remove_file(path.join(name))?;
    }
    fs::remove_dir(path)
}

/// The permissions of a file, if other users have any.
#[cfg(unix)]
pub(super) fn mode_for_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// There, they are not bits.
#[cfg(windows)]
pub(super) fn mode_for_others(_path: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leftovers_of_dead_servers_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[&str]| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            for file in files {
                fs::write(path.join(file), "").unwrap();
            }
            path
        };
        let cases = [
            (make("settled-serve-a", &["lock", "admin.kubeconfig"]), false),
            (make("settled-serve-b", &["lock", "admin.kubeconfig.7.tmp"]), false),
            (make("settled-serve-c", &["lock", "notes.txt"]), true),
            (make("settled-serve-d", &["admin.kubeconfig"]), true),
            (make("other-e", &["lock"]), true),
        ];
        let running = Temporary::new(parent.path()).unwrap();
        remove_leftovers(parent.path());
        for (path, stays) in cases {
            assert_eq!(path.exists(), stays, "{}", path.display());
        }
        let path = running.path.clone();
        assert!(path.join(LOCK).exists());
        drop(running);
        assert!(!path.exists());
    }
}
