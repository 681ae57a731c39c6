//! Object ids and UIDs.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;

/// The kind of object that has the conditions of a NetworkPolicy: `settled netpol report` writes it.
pub(crate) const POLICY_REPORT_GROUP: &str = "netpol.settled.dev";
pub(crate) const POLICY_REPORT_KIND: &str = "NetworkPolicyReport";

/// Which object: the identity that kstatus uses, without a version.
///
/// Cheap to clone: thousands are kept, and reports name them again. Serialised with the keys `group`, `kind`, `namespace` and `name`;
/// the empty ones are left out.
///
/// ```
/// use settled_tracker::ObjectId;
/// let id = ObjectId::new("apps", "Deployment", "shop", "web");
/// assert_eq!(id.to_string(), "Deployment/web");
/// assert_eq!(id.full(), "Deployment.apps/web in shop");
/// assert_eq!(&*id.namespace, "shop");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ObjectId(Arc<IdParts>);

/// What an [`ObjectId`] is made of.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct IdParts {
    /// The API group, empty for the core group.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub group: Arc<str>,
    /// The kind, as in a manifest.
    pub kind: Arc<str>,
    /// The namespace, empty for objects of the cluster.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Arc<str>,
    /// The name.
    pub name: Box<str>,
}

impl ObjectId {
    /// An id of these parts.
    #[must_use]
    pub fn new(
        group: impl Into<Arc<str>>,
        kind: impl Into<Arc<str>>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Box<str>>,
    ) -> Self {
        let (group, kind, namespace, name) = (group.into(), kind.into(), namespace.into(), name.into());
        Self(Arc::new(IdParts { group, kind, namespace, name }))
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

impl Deref for ObjectId {
    type Target = IdParts;

    fn deref(&self) -> &IdParts {
        &self.0
    }
}

/// Kind and name: `Deployment/web`.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({})", self.full())
    }
}

/// An object's `metadata.uid`: which incarnation of its name it is.
///
/// ```
/// use settled_tracker::request::Uid;
/// let uid = Uid::from("6f0d2ab1-1f0e-4b3c-9a77-0d9f3f4c2e11");
/// assert_eq!(uid.to_string(), "6f0d2ab1-1f0e-4b3c-9a77-0d9f3f4c2e11");
/// assert_ne!(uid, Uid::from("another"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(UidForm);

/// A UUID, which all servers of today give, takes no memory of its own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum UidForm {
    Uuid([u8; 16]),
    Text(Box<str>),
}

/// Where a UUID has its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(uuid(text).map_or_else(|| UidForm::Text(text.into()), UidForm::Uuid))
    }
}

/// The bytes of a UUID that is written as [`Uid`] writes it.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let text = <&[u8; 36]>::try_from(text.as_bytes()).ok()?;
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut digits =
        text.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at)).map(|(_, byte)| digit(*byte));
    if HYPHENS.iter().any(|at| text.get(*at) != Some(&b'-')) {
        return None;
    }
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.0 {
            UidForm::Uuid(bytes) => bytes,
            UidForm::Text(text) => return f.write_str(text),
        };
        for (number, byte) in bytes.iter().enumerate() {
            if [4, 6, 8, 10].contains(&number) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A UID is printed as the server wrote it, whatever that is.
        #[test]
        fn uids_are_as_they_were(text in prop_oneof![
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[0-9a-fA-F-]{36}",
            ".{0,40}",
        ]) {
            prop_assert_eq!(Uid::from(&*text).to_string(), text);
        }
    }
}
