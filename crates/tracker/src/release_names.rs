//! Names of releases, from lists of metadata alone: for completion in shells.

use std::collections::BTreeSet;

use settled_watch::{Cluster, Resources};

use crate::releases::ReleaseKind;

/// What Helm's Secrets and ConfigMaps are called: `sh.helm.release.v1.NAME.vREVISION`.
const HELM_PREFIX: &str = "sh.helm.release.v1.";

/// The names of at most `limit` releases in a namespace. Kinds that cannot be listed have none.
pub async fn release_names(
    cluster: &Cluster,
    resources: &Resources,
    release_kind: ReleaseKind,
    namespace: &str,
    limit: usize,
) -> Vec<String> {
    let labels = release_kind.label();
    let listed = release_kind.kinds().iter().filter_map(|(group, kind)| {
        let resource = resources.of_kind(group, None, kind)?;
        // A ResourceGroup is always an inventory.
        let labels = labels.filter(|_| group.is_empty());
        Some(cluster.names(resource, Some(namespace), labels, limit))
    });
    let lists = futures::future::join_all(listed).await;
    let names = lists.into_iter().flatten().flatten();
    let names: BTreeSet<String> = match release_kind {
        ReleaseKind::Helm => names.filter_map(|name| helm_release(&name).map(str::to_owned)).collect(),
        _ => names.collect(),
    };
    names.into_iter().take(limit).collect()
}

/// The release that a Secret or ConfigMap of Helm is a revision of.
fn helm_release(name: &str) -> Option<&str> {
    let (release, revision) = name.strip_prefix(HELM_PREFIX)?.rsplit_once(".v")?;
    revision.bytes().all(|byte| byte.is_ascii_digit()).then_some(release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_name_their_release() {
        for (name, release) in [
            ("sh.helm.release.v1.shop.v12", Some("shop")),
            ("sh.helm.release.v1.a.b.v1", Some("a.b")),
            ("shop.v3", None),
            ("sh.helm.release.v1.shop", None),
            ("sh.helm.release.v1.shop.vx", None),
        ] {
            assert_eq!(helm_release(name), release, "{name}");
        }
    }
}
