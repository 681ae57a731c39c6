//! Built-in kinds as data: names, schemas, defaults. What data can't say of a kind is in its file, see `kinds::strategies`.
//!
//! Everything but [`defaults.yaml`](../../../data/defaults.yaml) and [`additions.yaml`](../../../data/additions.yaml) is written by
//! `cargo xtask generate builtins` from what Kubernetes publishes; `data/README.md` says which version and how to take the next one.
//! Nothing is unpacked before it is asked for: the table of kinds is constant data.

mod additions;
mod convert;
mod decode;
mod defaults;
mod packages;
mod plan;
mod protobuf;
mod steps;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use convert::{convert, stored_as};
pub(crate) use decode::{Decoded, decode, decode_component, decode_map};
pub(crate) use defaults::{default, set_zero_values};
pub(crate) use packages::{bootstrap_rbac, components, document, packed, schemas, schemas_of};
pub(crate) use protobuf::{Envelope, component_of, decode_message};
pub(crate) use wire::{Depth, Malformed};

/// A kind of one group version, as discovery shows it.
#[derive(Debug)]
pub(crate) struct BuiltinKind {
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) list_kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    /// Sorted. Reviews and bindings have `create` only.
    pub(crate) verbs: &'static [&'static str],
    /// Empty for what is not stored.
    pub(crate) storage_version_hash: &'static str,
    /// The name of the kind's schema in the OpenAPI documents.
    pub(crate) schema_name: &'static str,
    /// Without those that reach into running containers and nodes (exec, log, proxy and so on).
    pub(crate) subresources: &'static [Subresource],
}

/// A subresource of a kind, as discovery shows it.
#[derive(Debug)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    /// The group, version and kind of what is sent and answered: Scale has its own.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) verbs: &'static [&'static str],
}

/// The component of the kind of the subresource `scale`.
pub(crate) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

static KINDS: &[BuiltinKind] = include!("../../../data/kinds.rs");

/// All kinds: groups in the order of `/apis`, versions by preference, resources by name.
pub(crate) fn kinds() -> &'static [BuiltinKind] {
    KINDS
}

/// Is there a group of this name? What is missing in it is missed by that group, and answered with a Status.
pub(crate) fn has_group(group: &str) -> bool {
    KINDS.iter().any(|row| row.group == group)
}

/// The kind of a group version, by its kind's name.
pub(crate) fn find(group: &str, version: &str, kind: &str) -> Option<&'static BuiltinKind> {
    KINDS.iter().find(|row| row.group == group && row.version == version && row.kind == kind)
}

/// Does upstream's scheme know a kind that is none of [`kinds`]? Lists, and what each group version has for requests and answers.
pub(crate) fn is_registered(group: &str, version: &str, kind: &str) -> bool {
    const ANSWERS: [&str; 5] = ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];
    const REQUESTS: [&str; 7] = [
        "CreateOptions",
        "DeleteOptions",
        "GetOptions",
        "ListOptions",
        "PatchOptions",
        "UpdateOptions",
        "WatchEvent",
    ];
    let mut rows = KINDS.iter().filter(|row| row.group == group && row.version == version).peekable();
    let known = rows.peek().is_some();
    group.is_empty() && version == "v1" && ANSWERS.contains(&kind)
        || known && REQUESTS.contains(&kind)
        || rows.any(|row| row.list_kind == kind)
}

impl BuiltinKind {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether there is a subresource of this name.
    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|subresource| subresource.name == name)
    }
}
