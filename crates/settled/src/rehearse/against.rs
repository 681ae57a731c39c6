//! `--against`: the live objects around the manifests.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use settled_rehearsal::findings::{Check, Finding, Manifest, Severity};
use settled_rehearsal::{NodeSpec, import};

use super::sources::Source;
use crate::cli::args::ClusterArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::patience::Patience;
use crate::requests::Warnings;
use crate::session;

/// How long reading may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What was read.
pub(super) struct Read {
    /// Live objects, and those that are assumed.
    pub(super) before: Vec<Source>,
    /// Findings about what could not be read.
    pub(super) notes: Vec<Finding>,
    /// The Nodes; None if nothing is known of them.
    pub(super) nodes: Option<Vec<NodeSpec>>,
    /// How many kinds in namespaces could not be read.
    pub(super) unread: usize,
}

/// Reads what is in the namespaces of the manifests, and the Nodes if they are wanted. None if it was interrupted.
pub(super) fn read(
    context: &str,
    kubeconfig: Option<&Path>,
    sources: &[Source],
    wants_nodes: bool,
) -> Result<Option<Read>, CommandError> {
    let args = ClusterArgs {
        context: Some(context.to_owned()).filter(|context| !context.is_empty()),
        kubeconfig: kubeconfig.map(Path::to_owned),
        ..ClusterArgs::default()
    };
    let of = |part: fn(&Source) -> &str| -> BTreeSet<String> {
        sources.iter().map(part).filter(|text| !text.is_empty()).map(str::to_owned).collect()
    };
    let namespaces = of(|source| &source.manifest.namespace);
    let groups = of(|source| source.manifest.group());
    let imported = session::run(async {
        let patience = Patience::with_timeout(Some(TIMEOUT));
        let cluster = cluster::connect(&args, patience, Warnings::Ignored).await?;
        // The first request says whether the cluster can be reached at all.
        cluster.resources().await.map_err(|error| cluster::unreachable_at(&cluster, &error))?;
        let client = cluster.client();
        let read = async {
            let nodes = if wants_nodes { Some(import::nodes(&client).await) } else { None };
            (import::read(&client, &namespaces, &groups).await, nodes)
        };
        let read = tokio::time::timeout(TIMEOUT, read).await;
        read.map_err(|_| {
            CommandError::cluster(format!("the cluster was not read within {}s", TIMEOUT.as_secs()))
        })
    })?;
    let Some((imported, nodes)) = imported else { return Ok(None) };
    let import::Nodes { nodes, not_ready, unread: unread_nodes } = nodes.unwrap_or_default();
    let label: Arc<str> = format!("context {context}").into();
    let manifests: Vec<Manifest> = sources.iter().map(|source| source.manifest.clone()).collect();
    let assumed = import::assumed(&manifests, &imported.unread);
    let mut notes: Vec<Finding> = assumed
        .iter()
        .map(|assumed| {
            let message = format!(
                "the rehearsal assumes that {} exists: the cluster does not let it be read",
                assumed.what
            );
            Finding::new(Severity::Warning, Check::Unread, Some(assumed.manifest), &assumed.field, message)
        })
        .collect();
    // Namespaces come first, as they were read.
    let objects = imported.objects.into_iter().chain(assumed.into_iter().map(|assumed| assumed.object));
    let before = objects.map(|object| Source::of_cluster(object, &label)).collect();
    notes.extend(not_ready.iter().map(|name| {
        let message = format!("Node {name} of the cluster is not ready: no Pod is put on it");
        Finding::new(Severity::Note, Check::LeftOutNode, None, "", message)
    }));
    notes.extend(unread_nodes.iter().map(|unread| {
        let message = format!("cannot read nodes of the cluster: {}", unread.reason);
        let finding = Finding::new(Severity::Warning, Check::Unread, None, "", message);
        finding.remedy("the rehearsal has three large Nodes; describe those of the cluster with --nodes")
    }));
    notes.extend(imported.unread.iter().map(|unread| {
        let message = format!(
            "cannot read {} of the cluster, so that nothing is known of them: {}",
            unread.what, unread.reason
        );
        Finding::new(Severity::Warning, Check::Unread, None, "", message)
    }));
    Ok(Some(Read {
        before,
        notes,
        // A cluster that has none yet, or none that is ready, gets the usual ones.
        nodes: Some(nodes).filter(|nodes| !nodes.is_empty()),
        unread: imported.unread.len() + unread_nodes.len(),
    }))
}
