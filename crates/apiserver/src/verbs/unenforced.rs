//! Unenforced kinds: stored, not acted on, and answered with a warning.

use serde_json::Value;

use crate::kinds::definition::Definition;
use crate::kinds::names::{Names, stored_as};
use crate::kinds::{builtin, strategies};
use crate::notice::Notice;
use crate::object::meta;
use crate::state::State;
use crate::state::call::Target;
use settled_store::{At, Scope};

/// Does an API server write the object itself, as the flow schemas that every cluster has?
fn is_maintained(object: &Value) -> bool {
    let own = object.pointer("/metadata/annotations/apf.kubernetes.io~1autoupdate-spec");
    own.is_some_and(|value| value == "true")
}

/// The warning for writes of an object of this kind.
pub(crate) fn warning(definition: &Definition, object: &Value) -> Option<&'static str> {
    definition.model.strategy().not_enforced.and_then(|not_enforced| not_enforced(object))
}

fn notice(group: &str, plural: &str, name: &str, reason: &str) -> Notice {
    let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    Notice::NotEnforced { resource, name: name.to_owned(), reason: reason.to_owned() }
}

/// Reports an object that was written and is not enforced, unless it was reported when it was written before.
pub(crate) fn report(state: &State, target: &Target<'_>, new: &Value, old: Option<&Value>) {
    let Names { group, plural, .. } = &target.definition.names;
    if let Some(reason) = warning(target.definition, new)
        && old.is_none_or(|old| warning(target.definition, old) != Some(reason))
    {
        state.lifecycle.notices.emit(&notice(group, plural, target.name, reason));
    }
}

/// Reports all stored objects that are not enforced: at the start of a server with data.
pub(crate) fn report_all(state: &State) {
    for kind in builtin::kinds() {
        let Some(not_enforced) = strategies::find(kind.group, kind.kind).not_enforced else { continue };
        let Ok(resource) = stored_as(kind.group, kind.plural) else { continue };
        let Ok(snapshot) = state.store.snapshot(&resource, At::Latest) else { continue };
        for entry in snapshot.iter(&Scope::All) {
            let object: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
            let reason = not_enforced(&object).filter(|_| !is_maintained(&object));
            if let Some(reason) = reason {
                let name = meta(&object, "name");
                state.lifecycle.notices.emit(&notice(kind.group, kind.plural, name, reason));
            }
        }
    }
}
