//! Behavior of kinds in writes: built-in ones have one row each, where upstream has a strategy in code
//! (`pkg/registry/*/*/strategy.go` of Kubernetes 1.36).

/// How the objects of a kind behave in writes. Upstream has a strategy in code for each kind; most of it is this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behavior {
    /// `metadata.generation` counts changes of the spec.
    pub(crate) generation: bool,
    /// A PUT creates what isn't there.
    pub(crate) create_on_update: bool,
    /// A PUT without a `resourceVersion` overwrites whatever is there.
    pub(crate) unconditional_update: bool,
    /// Deletion takes time: pods.
    pub(crate) graceful: bool,
    /// What happens to dependents if the request does not say.
    pub(crate) dependents: Dependents,
    /// A deletion is answered with the object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// What of `metadata` a write to the status can't change.
    pub(crate) status_update_preserves: StatusUpdatePreserves,
    /// An update checks `metadata` as a create does.
    pub(crate) whole_metadata: bool,
}

/// What happens to dependents if the request does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// They are deleted later.
    Delete,
    /// They stay.
    Orphan,
    /// The kind can't own anything.
    Unsupported,
}

/// What of `metadata` a write to the status can't change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusUpdatePreserves {
    /// Everything: custom resources.
    All,
    /// The labels: Deployments.
    Labels,
    /// The owners: Pods.
    Owners,
    /// Nothing: other built-in kinds.
    Nothing,
}

impl Behavior {
    /// That of custom resources.
    pub(crate) const CUSTOM: Self = Self {
        generation: true,
        create_on_update: false,
        unconditional_update: false,
        graceful: false,
        dependents: Dependents::Delete,
        returns_deleted: false,
        status_update_preserves: StatusUpdatePreserves::All,
        whole_metadata: false,
    };
}

/// What most built-in kinds do.
const PLAIN: Behavior = Behavior {
    generation: false,
    create_on_update: false,
    unconditional_update: true,
    graceful: false,
    dependents: Dependents::Delete,
    returns_deleted: false,
    status_update_preserves: StatusUpdatePreserves::Nothing,
    whole_metadata: false,
};

const COUNTED: Behavior = Behavior { generation: true, ..PLAIN };
const CONDITIONAL: Behavior = Behavior { unconditional_update: false, ..PLAIN };
const COUNTED_CONDITIONAL: Behavior = Behavior { generation: true, ..CONDITIONAL };
const RETURNED: Behavior = Behavior { returns_deleted: true, ..PLAIN };
const UPSERTED: Behavior = Behavior { create_on_update: true, ..PLAIN };

/// The behavior of a built-in kind.
pub(crate) fn builtin(group: &str, plural: &str) -> Behavior {
    let whole_metadata = matches!(
        (group, plural),
        ("", "configmaps" | "secrets" | "serviceaccounts" | "namespaces" | "services" | "limitranges")
            | ("rbac.authorization.k8s.io", _)
    );
    Behavior { whole_metadata, ..row(group, plural) }
}

fn row(group: &str, plural: &str) -> Behavior {
    match (group, plural) {
        ("", "namespaces") => RETURNED,
        ("", "pods") => Behavior {
            generation: true,
            graceful: true,
            returns_deleted: true,
            status_update_preserves: StatusUpdatePreserves::Owners,
            ..PLAIN
        },
        ("", "services") => Behavior { create_on_update: true, ..RETURNED },
        ("", "events") => Behavior { dependents: Dependents::Unsupported, ..UPSERTED },
        ("events.k8s.io", "events") => Behavior { dependents: Dependents::Unsupported, ..UPSERTED },
        ("", "endpoints" | "limitranges") => UPSERTED,
        ("", "podtemplates") => Behavior { generation: true, ..RETURNED },
        ("", "replicationcontrollers") => Behavior { dependents: Dependents::Orphan, ..COUNTED },
        ("", "resourcequotas" | "persistentvolumes" | "persistentvolumeclaims" | "serviceaccounts") => {
            RETURNED
        }
        ("apps", "deployments") => {
            Behavior { status_update_preserves: StatusUpdatePreserves::Labels, ..COUNTED }
        }
        ("apps", "daemonsets" | "replicasets" | "statefulsets") => COUNTED,
        ("batch", "jobs" | "cronjobs") => Behavior { dependents: Dependents::Orphan, ..COUNTED },
        ("discovery.k8s.io", "endpointslices") => COUNTED,
        ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies") => COUNTED,
        ("policy", "poddisruptionbudgets") => COUNTED_CONDITIONAL,
        ("scheduling.k8s.io", "priorityclasses") => COUNTED,
        ("admissionregistration.k8s.io", _) => COUNTED_CONDITIONAL,
        ("coordination.k8s.io", _) => Behavior { create_on_update: true, ..CONDITIONAL },
        ("node.k8s.io", "runtimeclasses") => Behavior { create_on_update: true, ..CONDITIONAL },
        ("rbac.authorization.k8s.io", _) => UPSERTED,
        ("storage.k8s.io", "storageclasses" | "volumeattributesclasses") => RETURNED,
        ("storage.k8s.io", "csidrivers" | "csinodes" | "volumeattachments") => {
            Behavior { returns_deleted: true, ..CONDITIONAL }
        }
        ("storage.k8s.io", _) => CONDITIONAL,
        ("flowcontrol.apiserver.k8s.io", _) => {
            Behavior { status_update_preserves: StatusUpdatePreserves::All, ..COUNTED }
        }
        ("apiextensions.k8s.io", _) => {
            Behavior { status_update_preserves: StatusUpdatePreserves::All, ..COUNTED_CONDITIONAL }
        }
        ("apiregistration.k8s.io", _) => CONDITIONAL,
        ("resource.k8s.io", "deviceclasses" | "resourceslices") => Behavior { generation: true, ..RETURNED },
        ("resource.k8s.io", _) => RETURNED,
        _ => PLAIN,
    }
}
