//! Unenforced kinds: stored, not acted on, and answered with a warning.

use serde_json::Value;

use crate::kinds::definition::Definition;
use crate::kinds::names::stored_as;
use crate::notice::Notice;
use crate::object::meta;
use crate::state::State;
use crate::state::call::Target;
use settled_store::{At, Scope};

const WEBHOOKS: &str = "stored but not enforced: this server does not call admission webhooks";
const POLICIES: &str = "stored but not enforced: this server does not evaluate admission policies";
const FLOWS: &str = "stored but not enforced: this server does not apply API priority and fairness";
const AGGREGATION: &str =
    "stored but not enforced: this server does not proxy requests to aggregated API servers";
const ADDRESSES: &str =
    "stored but not enforced: Services get addresses from the server's own range, which this does not change";
const CONVERSION: &str =
    "this server does not call conversion webhooks: objects are accessible at their stored version only";

/// The resources that are not enforced: group and plural name.
const RESOURCES: [(&str, &str); 12] = [
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "ipaddresses"),
    ("networking.k8s.io", "servicecidrs"),
];
/// The ServiceCIDR of the server's own range, which the server maintains.
const OWN_RANGE: &str = "kubernetes";

/// What of an object is not enforced. Nothing: all of it is.
fn of(group: &str, plural: &str, object: &Value) -> Option<&'static str> {
    let is_set = |pointer: &str| object.pointer(pointer).is_some_and(|value| !value.is_null());
    match (group, plural) {
        ("admissionregistration.k8s.io", _) if plural.ends_with("webhookconfigurations") => {
            // Without webhooks there is nothing to call.
            let webhooks = object.get("webhooks").and_then(Value::as_array);
            webhooks.is_some_and(|webhooks| !webhooks.is_empty()).then_some(WEBHOOKS)
        }
        ("admissionregistration.k8s.io", _) => Some(POLICIES),
        ("flowcontrol.apiserver.k8s.io", _) => Some(FLOWS),
        // Without a service it is served here.
        ("apiregistration.k8s.io", _) => is_set("/spec/service").then_some(AGGREGATION),
        ("networking.k8s.io", "ipaddresses") => Some(ADDRESSES),
        ("networking.k8s.io", "servicecidrs") => (meta(object, "name") != OWN_RANGE).then_some(ADDRESSES),
        ("apiextensions.k8s.io", _) => {
            let strategy = object.pointer("/spec/conversion/strategy").and_then(Value::as_str);
            (strategy == Some("Webhook")).then_some(CONVERSION)
        }
        _ => None,
    }
}

/// Does an API server write the object itself, as the flow schemas that every cluster has?
fn is_maintained(object: &Value) -> bool {
    let own = object.pointer("/metadata/annotations/apf.kubernetes.io~1autoupdate-spec");
    own.is_some_and(|value| value == "true")
}

/// The warning for writes of an object of this kind.
pub(crate) fn warning(definition: &Definition, object: &Value) -> Option<&'static str> {
    let Definition { group, plural, .. } = definition;
    RESOURCES.contains(&(group, plural)).then(|| of(group, plural, object)).flatten()
}

fn notice(group: &str, plural: &str, name: &str, reason: &str) -> Notice {
    let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    Notice::NotEnforced { resource, name: name.to_owned(), reason: reason.to_owned() }
}

/// Reports an object that was written and is not enforced, unless it was reported when it was written before.
pub(crate) fn report(state: &State, target: &Target<'_>, new: &Value, old: Option<&Value>) {
    let Definition { group, plural, .. } = target.definition;
    if let Some(reason) = warning(target.definition, new)
        && old.is_none_or(|old| warning(target.definition, old) != Some(reason))
    {
        state.lifecycle.notices.emit(&notice(group, plural, target.name, reason));
    }
}

/// Reports all stored objects that are not enforced: at the start of a server with data.
pub(crate) fn report_all(state: &State) {
    for (group, plural) in RESOURCES {
        let Ok(resource) = stored_as(group, plural) else { continue };
        let Ok(snapshot) = state.store.snapshot(&resource, At::Latest) else { continue };
        for entry in snapshot.iter(&Scope::All) {
            let object: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
            let reason = of(group, plural, &object).filter(|_| !is_maintained(&object));
            if let Some(reason) = reason {
                state.lifecycle.notices.emit(&notice(group, plural, meta(&object, "name"), reason));
            }
        }
    }
}
