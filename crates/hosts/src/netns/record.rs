//! Records of hosts: a directory for each, which is there before anything of the host is, and goes last.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::agent::Grant;
use crate::agent::layout::{self, Layout, LayoutError};

/// What the provider is doing with a host.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) enum Phase {
    Creating,
    Running,
    Deleting,
}

/// A host of the provider: `host.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Record {
    /// UID of the Machine.
    pub(super) key: String,
    pub(super) id: String,
    /// Number of its address.
    pub(super) index: u16,
    pub(super) image: String,
    pub(super) phase: Phase,
    pub(super) grant: Grant,
}

/// The records of a provider.
#[derive(Clone, Debug)]
pub(super) struct Records(PathBuf);

impl Records {
    pub(super) fn new(directory: &Path) -> Self {
        Self(directory.join("hosts"))
    }

    pub(super) fn layout(&self, key: &str) -> Layout {
        Layout::new(self.0.join(key))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.0.join(key).join("host.json")
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Record>, LayoutError> {
        layout::read(&self.path(key))
    }

    pub(super) fn set(&self, record: &Record) -> Result<(), LayoutError> {
        layout::write(&self.path(&record.key), 0o600, &serde_json::to_vec_pretty(record).unwrap_or_default())
    }

    /// Names of all directories: also of those whose record was not written yet.
    pub(super) fn keys(&self) -> Result<Vec<String>, LayoutError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(LayoutError::file(&self.0)(error)),
        };
        let names = entries.flatten().filter(|entry| entry.path().is_dir());
        let mut keys: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        keys.sort();
        Ok(keys)
    }

    /// Writes the record of a new host, with an address that no other one has. A lock on the directory keeps other processes out.
    pub(super) fn add(&self, make: impl FnOnce(u16) -> Record) -> Result<Record, LayoutError> {
        fs::create_dir_all(&self.0).map_err(LayoutError::file(&self.0))?;
        let lock = File::open(&self.0).map_err(LayoutError::file(&self.0))?;
        lock.lock().map_err(LayoutError::file(&self.0))?;
        let mut used = BTreeSet::new();
        for key in self.keys()? {
            used.extend(self.get(&key)?.map(|record| record.index));
        }
        // .0.0 is the network, .0.1 the machine, .255.255 the broadcast address.
        let free = (2..u16::MAX).find(|index| !used.contains(index));
        let free =
            free.ok_or_else(|| LayoutError::file(&self.0)(io::Error::other("all addresses are used")))?;
        let record = make(free);
        let directory = self.0.join(&record.key);
        fs::create_dir_all(&directory).map_err(LayoutError::file(&directory))?;
        if let Err(error) = self.set(&record) {
            let _best_effort = fs::remove_dir_all(&directory);
            return Err(error);
        }
        Ok(record)
    }

    pub(super) fn remove(&self, key: &str) -> Result<(), LayoutError> {
        let directory = self.0.join(key);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LayoutError::file(&directory)(error))
            }
            _ => Ok(()),
        }
    }
}
