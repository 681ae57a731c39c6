//! ResourceQuota controller: recounts usage (`pkg/controller/resourcequota` upstream).
//!
//! Writes are charged when they are admitted; what is deleted or has ended is found here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use settled_store::{At, Scope};
use tokio::time::Instant;

use super::feed::{Feed, News};
use super::retry::RETRY;
use crate::admission::quota;
use crate::kinds::names::stored_as;
use crate::state::State;

/// Follows all objects that quotas may limit until the server stops.
pub(super) async fn run(state: Arc<State>) {
    let Ok(quotas) = stored_as("", "resourcequotas") else { return };
    let mut feed = Feed::new(&state, Scope::All, |definition| {
        definition.namespaced && definition.resource.as_str() != "events"
    });
    let mut due: BTreeSet<String> = BTreeSet::new();
    loop {
        let mut all = false;
        let mut changed: BTreeSet<String> = BTreeSet::new();
        let mut news = if due.is_empty() {
            match feed.next().await {
                None => return,
                news => news,
            }
        } else {
            // Each write notifies; the interval is for a missed notification.
            let _rung = tokio::time::timeout(RETRY, quota::charged(&state)).await;
            feed.try_next()
        };
        while let Some(one) = news {
            match one {
                News::Event(event) => {
                    changed.insert(event.key().namespace().to_owned());
                }
                News::Snapshot(_) | News::Catalog => all = true,
            }
            news = feed.try_next();
        }
        let Ok(snapshot) = state.store.snapshot(&quotas, At::Latest) else { return };
        if snapshot.is_empty() {
            due.clear();
            continue;
        }
        if all {
            changed.extend(snapshot.iter(&Scope::All).map(|entry| entry.key().namespace().to_owned()));
        }
        let begun = Instant::now();
        due.extend(
            changed.into_iter().filter(|namespace| snapshot.len(&Scope::Namespace(namespace.clone())) > 0),
        );
        for namespace in std::mem::take(&mut due) {
            match quota::recount(&state, &namespace).await {
                Ok(true) => {}
                Ok(false) => {
                    due.insert(namespace);
                }
                Err(error) if error.code == 503 => return,
                Err(_) => {
                    due.insert(namespace);
                }
            }
        }
        // At most half of the time is spent on counting.
        tokio::time::sleep(begun.elapsed().min(Duration::from_secs(1))).await;
    }
}
