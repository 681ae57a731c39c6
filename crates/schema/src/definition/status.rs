//! `ValidateCustomResourceDefinitionStoredVersions`.

use std::collections::BTreeMap;

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, Path};

use super::internal::InternalCrd;

pub(super) fn validate_custom_resource_definition_stored_versions(
    crd: &InternalCrd<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let stored = crd.status.stored_versions.as_deref();
    let Some(stored) = stored.filter(|stored| !stored.is_empty()) else {
        let shown = stored.map_or(Value::Null, Value::from);
        errors.push(FieldError::invalid(path, shown, "must have at least one stored version"));
        return;
    };
    let mut missing: BTreeMap<&str, usize> =
        stored.iter().enumerate().map(|(index, version)| (*version, index)).collect();
    for version in crd.versions() {
        if missing.remove(version.name).is_none() && version.storage {
            let detail = format!("must have the storage version {}", version.name);
            errors.push(FieldError::invalid(path, stored, detail));
        }
    }
    for (version, index) in missing {
        let detail = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
        );
        errors.push(FieldError::invalid(path.index(index), version, detail));
    }
}
