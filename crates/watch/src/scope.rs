//! The objects that a stream is about.

use std::sync::Arc;

use tracing::Span;

use crate::resources::Resource;

/// Which objects a stream is about.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Their kind.
    pub resource: Arc<Resource>,
    /// None is all namespaces, or a kind of the cluster.
    pub namespace: Option<Box<str>>,
    /// A label selector.
    pub labels: Option<Box<str>>,
    /// A field selector.
    pub fields: Option<Box<str>>,
    /// Metadata is enough.
    pub metadata: bool,
}

impl Scope {
    /// The objects of a kind, in a namespace or everywhere.
    #[must_use]
    pub fn new(resource: &Arc<Resource>, namespace: Option<&str>) -> Self {
        Self {
            resource: Arc::clone(resource),
            namespace: namespace.map(Into::into),
            labels: None,
            fields: None,
            metadata: false,
        }
    }

    /// Only the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.fields = Some(format!("metadata.name={name}").into());
        self
    }

    /// What it is about, for people: `pods in shop`.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = self.resource.qualified();
        if let Some(namespace) = &self.namespace {
            text.push_str(" in ");
            text.push_str(namespace);
        } else if self.resource.namespaced {
            text.push_str(" in all namespaces");
        }
        text
    }

    /// The span of a stream, with the level of the most urgent event in it.
    pub(crate) fn span(&self) -> Span {
        tracing::warn_span!(
            "stream",
            resource = self.resource.qualified(),
            namespace = self.namespace.as_deref(),
            labels = self.labels.as_deref(),
            fields = self.fields.as_deref(),
        )
    }
}
