//! Names of objects, from lists of metadata alone.

use http::Method;
use serde::Deserialize;
use settled_manifest::ListItems;

use crate::cluster::{Cluster, encode};
use crate::error::RequestError;
use crate::exchange::{PARTIAL_LIST, Verb};
use crate::resources::Resource;

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

impl Cluster {
    /// The names of at most `limit` objects: one request, whose answer is metadata where the server can leave out the rest.
    ///
    /// # Errors
    /// As the server says.
    pub async fn names(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        labels: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, RequestError> {
        let mut path = format!("{}?limit={limit}", resource.path(namespace.map(encode).as_deref(), None));
        if let Some(labels) = labels {
            path.push_str("&labelSelector=");
            path.push_str(&encode(labels));
        }
        let list = self.fetch(Verb::List, Method::GET, &path, PARTIAL_LIST, None).await?;
        let mut names = Vec::new();
        let each = |item: &[u8]| {
            names.extend(serde_json::from_slice(item).ok().map(|object: Object| object.metadata.name));
        };
        ListItems::default().push(&list, each).map_err(RequestError::answer)?;
        // A server need not respect the limit.
        names.truncate(limit);
        Ok(names)
    }
}
