//! Record of a host: what was asked for, written before anything is started.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use settled_machines::types::Taint;

const RECORD: &str = "host.json";
const NODE: &str = "node.json";
const DATA: &str = "data";
const LOG: &str = "server.log";
const PID: &str = "pid";
/// Suffix of directories that are being made.
const NEW: &str = ".new";
/// How much of the end of a log is shown.
const TAIL: usize = 400;

/// What is known of a host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) uid: String,
    pub(super) machine: String,
    pub(super) cluster: String,
    pub(super) node_name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    /// Where the server listens.
    pub(super) address: String,
    /// The address by which others reach it.
    pub(super) advertise_address: String,
    pub(super) port: u16,
    /// Where it also listens, for hosts on a bridge of this machine.
    #[serde(default)]
    pub(super) host_address: Option<Ipv4Addr>,
    #[serde(default)]
    pub(super) service_range: Option<String>,
    /// The version that is to run.
    pub(super) version: String,
    /// The one before, until the new one serves.
    #[serde(default)]
    pub(super) previous: Option<String>,
    /// Whether it has ever served.
    #[serde(default)]
    pub(super) has_served: bool,
    /// How often it was started since it served last.
    #[serde(default)]
    pub(super) attempts: u32,
}

impl Record {
    /// The provider's name for the host.
    pub(super) fn id(&self) -> String {
        format!("process://{}", self.uid)
    }

    /// The Node that the server registers.
    fn node(&self) -> Value {
        json!({
            "name": self.node_name, "providerID": self.id(), "labels": self.labels, "taints": self.taints,
            "machine": self.machine, "address": self.advertise_address,
        })
    }
}

/// The directory of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostDirectory(PathBuf);

impl HostDirectory {
    pub(super) fn new(root: &Path, uid: &str) -> Self {
        Self(root.join(uid))
    }

    /// All hosts below a directory.
    pub(super) fn all(root: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.join(RECORD).is_file() {
                all.push(Self(path));
            }
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.0.join(DATA)
    }

    pub(super) fn node(&self) -> PathBuf {
        self.0.join(NODE)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    pub(super) fn pid(&self) -> PathBuf {
        self.0.join(PID)
    }

    pub(super) fn read(&self) -> io::Result<Option<Record>> {
        match fs::read(self.0.join(RECORD)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the directory with its record at once.
    pub(super) fn create(&self, record: &Record) -> io::Result<()> {
        let mut name = self.0.as_os_str().to_owned();
        name.push(NEW);
        let new = PathBuf::from(name);
        remove(&new)?;
        fs::create_dir_all(&new)?;
        let draft = Self(new.clone());
        draft.write(record)?;
        fs::rename(&new, &self.0)?;
        sync(self.0.parent())
    }

    /// Writes the record, and the Node that follows from it.
    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        self.replace(NODE, &serde_json::to_vec_pretty(&record.node())?)?;
        self.replace(RECORD, &serde_json::to_vec_pretty(record)?)
    }

    pub(super) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = self.0.join(format!("{name}.tmp"));
        let mut file = fs::File::create(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, self.0.join(name))?;
        sync(Some(&self.0))
    }

    /// The end of the log, on one line.
    pub(super) fn tail(&self) -> String {
        let text = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let mut tail = lines[lines.len().saturating_sub(3)..].join("; ");
        if let Some((start, _)) = tail.char_indices().rev().nth(TAIL) {
            tail.drain(..start);
        }
        tail
    }

    /// Removes everything.
    pub(super) fn remove(&self) -> io::Result<()> {
        let mut name = self.0.as_os_str().to_owned();
        name.push(NEW);
        remove(Path::new(&name))?;
        // Without its record there is no host any more, should the rest take two attempts.
        match fs::remove_file(self.0.join(RECORD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => remove(&self.0),
        }
    }

    /// Whether there is anything.
    pub(super) fn exists(&self) -> bool {
        self.0.exists()
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(directory: Option<&Path>) -> io::Result<()> {
    directory.map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}
