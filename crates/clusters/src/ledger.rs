//! Ledger: which server manages a host. Several servers may have the same providers on one machine; each touches its own hosts only, and a host that was moved is
//! the new one's from one moment on.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::Value;
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::{
    Desired, Host, HostKey, Observed, Owned, Plan, Progress, Provider, ProviderError, Request, Step,
};

/// The ledger in a directory: a file for each host, with the identity of its server.
#[derive(Clone, Debug)]
pub struct Ledger(PathBuf);

impl Ledger {
    /// The ledger in this directory.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self(directory.to_owned())
    }

    fn path(&self, key: &HostKey) -> PathBuf {
        self.0.join(key.as_str())
    }

    /// The server of a host.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn owner(&self, key: &HostKey) -> io::Result<Option<String>> {
        match fs::read_to_string(self.path(key)) {
            Ok(owner) => Ok(Some(owner.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a host to a server.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn assign(&self, key: &HostKey, owner: &str) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let new = self.0.join(format!(".{key}.tmp"));
        let mut file = fs::File::create(&new)?;
        file.write_all(owner.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.path(key))?;
        fs::File::open(&self.0)?.sync_all()
    }

    fn forget(&self, key: &HostKey) -> io::Result<()> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// All hosts in the ledger, with their servers.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn all(&self) -> io::Result<Vec<(HostKey, String)>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let key = HostKey::new(&name);
            if let Some(owner) = self.owner(&key)?.filter(|_| !name.starts_with('.')) {
                all.push((key, owner));
            }
        }
        all.sort();
        Ok(all)
    }

    /// A provider that touches the hosts of one server only.
    #[must_use]
    pub fn guard(&self, provider: Arc<dyn Provider>, server: &str) -> Arc<dyn Provider> {
        Arc::new(Guarded { provider, ledger: self.clone(), server: server.to_owned() })
    }
}

/// A provider for one server.
struct Guarded {
    provider: Arc<dyn Provider>,
    ledger: Ledger,
    server: String,
}

fn unusable(error: &io::Error) -> ProviderError {
    ProviderError::Transient(format!("cannot use the ledger of hosts: {error}"))
}

impl Guarded {
    /// Fails if the host is another server's. Whether it is in the ledger.
    fn check(&self, key: &HostKey) -> Result<bool, ProviderError> {
        match self.ledger.owner(key).map_err(|error| unusable(&error))? {
            Some(owner) if owner != self.server => Err(ProviderError::Transient(format!(
                "the host {key} is managed by another API server: its Machine was moved there"
            ))),
            owner => Ok(owner.is_some()),
        }
    }
}

impl Provider for Guarded {
    fn schema(&self) -> ConfigSchema {
        self.provider.schema()
    }

    fn defaults(&self, config: &mut Value) {
        self.provider.defaults(config);
    }

    fn validate(&self, desired: &Desired) -> Vec<String> {
        self.provider.validate(desired)
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        async move {
            let observed = self.provider.observe(key).await?;
            // What was deleted is seen to be gone here: nobody deletes it again.
            let owner = self.ledger.owner(key).map_err(|error| unusable(&error))?;
            if observed == Observed::Absent && owner.as_deref() == Some(&self.server) {
                self.ledger.forget(key).map_err(|error| unusable(&error))?;
            }
            Ok(observed)
        }
        .boxed()
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        self.provider.plan(host, desired)
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            if !self.check(&request.key)? {
                self.ledger.assign(&request.key, &self.server).map_err(|error| unusable(&error))?;
            }
            self.provider.create(request).await
        }
        .boxed()
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            self.check(&request.key)?;
            self.provider.apply_step(request, step).await
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            self.check(key)?;
            let progress = self.provider.delete(key).await?;
            self.observe(key).await?;
            Ok(progress)
        }
        .boxed()
    }

    fn kubeconfig<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Option<String>, ProviderError>> {
        self.provider.kubeconfig(key)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        async move {
            let mut owned = Vec::new();
            for host in self.provider.list().await? {
                let owner = self.ledger.owner(&host.key).map_err(|error| unusable(&error))?;
                // What no ledger has was created by others.
                if owner.as_deref() == Some(&self.server) {
                    owned.push(host);
                }
            }
            Ok(owned)
        }
        .boxed()
    }
}
