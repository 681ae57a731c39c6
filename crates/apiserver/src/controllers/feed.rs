//! Controller feed: the events of many resources as one stream, also of resources that are served later.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use settled_store::{Event, Resource, Scope, Snapshot, Watch, WatchError};
use tokio::sync::watch;

use crate::kinds::definition::{Catalog, Definition};
use crate::state::State;

/// How many events are taken from one resource before the others have their turn.
const TURN: usize = 256;

/// What happened.
pub(super) enum News {
    /// All objects of a resource: at the beginning, or anew because events were missed.
    Snapshot(Snapshot),
    Event(Arc<Event>),
    /// What is served has changed.
    Catalog,
}

/// Follows all resources that a controller wants.
pub(super) struct Feed {
    state: Arc<State>,
    catalog: watch::Receiver<Arc<Catalog>>,
    wanted: fn(&Definition) -> bool,
    scope: Scope,
    watches: BTreeMap<Resource, Watch>,
    waiting: VecDeque<News>,
    stopped: bool,
}

/// Can the objects of a resource be listed, watched and deleted?
pub(super) fn is_stored(definition: &Definition) -> bool {
    ["delete", "list", "watch"].iter().all(|verb| definition.verbs.contains(verb))
}

impl Feed {
    pub(super) fn new(state: &Arc<State>, scope: Scope, wanted: fn(&Definition) -> bool) -> Self {
        let mut catalog = state.watch_catalog();
        catalog.mark_changed();
        Self {
            state: state.clone(),
            catalog,
            wanted,
            scope,
            watches: BTreeMap::new(),
            waiting: VecDeque::new(),
            stopped: false,
        }
    }

    /// Waits for the next piece of news. None: the server stops.
    pub(super) async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(news) = self.try_next() {
                return Some(news);
            }
            if self.stopped {
                return None;
            }
            let (watches, waiting, catalog) = (&mut self.watches, &mut self.waiting, &mut self.catalog);
            let events = poll_fn(|context| {
                let mut found = false;
                for watch in watches.values_mut() {
                    match watch.poll_recv(context) {
                        Poll::Ready(Ok(event)) => {
                            waiting.push_back(News::Event(event));
                            found = true;
                        }
                        // The next look at it takes care of the error.
                        Poll::Ready(Err(_)) => found = true,
                        Poll::Pending => {}
                    }
                }
                if found { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::select! {
                () = events => {}
                changed = catalog.changed() => match changed {
                    Ok(()) => catalog.mark_changed(),
                    Err(_) => self.stopped = true,
                },
            }
        }
    }

    /// The next piece of news that is there already.
    pub(super) fn try_next(&mut self) -> Option<News> {
        if self.waiting.is_empty() {
            self.collect();
        }
        self.waiting.pop_front()
    }

    fn collect(&mut self) {
        if self.catalog.has_changed().unwrap_or(false) {
            self.follow_catalog();
        }
        let mut lost = Vec::new();
        for (resource, watch) in &mut self.watches {
            for _ in 0..TURN {
                match watch.try_recv() {
                    Ok(Some(event)) => self.waiting.push_back(News::Event(event)),
                    Ok(None) => break,
                    Err(WatchError::Stopped) => {
                        self.stopped = true;
                        return;
                    }
                    // Too slow: begin anew.
                    Err(_) => {
                        lost.push(resource.clone());
                        break;
                    }
                }
            }
        }
        for resource in lost {
            self.begin(resource);
        }
    }

    fn follow_catalog(&mut self) {
        let catalog = self.catalog.borrow_and_update().clone();
        let wanted: Vec<Resource> = catalog
            .preferred()
            .iter()
            .filter(|definition| is_stored(definition) && (self.wanted)(definition))
            .map(|definition| definition.resource.clone())
            .collect();
        self.watches.retain(|resource, _| wanted.contains(resource));
        for resource in wanted {
            if !self.watches.contains_key(&resource) {
                self.begin(resource);
            }
        }
        self.waiting.push_back(News::Catalog);
    }

    fn begin(&mut self, resource: Resource) {
        match self.state.store.snapshot_and_watch(&resource, &self.scope) {
            Ok((snapshot, watch)) => {
                self.watches.insert(resource, watch);
                self.waiting.push_back(News::Snapshot(snapshot));
            }
            Err(_) => self.stopped = true,
        }
    }
}
