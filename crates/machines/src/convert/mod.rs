//! Conversions: manifests of `cluster.k8s.io/v1alpha1` and of kubeadm, exports, and Machines for Nodes that exist already. Pure.

mod adopt;
mod export;
mod kubeadm;
mod rest;
mod v1alpha1;

pub use adopt::{AdoptOptions, Adopted, adopt};
pub use export::{Export, export, restorable};
pub use kubeadm::{KubeadmImport, export_kubeadm, import_kubeadm, is_kubeadm};
pub use v1alpha1::{Imported, Note, ORIGINAL_ANNOTATION, export_v1alpha1, import_v1alpha1, is_v1alpha1};
