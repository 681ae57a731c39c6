//! Evidence on kinds without rules: whether a kind has a status at all.

use settled_manifest::ListItems;
use settled_watch::{Cluster, Resource, Verb};

use crate::id::ObjectId;
use crate::observation::Evidence;

/// Whether a kind has a status, by its CRD and by other objects of it.
pub(crate) async fn evidence(cluster: &Cluster, resource: &Resource, asking: &ObjectId) -> Evidence {
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        resource.plural, resource.group
    );
    if let Ok(definition) = cluster.get(Verb::Get, &path).await
        && declares_status(&definition, &resource.version) == Some(false)
    {
        return Evidence::NoStatusDeclared;
    }
    let mut evidence = Evidence::Unseen;
    let everywhere = format!("{}?limit=50", resource.path(None, None));
    let here = format!("{}?limit=50", resource.path(Some(&asking.namespace), None));
    for path in [everywhere, here] {
        let Ok(list) = cluster.get(Verb::List, &path).await else { continue };
        let mut reports = false;
        let mut items = ListItems::default();
        let each = |item: &[u8]| {
            let Ok(object) = kstatus::Object::parse(item) else { return };
            let is = |part: Option<std::borrow::Cow<'_, str>>, wanted: &str| {
                part.as_deref().unwrap_or_default() == wanted
            };
            let itself = is(object.name(), &asking.name) && is(object.namespace(), &asking.namespace);
            let status = object.root().get("status");
            reports |= !itself && status.is_some_and(|status| status.members().next().is_some());
        };
        if items.push(&list, each).is_ok() {
            evidence = if reports { Evidence::OthersReport } else { Evidence::NobodyReports };
            break;
        }
    }
    evidence
}

/// Whether a definition declares a status for a version.
fn declares_status(definition: &[u8], version: &str) -> Option<bool> {
    let definition = kstatus::Object::parse(definition).ok()?;
    let versions = definition.root().get("spec")?.get("versions")?;
    let version = versions.elements().find(|v| v.get("name").is_some_and(|name| name.is(version)))?;
    let subresource = version.get("subresources").and_then(|s| s.get("status")).is_some();
    let schema = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
    let properties = schema.and_then(|schema| schema.get("properties"));
    // A schema that keeps what it does not know may hold a status, too.
    let keeps =
        schema.and_then(|s| s.get("x-kubernetes-preserve-unknown-fields")).and_then(kstatus::Node::as_bool);
    Some(subresource || properties.is_some_and(|p| p.get("status").is_some()) || keeps == Some(true))
}
