//! Finalizers: added before the first side effect, removed after the last one is undone.
//!
//! Both writes have the UID and resourceVersion that were read, so a recreated object of the same name is not modified.
//! They change only `metadata.finalizers`, and after conflicts the object is read again.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, ResourceExt, api::PostParams};
//! use settled_controller::finalizer::{self, Change};
//!
//! let server = settled_apiserver::Server::in_memory().await?;
//! let api: Api<ConfigMap> = Api::default_namespaced(server.client());
//! let object = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}}))?;
//! let object = api.create(&PostParams::default(), &object).await?;
//!
//! let Change::Written(object) = finalizer::add(&api, &object, "example.com/cleanup").await? else { panic!() };
//! assert_eq!(object.finalizers(), ["example.com/cleanup"]);
//! assert!(matches!(finalizer::add(&api, &object, "example.com/cleanup").await?, Change::Unchanged));
//! # Ok(())
//! # }
//! ```

use std::fmt::Debug;

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Maximum attempts after conflicts.
const MAX_ATTEMPTS: u32 = 5;

/// Outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<K> {
    /// Written, with the resulting object.
    Written(K),
    /// No write was necessary.
    Unchanged,
    /// The object no longer exists; another one may have its name.
    Gone,
}

/// Error of writing a finalizer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object has no name or UID: it was not read from a server.
    #[error("the object was not read from a server: it has no name or no UID")]
    NotStored,
    /// The object is being deleted, and so the server rejects new finalizers.
    #[error("cannot add the finalizer {finalizer:?}: the object is being deleted")]
    Deleting {
        /// The finalizer.
        finalizer: String,
    },
    /// Each attempt had a conflict.
    #[error(
        "cannot write the finalizer {finalizer:?}: the object was modified by others {MAX_ATTEMPTS} times in a row"
    )]
    Contended {
        /// The finalizer.
        finalizer: String,
    },
    /// The request failed.
    #[error("cannot write the finalizer {finalizer:?}")]
    Request {
        /// The finalizer.
        finalizer: String,
        /// The error.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Adds a finalizer, unless the object has it. Call it before the first side effect, and continue with the returned
/// object.
///
/// # Errors
/// See [`Error`].
pub async fn add<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<Change<K>, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    write(api, object, finalizer, |finalizers, deleting| {
        if finalizers.iter().any(|name| name == finalizer) {
            return Ok(false);
        }
        if deleting {
            return Err(Error::Deleting { finalizer: finalizer.to_owned() });
        }
        finalizers.push(finalizer.to_owned());
        Ok(true)
    })
    .await
}

/// Removes a finalizer, if the object has it. Succeeds if the object no longer exists or has no such finalizer.
///
/// # Errors
/// See [`Error`].
pub async fn remove<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<Change<K>, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    write(api, object, finalizer, |finalizers, _| {
        let count = finalizers.len();
        finalizers.retain(|name| name != finalizer);
        Ok(finalizers.len() != count)
    })
    .await
}

async fn write<K>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
    change: impl Fn(&mut Vec<String>, bool) -> Result<bool, Error>,
) -> Result<Change<K>, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let (Some(name), Some(uid)) = (object.meta().name.as_deref(), object.uid()) else {
        return Err(Error::NotStored);
    };
    let failed = |source| Error::Request { finalizer: finalizer.to_owned(), source: Box::new(source) };
    let mut newer = None;
    for _ in 0..MAX_ATTEMPTS {
        let current = newer.as_ref().unwrap_or(object);
        let mut finalizers = current.finalizers().to_vec();
        if !change(&mut finalizers, current.meta().deletion_timestamp.is_some())? {
            return Ok(Change::Unchanged);
        }
        // The server compares both; without a resourceVersion (as in objects of some caches) only the UID.
        let patch = json!({"metadata": {"uid": uid, "resourceVersion": current.resource_version(), "finalizers": finalizers}});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(object) => return Ok(Change::Written(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Change::Gone),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                match api.get_opt(name).await.map_err(failed)? {
                    Some(object) if object.uid().as_deref() == Some(uid.as_str()) => newer = Some(object),
                    _ => return Ok(Change::Gone),
                }
            }
            Err(source) => return Err(failed(source)),
        }
    }
    Err(Error::Contended { finalizer: finalizer.to_owned() })
}
