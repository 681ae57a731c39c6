//! Polling: single objects by `get`, for users who may neither list nor watch them.

use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tracing::Instrument as _;

use crate::cluster::Cluster;
use crate::exchange::Verb;
use crate::stream::{Decode, MAX_BACKOFF, Message, Scope, Update};

/// Polls single objects by `get`: for users who may neither list nor watch them.
pub async fn poll<D: Decode, I: Copy>(
    cluster: Cluster,
    scope: Scope,
    names: Vec<Box<str>>,
    decoder: D,
    stream: I,
    out: Sender<Message<I, D::Item>>,
) {
    let span = scope.span();
    poll_objects(cluster, scope, names, decoder, stream, out).instrument(span).await;
}

async fn poll_objects<D: Decode, I: Copy>(
    cluster: Cluster,
    scope: Scope,
    names: Vec<Box<str>>,
    decoder: D,
    stream: I,
    out: Sender<Message<I, D::Item>>,
) {
    let mut pause = Duration::from_millis(500);
    let mut resource_versions = vec![None; names.len()];
    let (mut synced, mut failed, mut refused) = (false, false, 0);
    let mut updates = vec![Update::Restart];
    loop {
        let (mut down, mut unanswered) = (None, false);
        for (name, known) in names.iter().zip(&mut resource_versions) {
            match cluster.object(&scope.resource, scope.namespace.as_deref(), name).await {
                Ok(bytes) => {
                    let decoded = decoder.decode(&bytes, cluster.now());
                    decoder.apply();
                    let Some((item, resource_version)) = decoded else { continue };
                    if known.replace(resource_version) != Some(resource_version) || resource_version == 0 {
                        updates.push(Update::Put(item));
                        pause = Duration::from_millis(500);
                    }
                }
                Err(error) if error.is_not_found() => {
                    if known.take().is_some() {
                        updates.push(Update::Missing(name.clone()));
                    }
                }
                Err(error) if error.is_forbidden() => {
                    tracing::warn!(verb = Verb::Get.as_str(), "forbidden; the stream ends");
                    updates.push(Update::Forbidden(Verb::Get, error));
                    let _sent = out.send(Message { stream, updates }).await;
                    return;
                }
                Err(error) => {
                    unanswered = true;
                    if error.code() == Some(401) {
                        refused += 1;
                        // New credentials, and then again.
                        if refused <= 2 && cluster.refresh().await {
                            continue;
                        }
                    }
                    down = Some(error);
                }
            }
        }
        if let Some(error) = down {
            failed = true;
            tracing::warn!(error = error.summary(), backoff_ms = pause.as_millis(), "failed; retrying");
            updates.push(Update::Down(error, cluster.answers()));
        } else if !unanswered {
            refused = 0;
            if std::mem::take(&mut failed) {
                tracing::info!("reconnected");
                updates.push(Update::Up);
            }
            // Before, what was not answered for may be there.
            if !std::mem::replace(&mut synced, true) {
                updates.push(Update::Synced);
            }
        }
        let reported = std::mem::take(&mut updates);
        if out.is_closed()
            || !reported.is_empty() && out.send(Message { stream, updates: reported }).await.is_err()
        {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(MAX_BACKOFF);
    }
}
