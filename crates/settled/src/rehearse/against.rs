//! `--against`: the live objects around the manifests.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use settled_rehearsal::findings::{Check, Finding, Severity};
use settled_rehearsal::import;

use super::sources::Source;
use crate::cli::args::ClusterArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::patience::Patience;
use crate::requests::Warnings;
use crate::session;

/// How long reading may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Live objects, and findings about those that could not be read.
pub(super) type Read = (Vec<Source>, Vec<Finding>);

/// Reads what is in the namespaces of the manifests, and findings about what could not be read. None if it was interrupted.
pub(super) fn read(
    context: &str,
    kubeconfig: Option<&Path>,
    sources: &[Source],
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
        let read = import::read(&client, &namespaces, &groups);
        let read = tokio::time::timeout(TIMEOUT, read).await;
        read.map_err(|_| {
            CommandError::cluster(format!("the cluster was not read within {}s", TIMEOUT.as_secs()))
        })
    })?;
    let Some(imported) = imported else { return Ok(None) };
    let label: Arc<str> = format!("context {context}").into();
    let before = imported.objects.into_iter().map(|object| Source::of_cluster(object, &label)).collect();
    let notes = imported.unread.iter().map(|unread| {
        let message = format!(
            "cannot read {} of the cluster, so that nothing is known of them: {}",
            unread.what, unread.reason
        );
        Finding::new(Severity::Warning, Check::Unread, None, "", message)
    });
    Ok(Some((before, notes.collect())))
}
