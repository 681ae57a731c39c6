//! Notices about namespaces and CRDs that are created and removed.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use settled_store::{Entry, Event, Scope, Watch, WatchError};

use crate::kinds::apiextensions::custom_resource_definition::is_true;
use crate::kinds::crd;
use crate::notice::Notice;
use crate::state::State;

/// Reports namespaces and CRDs until the server stops: every change from this call on.
pub(crate) fn run(state: Arc<State>) -> impl Future<Output = ()> + Send + 'static {
    let mut watches = begin(&state);
    async move {
        while let Some((namespaces, definitions)) = watches {
            // Too slow: what was missed is no longer news.
            if matches!(report(&state, namespaces, definitions).await, WatchError::Stopped) {
                return;
            }
            watches = begin(&state);
        }
    }
}

fn begin(state: &State) -> Option<(Watch, Watch)> {
    if !state.lifecycle.notices.has_listener() {
        return None;
    }
    let follow = |resource| state.store.snapshot_and_watch(resource, &Scope::All).map(|(_, watch)| watch);
    Some((follow(&state.namespaces).ok()?, follow(&crd::resource().ok()?).ok()?))
}

async fn report(state: &State, mut namespaces: Watch, mut definitions: Watch) -> WatchError {
    loop {
        let (event, of): (_, fn(&Event) -> Option<Notice>) = tokio::select! {
            event = namespaces.recv() => (event, of_namespace),
            event = definitions.recv() => (event, of_definition),
        };
        match event {
            Ok(event) => of(&event).iter().for_each(|notice| state.lifecycle.notices.emit(notice)),
            Err(error) => return error,
        }
    }
}

fn of_namespace(event: &Event) -> Option<Notice> {
    let name = event.key().name().to_owned();
    match (event.previous(), event.entry()) {
        (None, _) => Some(Notice::NamespaceCreated { name }),
        (_, None) => Some(Notice::NamespaceRemoved { name }),
        _ => None,
    }
}

fn of_definition(event: &Event) -> Option<Notice> {
    let name = event.key().name().to_owned();
    let Some(entry) = event.entry() else { return Some(Notice::CrdRemoved { name }) };
    let was = event.previous().is_some_and(|previous| is_established(previous));
    (!was && is_established(entry)).then_some(Notice::CrdEstablished { name })
}

fn is_established(entry: &Entry) -> bool {
    let crd: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
    is_true(&crd, "Established")
}
