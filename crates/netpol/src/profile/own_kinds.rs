//! Kinds of policies that are a provider's own, such as CiliumNetworkPolicy: whose they are.

use super::set::Profiles;

/// A kind of a provider's own.
#[derive(Clone, Debug)]
struct OwnKind {
    group: String,
    /// The name in URLs, without dashes.
    plural: String,
    title: String,
}

/// Kinds of all providers' own policies, by the profiles. They restrict traffic too, and are not evaluated.
#[derive(Clone, Debug, Default)]
pub struct OwnKinds {
    kinds: Vec<OwnKind>,
}

impl OwnKinds {
    /// The kinds that profiles name.
    ///
    /// ```
    /// use settled_netpol::profile::{OwnKinds, Profiles};
    ///
    /// let kinds = OwnKinds::new(&Profiles::embedded().0);
    /// assert_eq!(kinds.providers("cilium.io/v2", "CiliumNetworkPolicy").next(), Some("Cilium"));
    /// assert_eq!(kinds.providers("cilium.io/v2", "CiliumNode").next(), None);
    /// ```
    #[must_use]
    pub fn new(profiles: &Profiles) -> Self {
        let kinds = profiles.iter().flat_map(|profile| {
            profile.own_kinds.iter().filter_map(|name| {
                let (plural, group) = name.split_once('.')?;
                let (plural, title) = (plural.replace('-', ""), profile.title.clone());
                Some(OwnKind { group: group.to_owned(), plural, title })
            })
        });
        Self { kinds: kinds.collect() }
    }

    /// The providers whose kind it is, as sentences name them.
    pub fn providers(&self, api_version: &str, kind: &str) -> impl Iterator<Item = &str> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let of_group = self.kinds.iter().filter(move |own| own.group == group);
        of_group.filter(move |own| is_plural(&own.plural, kind)).map(|own| &*own.title)
    }
}

/// Whether a word is the plural of a kind, as CRDs have it: `networkpolicies` of `NetworkPolicy`.
fn is_plural(plural: &str, kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let stem = plural.strip_suffix("ies").map(|stem| format!("{stem}y"));
    let regular = plural.strip_suffix('s');
    stem.as_deref() == Some(&*kind) || regular == Some(&*kind) || plural.strip_suffix("es") == Some(&*kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_their_providers() {
        let kinds = OwnKinds::new(&Profiles::embedded().0);
        let providers =
            |api_version: &str, kind: &str| kinds.providers(api_version, kind).collect::<Vec<_>>().join(", ");
        for (api_version, kind, expected) in [
            ("cilium.io/v2", "CiliumNetworkPolicy", "Cilium"),
            ("cilium.io/v2", "CiliumClusterwideNetworkPolicy", "Cilium, GKE Dataplane V2"),
            ("projectcalico.org/v3", "NetworkPolicy", "Calico"),
            ("crd.projectcalico.org/v1", "GlobalNetworkPolicy", "Calico"),
            ("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", "Antrea"),
            ("k8s.ovn.org/v1", "EgressFirewall", "OVN-Kubernetes of OpenShift, OVN-Kubernetes"),
            ("network.openshift.io/v1", "EgressNetworkPolicy", "OpenShift SDN"),
            ("networking.k8s.aws/v1alpha1", "ApplicationNetworkPolicy", "AWS VPC CNI"),
            ("kubeovn.io/v1", "SecurityGroup", "Kube-OVN"),
            ("networking.gke.io/v1alpha1", "FQDNNetworkPolicy", "GKE Dataplane V2"),
            // Kinds that are evaluated, others of the same groups, and groups that only look alike.
            ("networking.k8s.io/v1", "NetworkPolicy", ""),
            ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy", ""),
            ("cilium.io/v2", "CiliumNode", ""),
            ("evilcilium.io/v2", "CiliumNetworkPolicy", ""),
            ("v1", "NetworkPolicy", ""),
        ] {
            assert_eq!(providers(api_version, kind), expected, "{api_version} {kind}");
        }
    }

    #[test]
    fn every_name_has_a_group() {
        for profile in Profiles::embedded().0.iter() {
            for name in &profile.own_kinds {
                let (plural, group) = name.split_once('.').unwrap();
                assert!(plural.ends_with('s') && group.contains('.'), "{}: {name}", profile.name);
            }
        }
    }
}
