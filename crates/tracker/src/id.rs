//! Which object.

use std::fmt;

use serde::Serialize;

/// Which object: the identity that kstatus uses, without a version.
///
/// Serialised with the keys `group`, `kind`, `namespace` and `name`; the empty ones are left out.
///
/// ```
/// use settled_tracker::ObjectId;
/// let id = ObjectId::new("apps", "Deployment", "shop", "web");
/// assert_eq!(id.to_string(), "Deployment/web");
/// assert_eq!(id.full(), "Deployment.apps/web in shop");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ObjectId {
    /// The API group, empty for the core group.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub group: Box<str>,
    /// The kind, as in a manifest.
    pub kind: Box<str>,
    /// The namespace, empty for objects of the cluster.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl ObjectId {
    /// An id of these parts.
    #[must_use]
    pub fn new(
        group: impl Into<Box<str>>,
        kind: impl Into<Box<str>>,
        namespace: impl Into<Box<str>>,
        name: impl Into<Box<str>>,
    ) -> Self {
        Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    /// Whether the object is of this group and kind.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        &*self.group == group && &*self.kind == kind
    }

    /// The id with group and namespace: `Deployment.apps/web in shop`.
    #[must_use]
    pub fn full(&self) -> String {
        let mut text = self.kind.to_string();
        if !self.group.is_empty() {
            text.push('.');
            text.push_str(&self.group);
        }
        text.push('/');
        text.push_str(&self.name);
        if !self.namespace.is_empty() {
            text.push_str(" in ");
            text.push_str(&self.namespace);
        }
        text
    }
}

/// Kind and name: `Deployment/web`.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}
