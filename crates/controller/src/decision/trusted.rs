//! Consumers' view of an object: its status, but not its spec.

use kube::ResourceExt;
use kube::core::object::HasStatus;

use super::{Allocation, Grant};

/// An object without access to user-written fields: consumers must act only on values that the controller has
/// confirmed.
///
/// Counterexample: `Service.spec.externalIPs`, which kube-proxy acts on although any user can write it, became a CVE.
///
/// ```
/// use k8s_openapi::api::core::v1::Service;
/// use settled_controller::decision::Trusted;
///
/// let service: Service = serde_json::from_value(serde_json::json!({
///     "metadata": {"name": "web", "generation": 1},
///     "spec": {"loadBalancerIP": "192.0.2.7", "externalIPs": ["198.51.100.1"]},
///     "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
/// }))
/// .unwrap();
/// let status = Trusted::from_status(&service, service.status.as_ref());
/// let addresses = status.read(|status| status.load_balancer.as_ref()?.ingress.as_ref()?.first()?.ip.clone());
/// assert_eq!(addresses.as_deref(), Some("192.0.2.1"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Trusted<'o, S> {
    status: Option<&'o S>,
    generation: i64,
}

impl<'o, S> Trusted<'o, S> {
    /// The trusted part of a custom resource.
    pub fn new<K>(object: &'o K) -> Self
    where
        K: HasStatus<Status = S> + ResourceExt,
    {
        Self::from_status(object, object.status())
    }

    /// The trusted part of any object, for kinds of k8s-openapi.
    pub fn from_status<K: ResourceExt>(object: &K, status: Option<&'o S>) -> Self {
        Self { status, generation: object.meta().generation.unwrap_or_default() }
    }

    /// A field of the status, if present.
    pub fn read<T>(&self, field: impl FnOnce(&'o S) -> Option<T>) -> Option<T> {
        self.status.and_then(field)
    }

    /// The value granted for the current request.
    pub fn current<T>(&self, allocation: impl FnOnce(&'o S) -> Option<&'o Allocation<T>>) -> Option<&'o T> {
        self.read(allocation)?.current(self.generation)
    }

    /// The last granted value with its generation.
    pub fn last_good<T>(
        &self,
        allocation: impl FnOnce(&'o S) -> Option<&'o Allocation<T>>,
    ) -> Option<&'o Grant<T>> {
        self.read(allocation)?.last_good()
    }
}
