//! Names of resources, versions and subresources.

use settled_store::Resource;

/// The group of CertificateSigningRequests.
pub(crate) const SIGNING_REQUESTS_GROUP: &str = "certificates.k8s.io";
/// The resource of CertificateSigningRequests.
pub(crate) const SIGNING_REQUESTS: &str = "certificatesigningrequests";

/// What can be done with a subresource that is a part of its object.
pub(crate) const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A part of a resource that is read or written on its own.
#[derive(Clone, Debug)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    /// The kind that is written and read there.
    pub(crate) kind: String,
    /// The group and version of that kind, if they aren't the resource's own.
    pub(crate) group_version: Option<(String, String)>,
    pub(crate) verbs: Vec<&'static str>,
}

impl Subresource {
    /// The subresource `status` of a kind.
    pub(crate) fn status(kind: &str) -> Self {
        Self {
            name: Part::Status.subresource().to_owned(),
            kind: kind.to_owned(),
            group_version: None,
            verbs: PART_VERBS.to_vec(),
        }
    }
}

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    Scale,
    /// What keeps a namespace from going.
    Finalize,
    /// The ephemeral containers of a running Pod.
    Ephemeral,
    /// What the containers of a pod may use.
    Resize,
    /// Whether a CertificateSigningRequest is approved.
    Approval,
}

impl Part {
    /// The subresource that the part is read and written by. Empty: the resource itself.
    pub(crate) const fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Ephemeral => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Approval => "approval",
        }
    }

    /// The part that a subresource reads and writes.
    pub(crate) fn of_subresource(subresource: &str) -> Option<Self> {
        const ALL: [Part; 7] = [
            Part::Main,
            Part::Status,
            Part::Scale,
            Part::Finalize,
            Part::Ephemeral,
            Part::Resize,
            Part::Approval,
        ];
        ALL.into_iter().find(|part| part.subresource() == subresource)
    }
}

/// What a kind is called, in one version.
pub(crate) struct Names {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
}

/// What a resource is called in the store. Events are one resource in two groups.
pub(crate) fn stored_as(group: &str, plural: &str) -> Result<Resource, settled_store::KeyError> {
    match (group, plural) {
        ("", _) | ("events.k8s.io", "events") => Resource::new(plural),
        _ => Resource::new(&format!("{group}/{plural}")),
    }
}

/// `v1` or `apps/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Where upstream has the types of a built-in group that it works with.
pub(crate) fn go_package(group: &str) -> &str {
    match group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        first => first,
    }
}

/// Sorts versions as Kubernetes does: stable before beta before alpha, newer first, anything else last by name
/// (`apimachinery/pkg/version`).
pub(crate) fn version_rank(version: &str) -> (u8, std::cmp::Reverse<u64>, std::cmp::Reverse<u64>, String) {
    use std::cmp::Reverse;
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with(['0', '+']));
    let other = (3, Reverse(0), Reverse(0), version.to_owned());
    let Some(rest) = version.strip_prefix('v') else { return other };
    let (stage, major, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
        (2, major, minor)
    } else if let Some((major, minor)) = rest.split_once("beta") {
        (1, major, minor)
    } else {
        (0, rest, "1")
    };
    match (number(major), number(minor)) {
        (Some(major), Some(minor)) => (stage, Reverse(major), Reverse(minor), String::new()),
        _ => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_sorted_as_upstream_does() {
        let sorted =
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        let mut versions = sorted.to_vec();
        versions.reverse();
        versions.sort_by_cached_key(|version| version_rank(version));
        assert_eq!(versions, sorted);
    }
}
