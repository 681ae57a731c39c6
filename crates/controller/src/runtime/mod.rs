//! kube-rs' `runtime`, with a `Controller`, a reflector and a `Store` of this crate: code written for those of kube-rs runs with other
//! imports.
//!
//! ```diff
//! -use kube::runtime::{WatchStreamExt, controller::{Action, Controller}, reflector, watcher};
//! +use settled_controller::runtime::{WatchStreamExt, controller::{Action, Controller}, reflector, watcher};
//! ```
//!
//! Everything else of the module is kube-rs' own. The [`Store`](reflector::Store) is read like a [`Cache`](crate::Cache): it has
//! [`changes`](crate::Cache::changes), [`metrics`](crate::Cache::metrics) and a position for a [`Fence`](crate::Fence),
//! too. Objects are typed, partial (`PartialObjectMeta`) or dynamic, as the watcher has them. What a
//! [`FilteredClient`](crate::FilteredClient) drops is neither parsed nor stored.
//!
//! A [`Controller`] runs on a [`Cache`](crate::Cache) of its own, or on [a given one](Controller::for_cache) with predicates, a projection and
//! indexes. `reflect_shared` needs the store of kube-rs: that is `kube::runtime::reflector::store_shared`, as before.

use futures::{Stream, StreamExt as _, TryStream};
use kube::runtime;
pub use kube::runtime::*;

pub mod controller;

use crate::cache::Writer;
pub use controller::Controller;
pub use reflector::reflector;

type Watched<K> = watcher::Result<watcher::Event<K>>;

/// As [`kube::runtime::WatchStreamExt`]; [`reflect`](WatchStreamExt::reflect) fills a [`Cache`](crate::Cache).
pub trait WatchStreamExt: Stream {
    /// Retries with kube-rs' default backoff.
    fn default_backoff(self) -> utils::StreamBackoff<Self, watcher::DefaultBackoff>
    where
        Self: TryStream + Sized,
    {
        runtime::WatchStreamExt::default_backoff(self)
    }

    /// Retries with a backoff.
    fn backoff<B>(self, backoff: B) -> utils::StreamBackoff<Self, B>
    where
        B: utils::Backoff,
        Self: TryStream + Sized,
    {
        runtime::WatchStreamExt::backoff(self, backoff)
    }

    /// The objects that exist.
    fn applied_objects<K>(self) -> utils::EventDecode<Self>
    where
        Self: Stream<Item = Watched<K>> + Sized,
    {
        runtime::WatchStreamExt::applied_objects(self)
    }

    /// The objects that exist or were deleted.
    fn touched_objects<K>(self) -> utils::EventDecode<Self>
    where
        Self: Stream<Item = Watched<K>> + Sized,
    {
        runtime::WatchStreamExt::touched_objects(self)
    }

    /// Changes each object before it is stored.
    fn modify<F, K>(self, change: F) -> utils::EventModify<Self, F>
    where
        Self: Stream<Item = Watched<K>> + Sized,
        F: FnMut(&mut K),
    {
        runtime::WatchStreamExt::modify(self, change)
    }

    /// Drops objects for which a predicate of kube-rs has the same value as before.
    fn predicate_filter<K, P>(
        self,
        predicate: P,
        config: PredicateConfig,
    ) -> utils::PredicateFilter<Self, K, P>
    where
        Self: Stream<Item = watcher::Result<K>> + Sized,
        K: kube::Resource + 'static,
        P: Predicate<K> + 'static,
    {
        runtime::WatchStreamExt::predicate_filter(self, predicate, config)
    }

    /// Stores what passes.
    fn reflect<K>(self, mut writer: Writer<K>) -> impl Stream<Item = Self::Item>
    where
        Self: Stream<Item = Watched<K>> + Sized,
        K: kube::Resource + Clone + 'static,
        K::DynamicType: Eq + std::hash::Hash + Clone,
    {
        self.inspect(move |event| {
            if let Ok(event) = event {
                writer.apply_watcher_event(event);
            }
        })
    }
}

impl<S: Stream + ?Sized> WatchStreamExt for S {}

/// As [`kube::runtime::reflector`](mod@kube::runtime::reflector), with a [`Cache`](crate::Cache) for a store.
pub mod reflector {
    use std::hash::Hash;

    use futures::Stream;
    pub use kube::runtime::reflector::{Lookup, ObjectRef, ObjectRefExtra};

    use super::{WatchStreamExt as _, Watched};
    pub use crate::cache::Reader as Store;
    pub use store::store;

    /// Stores what a watcher reports, and passes it on.
    pub fn reflector<K, S>(writer: store::Writer<K>, stream: S) -> impl Stream<Item = S::Item>
    where
        K: kube::Resource + Clone + 'static,
        K::DynamicType: Eq + Hash + Clone,
        S: Stream<Item = Watched<K>>,
    {
        stream.reflect(writer)
    }

    /// Store and writer.
    pub mod store {
        use std::hash::Hash;

        use super::Lookup;
        pub use crate::cache::{CacheClosed as WriterDropped, Reader as Store, Writer};

        /// A store, and what fills it.
        #[must_use]
        pub fn store<K>() -> (Store<K>, Writer<K>)
        where
            K: Lookup + Clone + 'static,
            K::DynamicType: Eq + Hash + Clone + Default,
        {
            let writer = Writer::default();
            (writer.as_reader(), writer)
        }
    }
}
