//! Identity: authenticates and authorizes requests with the tokens and policies of a running server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use http::header::{self, HeaderMap};
use serde_json::Value;
use settled_store::{Entry, Resource, Revision, Scope, Store, Watch};

use crate::auth::{self, Attributes, Impersonation, PolicyKind, Rbac, Tokens, User};
use crate::error::ApiError;
use crate::kinds::names::stored_as;
use crate::request::RequestInfo;

/// The group of roles and bindings.
pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Identities and policies.
pub(crate) struct Identity {
    tokens: Tokens,
    impersonation: Impersonation,
    /// Shared with the servers that were forked from this one, until they differ.
    rbac: RwLock<Arc<Rbac>>,
    followers: Mutex<Vec<Follower>>,
    /// The revision of the store up to which the policies are known.
    seen: AtomicU64,
    store: Store,
}

struct Follower {
    kind: PolicyKind,
    watch: Option<Watch>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a request asks to be allowed.
fn attributes(info: &RequestInfo) -> Attributes<'_> {
    if !info.is_resource {
        return Attributes { verb: info.verb, path: Some(&info.path), ..Attributes::default() };
    }
    Attributes {
        verb: info.verb,
        api_group: &info.group,
        api_version: &info.version,
        resource: &info.resource,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: &info.name,
        path: None,
    }
}

impl Identity {
    pub(crate) fn new(store: Store, tokens: Tokens) -> Self {
        let followers = PolicyKind::ALL.into_iter().map(|kind| Follower { kind, watch: None }).collect();
        Self {
            tokens,
            impersonation: Impersonation::default(),
            rbac: RwLock::default(),
            followers: Mutex::new(followers),
            seen: AtomicU64::new(0),
            store,
        }
    }

    /// Takes over the policies of a server with the same objects.
    pub(crate) fn adopt(&self, policies: &Arc<Rbac>) {
        let mut followers = lock(&self.followers);
        let revision = self.store.current_revision().0;
        for follower in followers.iter_mut() {
            let Ok(resource) = stored_as(RBAC_GROUP, follower.kind.resource()) else { return };
            follower.watch = self.store.watch(&resource, &Scope::All, Some(Revision(revision))).ok();
        }
        *self.rbac.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(policies);
        self.seen.store(revision, Ordering::Release);
    }

    /// Whether the policies are still those of a revision.
    pub(crate) fn is_unchanged_since(&self, revision: Revision) -> bool {
        let policies = PolicyKind::ALL.map(|kind| stored_as(RBAC_GROUP, kind.resource()).ok());
        let is_policy = |resource: &Resource| policies.iter().flatten().any(|policy| policy == resource);
        let events = self.store.events_after(revision);
        events.is_ok_and(|events| !events.iter().any(|event| is_policy(event.key().resource())))
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The policies as they are: whatever was acknowledged before counts.
    pub(crate) fn rbac(&self) -> RwLockReadGuard<'_, Arc<Rbac>> {
        self.catch_up();
        self.rbac.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn catch_up(&self) {
        let revision = self.store.current_revision().0;
        if self.seen.load(Ordering::Acquire) == revision {
            return;
        }
        let mut followers = lock(&self.followers);
        if !followers.iter_mut().all(|follower| follower.catch_up(&self.rbac)) {
            // The first time, or too slow: read everything anew.
            let mut rbac = Rbac::default();
            for follower in followers.iter_mut() {
                follower.begin(&self.store, &mut rbac);
            }
            *self.rbac.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rbac);
        }
        self.seen.store(revision, Ordering::Release);
    }

    /// Whom a request is from, and whom it is to be taken for, if it may.
    pub(crate) fn admit(
        &self,
        certificate: Option<User>,
        headers: &HeaderMap,
        info: &RequestInfo,
    ) -> Result<User, ApiError> {
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let user = auth::authenticate(certificate, authorization, &self.tokens)?;
        let attributes = attributes(info);
        let rbac = self.rbac();
        let user = self.impersonation.effective(&rbac, &user, &attributes, headers)?.unwrap_or(user);
        if !info.is_resource && auth::anonymous_allowed(&info.path) {
            return Ok(user);
        }
        rbac.require(&user, &attributes)?;
        Ok(user)
    }
}

impl Follower {
    /// Reads what has happened. False: there is a gap.
    fn catch_up(&mut self, rbac: &RwLock<Arc<Rbac>>) -> bool {
        loop {
            let Some(watch) = &mut self.watch else { return false };
            match watch.try_recv() {
                Ok(None) => return true,
                Ok(Some(event)) => {
                    let key = event.key();
                    let mut rbac = rbac.write().unwrap_or_else(PoisonError::into_inner);
                    let rbac = Arc::make_mut(&mut rbac);
                    match event.entry() {
                        Some(entry) => rbac.put(self.kind, key.namespace(), key.name(), &parse(entry)),
                        None => rbac.remove(self.kind, key.namespace(), key.name()),
                    }
                }
                Err(_) => return false,
            }
        }
    }

    fn begin(&mut self, store: &Store, rbac: &mut Rbac) {
        self.watch = None;
        let Ok(resource) = stored_as(RBAC_GROUP, self.kind.resource()) else { return };
        let Ok((snapshot, watch)) = store.snapshot_and_watch(&resource, &Scope::All) else { return };
        for entry in snapshot.iter(&Scope::All) {
            rbac.put(self.kind, entry.key().namespace(), entry.key().name(), &parse(entry));
        }
        self.watch = Some(watch);
    }
}

fn parse(entry: &Entry) -> Value {
    serde_json::from_slice(entry.value()).unwrap_or_default()
}
