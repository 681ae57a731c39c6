//! Sources of comparisons: live servers, state directories, exports and manifests, in any mix.

use std::path::{Path, PathBuf};

use serde_json::Value;
use settled_machines::convert::{import_v1alpha1, is_v1alpha1};
use settled_machines::inventory::{Inventory, Kind};
use settled_machines::live;

use super::documents;
use super::server::{self, Opened};
use crate::cli::args::ClusterArgs;
use crate::cli::machines::SourceArgs;
use crate::error::CommandError;
use crate::patience::Patience;

/// Prefix of sources that are contexts of the kubeconfig.
const CONTEXT: &str = "context:";

/// A source, as it was named.
pub(super) struct Source {
    place: Place,
    /// The Cluster that is meant, as `NAME` or `NAMESPACE/NAME`.
    cluster: Option<String>,
}

enum Place {
    Files(PathBuf),
    State(PathBuf),
    Server(Box<ClusterArgs>),
}

impl Source {
    /// Finds out what an argument names.
    pub(super) fn parse(argument: &str, args: &ClusterArgs) -> Result<Self, CommandError> {
        let (place, cluster) = match argument.rsplit_once('#') {
            Some((place, cluster)) if !cluster.is_empty() => (place, Some(cluster.to_owned())),
            _ => (argument, None),
        };
        if let Some(context) = place.strip_prefix(CONTEXT) {
            let args = ClusterArgs { context: Some(context.to_owned()), ..args.clone() };
            return Ok(Self { place: Place::Server(Box::new(args)), cluster });
        }
        let path = Path::new(place);
        if place != "-" && !path.exists() {
            return Err(CommandError::input(format!("there is no file or directory {place}"))
                .hint(format!("a context of the kubeconfig is named as {CONTEXT}{place}")));
        }
        let place = if path.is_dir() && server::is_state(path) {
            Place::State(path.to_owned())
        } else if is_kubeconfig(path) {
            Place::Server(Box::new(ClusterArgs { kubeconfig: Some(path.to_owned()), ..args.clone() }))
        } else {
            Place::Files(path.to_owned())
        };
        Ok(Self { place, cluster })
    }

    /// Opens a source that can be changed.
    pub(super) async fn open(
        &self,
        namespace: Option<&str>,
        patience: Patience,
    ) -> Result<Opened, CommandError> {
        match &self.place {
            Place::State(directory) => server::open_state(directory, namespace, patience).await,
            Place::Server(args) => server::connect(args, namespace, patience).await,
            Place::Files(path) => {
                Err(CommandError::usage(format!("{} is a file: it cannot be changed", path.display())).hint(
                    "the second cluster is a server (context:NAME, or a kubeconfig) or a state directory",
                ))
            }
        }
    }

    /// Reads the objects of the cluster.
    pub(super) async fn read(
        &self,
        args: &SourceArgs,
        patience: Patience,
    ) -> Result<Inventory, CommandError> {
        let namespace = args.namespace.as_deref();
        let inventory = match &self.place {
            Place::Files(path) => files(path, namespace.unwrap_or("default"))?,
            Place::State(_) | Place::Server(_) => {
                let opened = self.open(namespace, patience).await?;
                live::read(&opened.client(), namespace).await.map_err(server::failed)?
            }
        };
        self.select(inventory)
    }

    /// Keeps the Cluster that is meant.
    pub(super) fn select(&self, inventory: Inventory) -> Result<Inventory, CommandError> {
        let Some(wanted) = &self.cluster else { return Ok(inventory) };
        let is_wanted = |namespace: &str, name: &str| match wanted.split_once('/') {
            Some((place, wanted)) => place == namespace && wanted == name,
            None => wanted == name,
        };
        let mut found = inventory.of_kind(Kind::Cluster).filter(|(id, _)| is_wanted(&id.namespace, &id.name));
        match (found.next(), found.next()) {
            (Some((id, _)), None) => Ok(inventory.of_cluster(&id.namespace, &id.name)),
            (None, _) => Err(CommandError::input(format!("there is no Cluster {wanted}"))),
            (Some(_), Some(_)) => {
                Err(CommandError::input(format!("there are several Clusters named {wanted}"))
                    .hint(format!("name its namespace, too: #NAMESPACE/{wanted}")))
            }
        }
    }
}

fn files(path: &Path, namespace: &str) -> Result<Inventory, CommandError> {
    let documents = documents::read(&[path.to_owned()])?;
    let convert = |document: Value| match is_v1alpha1(&document) {
        true => import_v1alpha1(&document).map_or(document, |imported| imported.object),
        false => document,
    };
    let inventory = Inventory::new(documents.into_iter().map(convert), namespace);
    if inventory.is_empty() {
        return Err(CommandError::input(format!("{} has no objects of clusters", path.display())));
    }
    Ok(inventory)
}

fn is_kubeconfig(path: &Path) -> bool {
    const HEAD_BYTES_MAX: u64 = 1 << 20;
    let is_small =
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= HEAD_BYTES_MAX);
    if !is_small {
        return false;
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let has = |line: &str| {
        text.lines().any(|found| found.trim_end() == line || found.trim_end() == line.replace(' ', " \""))
    };
    (has("kind: Config") || text.contains("\"kind\":\"Config\"") || text.contains("\"kind\": \"Config\""))
        && text.contains("clusters")
}
