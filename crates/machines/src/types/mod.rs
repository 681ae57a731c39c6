//! API types of the group `cluster.settled.dev`, version `v1alpha1`: one file for each kind.

#![allow(
    clippy::duplicated_attributes,
    reason = "printer columns of the same type, in the attributes of kube"
)]

mod cluster;
mod common;
mod health_check;
mod host;
mod machine;
mod machine_class;
mod machine_deployment;
mod machine_set;
mod schemas;

pub use cluster::*;
pub use common::*;
pub use health_check::*;
pub use host::*;
pub use machine::*;
pub use machine_class::*;
pub use machine_deployment::*;
pub use machine_set::*;

/// The API group.
pub const GROUP: &str = "cluster.settled.dev";
/// The version.
pub const VERSION: &str = "v1alpha1";
/// Keeps an object until what belongs to it outside of the API server is gone.
pub const FINALIZER: &str = "cluster.settled.dev/machine";
/// Keeps a Cluster until its Machines are gone.
pub const CLUSTER_FINALIZER: &str = "cluster.settled.dev/cluster";
/// Label of Machines and Nodes: the name of their Cluster.
pub const CLUSTER_LABEL: &str = "cluster.settled.dev/cluster-name";
/// Label of MachineSets and Machines: the MachineDeployment that they come from.
pub const DEPLOYMENT_LABEL: &str = "cluster.settled.dev/deployment-name";
/// Label of MachineSets and their Machines: the hash of the template.
pub const TEMPLATE_HASH_LABEL: &str = "cluster.settled.dev/template-hash";
/// Annotation of MachineSets: the revision of their MachineDeployment.
pub const REVISION_ANNOTATION: &str = "cluster.settled.dev/revision";
/// Annotation of Nodes: `namespace/name` of their Machine.
pub const MACHINE_ANNOTATION: &str = "cluster.settled.dev/machine";
/// Annotation of Machines: this one is deleted first when its MachineSet shrinks. The stock autoscaler sets it.
pub const DELETE_ANNOTATION: &str = "cluster.settled.dev/delete-machine";
/// Annotation of Machines that were moved from another API server: the UID by which their provider knows the host.
pub const HOST_UID_ANNOTATION: &str = "cluster.settled.dev/host-uid";
/// Annotation of Clusters that are being moved: where from, by the UID of the Cluster there.
pub const MOVE_ANNOTATION: &str = "cluster.settled.dev/move";
/// What follows the name of a Cluster in the name of the Secret with its kubeconfig.
pub const KUBECONFIG_SECRET_SUFFIX: &str = "-kubeconfig";
/// Key of the kubeconfig in that Secret.
pub const KUBECONFIG_KEY: &str = "value";
/// Reason of `Reconciling` while a provider fails, and is asked again.
pub const PROVIDER_FAILED: &str = "ProviderFailed";
/// Annotation: the controllers leave the object alone.
pub const PAUSED_ANNOTATION: &str = "cluster.settled.dev/paused";
/// Annotation of MachineSets: no Machine is created in place of one that is deleted.
pub const NO_CREATE_ANNOTATION: &str = "cluster.settled.dev/disable-machine-create";

/// Name of the Secret with the kubeconfig of a Cluster, in its namespace. It has the label [`CLUSTER_LABEL`], and the kubeconfig in the key
/// [`KUBECONFIG_KEY`]. With it, the Nodes of the Cluster are those of the API server that it names.
#[must_use]
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}{KUBECONFIG_SECRET_SUFFIX}")
}
