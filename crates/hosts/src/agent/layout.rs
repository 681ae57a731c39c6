//! Directory of an agent: the files that providers and the agent share. Each is replaced as a whole, so that a reader never sees a part of one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use settled_machines::types::{MachineAddress, MachineVersions, Taint};

use super::credentials::HostRef;

/// Why a file of an agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// It cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not hold what it should.
    #[error("{} is damaged: {source}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

impl LayoutError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    /// Whether the disk is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::File { source, .. } if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// How quickly an agent works.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// How long its Lease is valid, in seconds.
    pub lease_seconds: i32,
    /// How often it renews the Lease, in milliseconds.
    pub renew_millis: u64,
    /// How long a new kubelet may take to start, in milliseconds, before the agent steps back.
    pub start_millis: u64,
}

impl Default for Timing {
    /// As kubelets do it: a Lease of 40 s, renewed each 10 s.
    fn default() -> Self {
        Self { lease_seconds: 40, renew_millis: 10_000, start_millis: 10_000 }
    }
}

/// What an agent is started with: `settings.json`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Name of the Node.
    pub node_name: String,
    /// `spec.providerID` of the Node.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// `namespace/name` of the Machine.
    pub machine: String,
    /// Labels that the Node registers with.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints that the Node registers with.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Addresses of the Node.
    #[serde(default)]
    pub addresses: Vec<MachineAddress>,
    /// The Host whose status is reported, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRef>,
    /// How quickly it works.
    #[serde(default)]
    pub timing: Timing,
    /// Whether the agent is in mount and UTS namespaces of its own: it sets the host name, and mounts `os-release`.
    #[serde(default)]
    pub is_isolated: bool,
}

/// What is asked for: `asked.json`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// Versions.
    pub versions: MachineVersions,
    /// A value whose change reboots the host.
    #[serde(default)]
    pub reboot: String,
    /// The attempt: what failed is tried again with another one.
    #[serde(default)]
    pub attempt: i64,
}

/// What failed, and was stepped back from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Failed {
    /// The attempt.
    pub attempt: i64,
    /// Why.
    pub message: String,
}

/// What runs: `state.json`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Versions.
    pub versions: MachineVersions,
    /// The value that it was rebooted for last.
    #[serde(default)]
    pub reboot: String,
    /// Another one after each boot.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// How often the host has booted.
    #[serde(default)]
    pub boots: u64,
    /// What failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
}

/// The directory of an agent.
#[derive(Clone, Debug)]
pub struct Layout(PathBuf);

impl Layout {
    /// A directory, which may not exist yet.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The credentials of the Node.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    /// The file that a kubelet creates once it has started; its name is in `SETTLED_READY_FILE`.
    #[must_use]
    pub fn ready(&self) -> PathBuf {
        self.0.join("ready")
    }

    /// What the agent logs.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("agent.log")
    }

    /// The `os-release` of the image.
    #[must_use]
    pub fn os_release(&self) -> PathBuf {
        self.0.join("os-release")
    }

    /// The program of a component (`kubelet`, or the name of a container runtime) in a version.
    #[must_use]
    pub fn program(&self, component: &str, version: &str) -> PathBuf {
        self.0.join(package(component, version))
    }

    /// What the agent is started with.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn settings(&self) -> Result<Option<Settings>, LayoutError> {
        read(&self.0.join("settings.json"))
    }

    /// What is asked for.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn asked(&self) -> Result<Option<Asked>, LayoutError> {
        read(&self.0.join("asked.json"))
    }

    /// What runs.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn state(&self) -> Result<Option<State>, LayoutError> {
        read(&self.0.join("state.json"))
    }

    /// Sets what the agent is started with.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_settings(&self, settings: &Settings) -> Result<(), LayoutError> {
        write_json(&self.0.join("settings.json"), settings)
    }

    /// Asks for versions.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn ask(&self, asked: &Asked) -> Result<(), LayoutError> {
        write_json(&self.0.join("asked.json"), asked)
    }

    pub(super) fn set_state(&self, state: &State) -> Result<(), LayoutError> {
        write_json(&self.0.join("state.json"), state)
    }

    /// The files of a new host, for providers that copy them to it: path, mode and content.
    #[must_use]
    pub fn files(settings: &Settings, asked: &Asked, kubeconfig: &str) -> Vec<(&'static str, u32, Vec<u8>)> {
        vec![
            ("settings.json", 0o600, json(settings)),
            ("asked.json", 0o600, json(asked)),
            ("kubeconfig", 0o600, kubeconfig.as_bytes().to_vec()),
        ]
    }
}

/// Path of the program of a package, below the directory of an agent and below one of packages.
#[must_use]
pub fn package(component: &str, version: &str) -> PathBuf {
    ["packages", component, version, component].iter().collect()
}

/// The built-in package of a component, a script: as a kubelet it runs the agent's, as a container runtime it answers `--version` only.
#[must_use]
pub fn builtin_package(component: &str, version: &str, agent: &[String]) -> String {
    let quote = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let words: Vec<String> = agent.iter().map(|word| quote(word)).collect();
    let answer = if component == "kubelet" { "Kubernetes" } else { component };
    let run = if component == "kubelet" {
        format!("exec {} kubelet --version {} \"$@\"", words.join(" "), quote(version))
    } else {
        "exit 1".to_owned()
    };
    let line = quote(&format!("{answer} {version}"));
    format!("#!/bin/sh\nif [ \"$1\" = --version ]; then echo {line}; exit 0; fi\n{run}\n")
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).unwrap_or_default()
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), LayoutError> {
    write(path, 0o600, &json(value))
}

/// Replaces a file as a whole.
pub(crate) fn write(path: &Path, mode: u32, content: &[u8]) -> Result<(), LayoutError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let part = path.with_file_name(name);
    let write = || -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        let mut file = options.open(&part)?;
        file.write_all(content)?;
        drop(file);
        fs::rename(&part, path)
    };
    #[cfg(not(unix))]
    let _unused = mode;
    write().map_err(|error| {
        let _best_effort = fs::remove_file(&part);
        LayoutError::file(path)(error)
    })
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LayoutError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| LayoutError::Damaged { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LayoutError::file(path)(error)),
    }
}
