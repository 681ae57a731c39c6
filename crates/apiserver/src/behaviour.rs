//! How the built-in kinds behave in writes: one row each, where upstream has a strategy in code
//! (`pkg/registry/*/*/strategy.go` of Kubernetes 1.36).

use crate::model::{Behaviour, Dependents, StatusKeeps};

/// What most built-in kinds do.
const PLAIN: Behaviour = Behaviour {
    generation: false,
    create_on_update: false,
    unconditional_update: true,
    graceful: false,
    dependents: Dependents::Delete,
    returns_deleted: false,
    status_keeps: StatusKeeps::Nothing,
    whole_metadata: false,
};

const COUNTED: Behaviour = Behaviour { generation: true, ..PLAIN };
const CONDITIONAL: Behaviour = Behaviour { unconditional_update: false, ..PLAIN };
const COUNTED_CONDITIONAL: Behaviour = Behaviour { generation: true, ..CONDITIONAL };
const RETURNED: Behaviour = Behaviour { returns_deleted: true, ..PLAIN };
const UPSERTED: Behaviour = Behaviour { create_on_update: true, ..PLAIN };

/// The behaviour of a built-in kind.
pub(crate) fn builtin(group: &str, plural: &str) -> Behaviour {
    let whole_metadata = matches!(
        (group, plural),
        ("", "configmaps" | "secrets" | "serviceaccounts" | "namespaces" | "services" | "limitranges")
            | ("rbac.authorization.k8s.io", _)
    );
    Behaviour { whole_metadata, ..row(group, plural) }
}

fn row(group: &str, plural: &str) -> Behaviour {
    match (group, plural) {
        ("", "namespaces") => RETURNED,
        ("", "pods") => Behaviour {
            generation: true,
            graceful: true,
            returns_deleted: true,
            status_keeps: StatusKeeps::Owners,
            ..PLAIN
        },
        ("", "services") => Behaviour { create_on_update: true, ..RETURNED },
        ("", "events") => Behaviour { dependents: Dependents::Unsupported, ..UPSERTED },
        ("events.k8s.io", "events") => Behaviour { dependents: Dependents::Unsupported, ..UPSERTED },
        ("", "endpoints" | "limitranges") => UPSERTED,
        ("", "podtemplates") => Behaviour { generation: true, ..RETURNED },
        ("", "replicationcontrollers") => Behaviour { dependents: Dependents::Orphan, ..COUNTED },
        ("", "resourcequotas" | "persistentvolumes" | "persistentvolumeclaims" | "serviceaccounts") => {
            RETURNED
        }
        ("apps", "deployments") => Behaviour { status_keeps: StatusKeeps::Labels, ..COUNTED },
        ("apps", "daemonsets" | "replicasets" | "statefulsets") => COUNTED,
        ("batch", "jobs" | "cronjobs") => Behaviour { dependents: Dependents::Orphan, ..COUNTED },
        ("discovery.k8s.io", "endpointslices") => COUNTED,
        ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies") => COUNTED,
        ("policy", "poddisruptionbudgets") => COUNTED_CONDITIONAL,
        ("scheduling.k8s.io", "priorityclasses") => COUNTED,
        ("admissionregistration.k8s.io", _) => COUNTED_CONDITIONAL,
        ("coordination.k8s.io", _) => Behaviour { create_on_update: true, ..CONDITIONAL },
        ("node.k8s.io", "runtimeclasses") => Behaviour { create_on_update: true, ..CONDITIONAL },
        ("rbac.authorization.k8s.io", _) => UPSERTED,
        ("storage.k8s.io", "storageclasses" | "volumeattributesclasses") => RETURNED,
        ("storage.k8s.io", "csidrivers" | "csinodes" | "volumeattachments") => {
            Behaviour { returns_deleted: true, ..CONDITIONAL }
        }
        ("storage.k8s.io", _) => CONDITIONAL,
        ("flowcontrol.apiserver.k8s.io", _) => Behaviour { status_keeps: StatusKeeps::All, ..COUNTED },
        ("apiextensions.k8s.io", _) => Behaviour { status_keeps: StatusKeeps::All, ..COUNTED_CONDITIONAL },
        ("apiregistration.k8s.io", _) => CONDITIONAL,
        ("resource.k8s.io", "deviceclasses" | "resourceslices") => Behaviour { generation: true, ..RETURNED },
        ("resource.k8s.io", _) => RETURNED,
        _ => PLAIN,
    }
}
