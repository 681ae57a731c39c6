//! Keys: resource, namespace and name.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Reason why a key is invalid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A part is empty.
    #[error("the {part} is empty")]
    Empty {
        /// The empty part.
        part: &'static str,
    },
    /// A part is too long.
    #[error("the {part} has {size} bytes; at most {limit} are allowed")]
    TooLong {
        /// The part that is too long.
        part: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A character that would break the order of keys.
    #[error("the {part} contains {character:?}, which is not allowed")]
    Character {
        /// The part that contains it.
        part: &'static str,
        /// The character.
        character: char,
    },
}

/// Version of the whole store. It only increases; each write has its own.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Objects that are listed and watched together, such as `apps/deployments`. Clones share the text.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Resource(Arc<str>);

impl Resource {
    /// Maximum length of a resource, in bytes.
    pub const MAX: usize = 512;

    /// Creates a resource. Its text has no meaning for the store.
    ///
    /// # Errors
    ///
    /// The text is empty, longer than [`Resource::MAX`], or contains NUL.
    ///
    /// ```
    /// use settled_store::Resource;
    ///
    /// assert_eq!(Resource::new("apps/deployments")?.as_str(), "apps/deployments");
    /// # Ok::<(), settled_store::KeyError>(())
    /// ```
    pub fn new(text: &str) -> Result<Self, KeyError> {
        check("resource", text, Self::MAX, false)?;
        Ok(Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Resource, optional namespace, and name. Clones share the text.
///
/// Within a resource, keys are ordered by their [path](Key::path), the order of etcd's keys: `a-b/x` precedes `a/x`.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Key {
    resource: Resource,
    path: Arc<str>,
}

impl Key {
    /// Maximum length of namespaces and names, in bytes.
    pub const MAX: usize = 2048;

    /// Creates a key. `namespace` is empty for cluster-scoped objects.
    ///
    /// # Errors
    ///
    /// The name is empty; the namespace or the name is longer than [`Key::MAX`], or contains `/` or NUL.
    ///
    /// ```
    /// use settled_store::{Key, Resource};
    ///
    /// let key = Key::new(&Resource::new("configmaps")?, "shop", "prices")?;
    /// assert_eq!((key.namespace(), key.name(), key.path()), ("shop", "prices", "shop/prices"));
    ///
    /// let key = Key::new(&Resource::new("nodes")?, "", "worker-1")?;
    /// assert_eq!((key.namespace(), key.name(), key.path()), ("", "worker-1", "worker-1"));
    /// # Ok::<(), settled_store::KeyError>(())
    /// ```
    pub fn new(resource: &Resource, namespace: &str, name: &str) -> Result<Self, KeyError> {
        if !namespace.is_empty() {
            check("namespace", namespace, Self::MAX, true)?;
        }
        check("name", name, Self::MAX, true)?;
        Ok(Self { resource: resource.clone(), path: join(namespace, name).into() })
    }

    /// Decodes a stored key.
    pub(crate) fn from_path(resource: &Resource, path: &str) -> Result<Self, KeyError> {
        match path.split_once('/') {
            Some(("", _)) => Err(KeyError::Empty { part: "namespace" }),
            Some((namespace, name)) => Self::new(resource, namespace, name),
            None => Self::new(resource, "", path),
        }
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The namespace, empty if there is none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.path.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or(&*self.path, |(_, name)| name)
    }

    /// `namespace/name`, or the name alone: the sort key of objects.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same key with a resource that shares its text.
    pub(crate) fn with_resource(&self, resource: &Resource) -> Self {
        Self { resource: resource.clone(), path: self.path.clone() }
    }

    /// Size of the key on disk in bytes.
    pub(crate) fn len(&self) -> usize {
        self.resource.0.len() + self.path.len()
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.resource, &self.path).cmp(&(&other.resource, &other.path))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource.0, self.path)
    }
}

/// Selection of objects of a resource.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Scope {
    /// All objects.
    #[default]
    All,
    /// Objects of one namespace.
    Namespace(String),
    /// The object with this namespace (empty if cluster-scoped) and name.
    Object {
        /// The namespace, or empty.
        namespace: String,
        /// The name.
        name: String,
    },
}

impl Scope {
    /// Whether the scope contains the key.
    ///
    /// ```
    /// use settled_store::{Key, Resource, Scope};
    ///
    /// let key = Key::new(&Resource::new("configmaps")?, "shop", "prices")?;
    /// assert!(Scope::Namespace("shop".to_owned()).holds(&key));
    /// assert!(!Scope::Namespace("sho".to_owned()).holds(&key));
    /// # Ok::<(), settled_store::KeyError>(())
    /// ```
    #[must_use]
    pub fn holds(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => key.namespace() == namespace,
            Self::Object { namespace, name } => key.namespace() == namespace && key.name() == name,
        }
    }

    /// Range of the scope's paths: start, and exclusive end, if any.
    pub(crate) fn paths(&self) -> (String, Option<String>) {
        match self {
            Self::All => (String::new(), None),
            // The character after `/`.
            Self::Namespace(namespace) => (format!("{namespace}/"), Some(format!("{namespace}0"))),
            Self::Object { namespace, name } => {
                let path = join(namespace, name);
                let end = format!("{path}\0");
                (path, Some(end))
            }
        }
    }
}

pub(crate) fn join(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn check(part: &'static str, text: &str, limit: usize, segment: bool) -> Result<(), KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty { part });
    }
    if text.len() > limit {
        return Err(KeyError::TooLong { part, size: text.len(), limit });
    }
    match text.chars().find(|&c| c == '\0' || (segment && c == '/')) {
        Some(character) => Err(KeyError::Character { part, character }),
        None => Ok(()),
    }
}
