//! State directory: the embedded server, hosts, the ledger, and records of clusters.
//!
//! ```text
//! DIR/
//!   server/           data of the embedded server, with its admin.kubeconfig
//!   hosts/            directories of local hosts, one for each provider
//!   ledger/           which server has which host
//!   clusters/         records of clusters, NAMESPACE.NAME.json: the registry
//!   NAME.kubeconfig   kubeconfigs of clusters
//! ```

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use settled_apiserver::auth::certificates::write_private;
use settled_apiserver::{Config, Server};

use crate::error::Error;
use crate::ledger::Ledger;

/// File with the directory of hosts, if it is another one.
const HOSTS: &str = "hosts.path";

/// A state directory.
#[derive(Clone, Debug)]
pub struct StateDirectory(PathBuf);

/// What is known of a cluster outside of any server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRecord {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The identity of the server that manages it, if it is not the embedded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// The kubeconfig of the server that manages it, if it is not the embedded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<PathBuf>,
    /// Its objects, as they were moved: with them, its control plane is repaired when its API server is dead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Value>,
}

impl StateDirectory {
    /// A directory, which is made if there is none.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        for directory in [path.clone(), path.join("clusters")] {
            fs::create_dir_all(&directory).map_err(file(&directory))?;
        }
        restrict(&path).map_err(file(&path))?;
        Ok(Self(path))
    }

    /// Whether there is a state in this directory.
    #[must_use]
    pub fn exists(path: &Path) -> bool {
        path.join("server").is_dir()
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of local hosts.
    #[must_use]
    pub fn hosts(&self) -> PathBuf {
        let other = fs::read_to_string(self.0.join(HOSTS)).ok().map(|text| PathBuf::from(text.trim()));
        other.unwrap_or_else(|| self.0.join("hosts"))
    }

    /// Takes the hosts and the ledger of another state directory: clusters are moved between both.
    ///
    /// # Errors
    /// It has hosts of its own.
    pub fn share_hosts(&self, other: &Self) -> Result<(), Error> {
        let (own, wanted) = (self.hosts(), other.hosts());
        if own == wanted {
            return Ok(());
        }
        if !self.ledger().all().map_err(file(&self.0))?.is_empty() {
            let message = format!(
                "{} has hosts of its own, in {}: a cluster cannot be moved there",
                self.0.display(),
                own.display()
            );
            return Err(Error::Refused(message));
        }
        let path = self.0.join(HOSTS);
        fs::write(&path, wanted.to_string_lossy().as_bytes()).map_err(file(&path))
    }

    /// The ledger: with the hosts.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let hosts = self.hosts();
        Ledger::new(&hosts.parent().unwrap_or(&hosts).join("ledger"))
    }

    /// Starts the embedded server. It listens on a loopback port, for the commands that look at it.
    ///
    /// # Errors
    /// Another process has it, or its data cannot be read.
    pub async fn start_server(&self) -> Result<Server, Error> {
        let mut config = Config::default();
        config.data_dir = Some(self.0.join("server"));
        config.name = Some("settled-cluster".to_owned());
        let server = Server::start(config).await?;
        server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        Ok(server)
    }

    /// The kubeconfig of the embedded server, while it runs.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.0.join("server").join("admin.kubeconfig")
    }

    /// Where the kubeconfig of a cluster is.
    #[must_use]
    pub fn kubeconfig_of(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.kubeconfig"))
    }

    fn record_path(&self, namespace: &str, name: &str) -> PathBuf {
        self.0.join("clusters").join(format!("{namespace}.{name}.json"))
    }

    /// The record of a cluster.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn record(&self, namespace: &str, name: &str) -> Result<Option<ClusterRecord>, Error> {
        let path = self.record_path(namespace, name);
        match fs::read(&path) {
            Ok(text) => {
                let invalid = |error: serde_json::Error| file(&path)(error.into());
                serde_json::from_slice(&text).map(Some).map_err(invalid)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(file(&path)(error)),
        }
    }

    /// Registers a cluster: its record, and its kubeconfig.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn register(&self, record: &ClusterRecord, kubeconfig: Option<&str>) -> Result<(), Error> {
        if let Some(kubeconfig) = kubeconfig {
            let path = self.kubeconfig_of(&record.name);
            write_private(&path, kubeconfig.as_bytes())
                .map_err(|error| file(&path)(io::Error::other(error)))?;
        }
        let path = self.record_path(&record.namespace, &record.name);
        let text = serde_json::to_vec_pretty(record).map_err(|error| file(&path)(error.into()))?;
        write_private(&path, &text).map_err(|error| file(&path)(io::Error::other(error)))
    }

    /// Removes a cluster from the registry.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn deregister(&self, namespace: &str, name: &str) -> Result<(), Error> {
        for path in [self.kubeconfig_of(name), self.record_path(namespace, name)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file(&path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The registered clusters.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn clusters(&self) -> Result<Vec<ClusterRecord>, Error> {
        let directory = self.0.join("clusters");
        let mut records = Vec::new();
        for entry in fs::read_dir(&directory).map_err(file(&directory))? {
            let name = entry.map_err(file(&directory))?.file_name().to_string_lossy().into_owned();
            let Some((namespace, name)) = name.strip_suffix(".json").and_then(|name| name.split_once('.'))
            else {
                continue;
            };
            records.extend(self.record(namespace, name)?);
        }
        records.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        Ok(records)
    }
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

/// Private keys are in it.
#[cfg(unix)]
fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn restrict(_path: &Path) -> io::Result<()> {
    Ok(())
}
