//! Data directory: its lock, and its permissions.

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;

use settled_store::BackendError;

use crate::notice::Notice;

/// Locked while a server has the directory.
const LOCK: &str = "server.lock";
/// What others must not read: keys, and the objects.
#[cfg(unix)]
const PRIVATE: [&str; 8] = [
    "admin.kubeconfig",
    "pki",
    "pki/ca.key",
    "pki/admin.pem",
    "pki/server.pem",
    "store",
    "store/store.log",
    "store/lock",
];

/// A data directory that no other server has. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock(#[expect(dead_code, reason = "it is locked while it is open")] File);

impl DirectoryLock {
    /// Makes the directory if need be.
    pub(crate) fn new(directory: &Path) -> Result<Self, BackendError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| BackendError::Io { action, path, source }
        };
        fs::create_dir_all(directory).map_err(failed("creating", directory))?;
        let path = directory.join(LOCK);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(failed("opening", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // It may not have written its number yet.
                let known = file.take(20).read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
                let holder = match known {
                    true => format!("process {}", holder.trim()),
                    false => "another process".to_owned(),
                };
                return Err(BackendError::Locked { path: directory.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking", &path)(error)),
        }
        // For the message alone: the lock holds without it, on a full disk too.
        let _best_effort = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self(file))
    }
}

/// Takes away what others may do with the private files of a directory, and says of which.
#[cfg(unix)]
pub(crate) fn tighten(directory: &Path) -> Vec<Notice> {
    use std::os::unix::fs::PermissionsExt as _;

    let tighten = |name: &str| {
        let path = directory.join(name);
        let mode = fs::metadata(&path).ok()?.permissions().mode() & 0o777;
        if mode & 0o077 == 0 {
            return None;
        }
        let changed = fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o700));
        Some(Notice::PermissionsOfOthers {
            path: path.display().to_string(),
            mode: format!("{mode:04o}"),
            removed: changed.is_ok(),
        })
    };
    PRIVATE.into_iter().filter_map(tighten).collect()
}

#[cfg(not(unix))]
pub(crate) fn tighten(_directory: &Path) -> Vec<Notice> {
    Vec::new()
}
