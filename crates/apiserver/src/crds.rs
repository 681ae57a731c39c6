//! The controller of CustomResourceDefinitions: it accepts names, serves resources, and takes them away.
//!
//! A resource is in the catalog before its definition says that it is established.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use settled_store::{At, Scope};

use crate::change::Change;
use crate::core::{Call, Core, Target};
use crate::crd::{self, CLEANUP, GROUP, PLURAL};
use crate::definition::Definition;
use crate::delete::Deleted;
use crate::error::ApiError;
use crate::names::Part;
use crate::object::{self, finalizers, is_terminating, meta, metadata_mut, text};
use crate::options::{DeleteOptions, WriteOptions};

/// How long to wait before trying again what failed.
const RETRY: Duration = Duration::from_millis(100);

impl Core {
    fn crd_definition(&self) -> Result<Arc<Definition>, ApiError> {
        let catalog = self.catalog();
        catalog
            .find(GROUP, "v1", PLURAL)
            .cloned()
            .ok_or_else(|| ApiError::internal("definitions are not served"))
    }

    /// All definitions as they are.
    fn crds(&self) -> Result<Vec<Value>, ApiError> {
        self.crds_where(|_| true)
    }

    fn crds_where(&self, fits: impl Fn(&str) -> bool) -> Result<Vec<Value>, ApiError> {
        let definition = self.crd_definition()?;
        let snapshot = self.store.snapshot(&crd::resource()?, At::Latest).map_err(ApiError::internal)?;
        let entries = snapshot.iter(&Scope::All).filter(|entry| fits(entry.key().name()));
        Ok(entries.map(|entry| self.read(&definition, entry)).collect())
    }

    /// Serves what the stored definitions describe: at the start, before anything else.
    pub(crate) fn load_crds(&self) -> Result<(), ApiError> {
        for crd in self.crds()? {
            if crd::is_true(&crd, "Established") {
                self.serve_crd(&crd)?;
            }
        }
        Ok(())
    }

    /// Puts the versions of a definition into the catalog. What served it before is retired: its watches end.
    fn serve_crd(&self, crd: &Value) -> Result<(), ApiError> {
        let revision = meta(crd, "resourceVersion").parse().unwrap_or_default();
        let definitions = crd::definitions(crd, revision)?;
        let group = text(crd.get("spec").unwrap_or(&Value::Null), "group").to_owned();
        let plural = crd.pointer("/status/acceptedNames/plural").and_then(Value::as_str).unwrap_or_default();
        self.change_catalog(|catalog| {
            for old in catalog.versions_of(&group, plural) {
                old.retire();
            }
            catalog.remove(&group, plural);
            for definition in definitions {
                catalog.insert(Arc::new(definition));
            }
        });
        Ok(())
    }

    fn withdraw_crd(&self, name: &str) {
        // The name is the plural one and the group.
        let Some((plural, group)) = name.split_once('.') else { return };
        self.change_catalog(|catalog| {
            for old in catalog.versions_of(group, plural) {
                old.retire();
            }
            catalog.remove(group, plural);
        });
    }

    /// Follows the definitions until the server stops.
    pub(crate) async fn run_crds(self: Arc<Self>) {
        let Ok(resource) = crd::resource() else { return };
        loop {
            let Ok((snapshot, mut watch)) = self.store.snapshot_and_watch(&resource, &Scope::All) else {
                return;
            };
            let mut names: Vec<String> =
                snapshot.iter(&Scope::All).map(|entry| entry.key().name().to_owned()).collect();
            loop {
                for name in std::mem::take(&mut names) {
                    self.clone().settle_crd(name).await;
                }
                match watch.recv().await {
                    Ok(event) => {
                        let name = event.key().name().to_owned();
                        if event.entry().is_none() {
                            self.withdraw_crd(&name);
                            // Its names are free now.
                            names = self
                                .crds()
                                .unwrap_or_default()
                                .iter()
                                .map(|crd| meta(crd, "name").to_owned())
                                .collect();
                        } else {
                            names.push(name);
                        }
                    }
                    Err(settled_store::WatchError::Stopped) => return,
                    // Too slow: begin anew.
                    Err(_) => break,
                }
            }
        }
    }

    /// Brings one definition as far as it can get now. What fails is tried again.
    async fn settle_crd(self: Arc<Self>, name: String) {
        while let Err(error) = self.clone().try_settle_crd(&name).await {
            if error.code == 404 || error.code == 503 {
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_settle_crd(self: Arc<Self>, name: &str) -> Result<(), ApiError> {
        let definition = self.crd_definition()?;
        let target = Target { definition: &definition, namespace: "", name };
        let entry = self.get(&target)?;
        let crd = self.read(&definition, &entry);
        if is_terminating(&crd) {
            if self.is_served(&crd, true) {
                return Ok(());
            }
            self.serve_crd(&crd)?;
            self.host.spawn(self.clone().clean_up(name.to_owned()));
            return Ok(());
        }
        let spec_names = crd.pointer("/spec/names");
        let settled = spec_names == crd.pointer("/status/acceptedNames") && crd::is_true(&crd, "Established");
        if settled {
            if !self.is_served(&crd, false) {
                self.serve_crd(&crd)?;
            }
            return Ok(());
        }
        // A definition's name ends with its group: those of others need not be read, which large clusters have hundreds of.
        let end = format!(".{}", text(crd.get("spec").unwrap_or(&Value::Null), "group"));
        let others = self.crds_where(|other| {
            other != name && other.strip_suffix(&end).is_some_and(|plural| !plural.contains('.'))
        })?;
        let mut accepted = crd.clone();
        let now = jiff::Timestamp::now();
        crd::accept_names(&mut accepted, &others, now);
        crd::report_approval(&mut accepted, now);
        if crd::is_true(&accepted, "Established") && !self.is_served(&accepted, false) {
            self.serve_crd(&accepted)?;
        }
        let status = accepted.get("status").cloned().unwrap_or_default();
        if Some(&status) == crd.get("status") {
            return Ok(());
        }
        let revision = meta(&crd, "resourceVersion").to_owned();
        let change = |old: &Value| {
            if meta(old, "resourceVersion") != revision {
                return Err(ApiError::conflict(definition.group_resource(), name, "it changed"));
            }
            let mut new = old.clone();
            new["status"] = status.clone();
            Ok(new)
        };
        let mut call = Call::new("kube-apiserver");
        let options = WriteOptions::internal();
        self.update(&mut call, &target, Part::Status, Change::With(&change), &options).await?;
        Ok(())
    }

    /// Is the definition served as it is?
    fn is_served(&self, crd: &Value, terminating: bool) -> bool {
        let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
        let plural = crd.pointer("/status/acceptedNames/plural").and_then(Value::as_str).unwrap_or_default();
        let catalog = self.catalog();
        let versions = catalog.versions_of(group, plural);
        let generation =
            object::metadata(crd).and_then(|metadata| metadata.get("generation")).and_then(Value::as_i64);
        !versions.is_empty()
            && versions.iter().all(|definition| {
                definition.model.custom().is_some_and(|custom| {
                    custom.terminating == terminating
                        && (terminating || Some(custom.generation) == generation)
                        && crd.pointer("/status/acceptedNames") == Some(&custom.names)
                })
            })
    }

    /// Deletes the objects of a definition that is being deleted, then lets it go.
    async fn clean_up(self: Arc<Self>, name: String) {
        while let Err(error) = self.try_clean_up(&name).await {
            if error.code == 404 || error.code == 503 {
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_clean_up(&self, name: &str) -> Result<(), ApiError> {
        let definition = self.crd_definition()?;
        let target = Target { definition: &definition, namespace: "", name };
        let entry = self.get(&target)?;
        let crd = self.read(&definition, &entry);
        let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
        let plural = crd.pointer("/spec/names/plural").and_then(Value::as_str).unwrap_or_default();
        let catalog = self.catalog();
        let versions = catalog.versions_of(group, plural);
        if let Some(served) = versions.first() {
            let mut call = Call::new("kube-apiserver");
            let options = DeleteOptions::default();
            loop {
                let begun = self.store.snapshot_and_watch(&served.resource, &Scope::All);
                let (snapshot, mut watch) = begun.map_err(ApiError::internal)?;
                if snapshot.is_empty() {
                    break;
                }
                let mut waits = false;
                for entry in snapshot.iter(&Scope::All) {
                    call.now = jiff::Timestamp::now();
                    let key = entry.key();
                    let target = Target { definition: served, namespace: key.namespace(), name: key.name() };
                    match self.delete(&call, &target, &options).await {
                        Ok(Deleted::Gone(_)) => {}
                        Ok(Deleted::Pending(_)) => waits = true,
                        Err(error) if error.code == 404 => {}
                        Err(error) => return Err(error),
                    }
                }
                // Those with finalizers go when somebody takes them off.
                if waits {
                    while watch.recv().await.map_err(ApiError::internal)?.entry().is_some() {}
                }
            }
        }
        let change = |old: &Value| {
            let mut new = old.clone();
            let rest: Vec<Value> = finalizers(old)
                .into_iter()
                .filter(|finalizer| *finalizer != CLEANUP)
                .map(Value::from)
                .collect();
            metadata_mut(&mut new).insert("finalizers".to_owned(), rest.into());
            Ok(new)
        };
        let mut call = Call::new("kube-apiserver");
        let options = WriteOptions::internal();
        self.update(&mut call, &target, Part::Main, Change::With(&change), &options).await?;
        Ok(())
    }
}
