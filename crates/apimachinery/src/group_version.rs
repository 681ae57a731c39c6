//! `runtime/schema`: groups, versions, kinds and resources, and their text forms.

use std::error::Error;
use std::fmt;

/// `GroupVersion`: the value of `apiVersion`.
///
/// ```
/// use settled_apimachinery::group_version::GroupVersion;
///
/// assert_eq!(GroupVersion::parse("apps/v1"), Ok(GroupVersion { group: "apps", version: "v1" }));
/// assert_eq!(GroupVersion { group: "", version: "v1" }.to_string(), "v1");
/// let error = GroupVersion::parse("a/b/c").unwrap_err();
/// assert_eq!(error.to_string(), "unexpected GroupVersion string: a/b/c");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
}

/// Error of an `apiVersion` with more than one slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseGroupVersionError(String);

impl fmt::Display for ParseGroupVersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unexpected GroupVersion string: {}", self.0)
    }
}

impl Error for ParseGroupVersionError {}

impl<'a> GroupVersion<'a> {
    /// `ParseGroupVersion`.
    ///
    /// # Errors
    /// The text has more than one slash.
    pub fn parse(text: &'a str) -> Result<Self, ParseGroupVersionError> {
        match text.split_once('/') {
            Some(("", "")) => Ok(Self::default()),
            Some((_, version)) if version.contains('/') => Err(ParseGroupVersionError(text.to_owned())),
            Some((group, version)) => Ok(Self { group, version }),
            None => Ok(Self { group: "", version: text }),
        }
    }

    /// `WithKind`.
    pub fn with_kind(self, kind: &'a str) -> GroupVersionKind<'a> {
        GroupVersionKind { group: self.group, version: self.version, kind }
    }
}

impl fmt::Display for GroupVersion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(self.version)
    }
}

/// `GroupVersionKind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind, such as `Deployment`.
    pub kind: &'a str,
}

impl<'a> GroupVersionKind<'a> {
    /// `FromAPIVersionAndKind`.
    pub fn from_api_version_and_kind(api_version: &'a str, kind: &'a str) -> Self {
        GroupVersion::parse(api_version).unwrap_or_default().with_kind(kind)
    }

    /// The first result of `ParseKindArg`: the kind of `Deployment.v1.apps`; `None` without a version.
    pub fn parse_arg(text: &'a str) -> Option<Self> {
        let (kind, version, group) = split_arg(text)?;
        Some(Self { group, version, kind })
    }
}

impl fmt::Display for GroupVersionKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// `GroupVersionResource`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The plural name, such as `deployments`.
    pub resource: &'a str,
}

impl<'a> GroupVersionResource<'a> {
    /// The first result of `ParseResourceArg`: the resource of `deployments.v1.apps`; `None` without a version.
    pub fn parse_arg(text: &'a str) -> Option<Self> {
        let (resource, version, group) = split_arg(text)?;
        Some(Self { group, version, resource })
    }
}

impl fmt::Display for GroupVersionResource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

/// `GroupKind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The kind, such as `Deployment`.
    pub kind: &'a str,
}

impl<'a> GroupKind<'a> {
    /// `ParseGroupKind`: parses `Deployment.apps`.
    pub fn parse(text: &'a str) -> Self {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group, kind }
    }
}

impl fmt::Display for GroupKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_group(self.kind, self.group, f)
    }
}

/// `GroupResource`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The plural name, such as `deployments`.
    pub resource: &'a str,
}

impl<'a> GroupResource<'a> {
    /// `ParseGroupResource`: parses `deployments.apps`.
    pub fn parse(text: &'a str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group, resource }
    }
}

impl fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_group(self.resource, self.group, f)
    }
}

fn write_with_group(name: &str, group: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(name)?;
    if group.is_empty() { Ok(()) } else { write!(f, ".{group}") }
}

/// Formats as `name.version.group`.
fn split_arg(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = text.split_once('.')?;
    let (version, group) = rest.split_once('.')?;
    Some((name, version, group))
}
