//! Validation of creates and updates of any kind (`Validate` and `ValidateUpdate` of upstream's strategies).

use serde_json::Value;

use crate::error::Cause;
use crate::kinds::definition::Definition;
use crate::kinds::model::{CRD_SCHEMA, Model};
use crate::kinds::names::Part;
use crate::kinds::{builtin, crd};
use crate::metadata::{self, NameRule};

/// What is wrong with a new object.
pub(crate) fn validate_create(
    definition: &Definition,
    new: &Value,
    warnings: &mut Vec<String>,
) -> Vec<Cause> {
    match &definition.model {
        // That is about metadata too.
        Model::Builtin(builtin) if builtin.row.schema_name == CRD_SCHEMA => {
            crd::validate_definition(new, None)
        }
        Model::Builtin(builtin) => {
            let causes = builtin::validate(builtin.row, new);
            if causes.is_empty() {
                warnings.extend(builtin::warnings(builtin.row, new));
            }
            causes
        }
        Model::Custom(custom) => {
            let mut causes = metadata::validate(new, definition.namespaced, NameRule::Subdomain);
            causes.extend(custom.validate(new, None, warnings));
            causes.extend(definition.scale.iter().flat_map(|paths| paths.validate_spec(new)));
            causes
        }
    }
}

/// What is wrong with a change of a part of an object.
pub(crate) fn validate_update(
    definition: &Definition,
    part: Part,
    new: &Value,
    old: &Value,
    warnings: &mut Vec<String>,
) -> Vec<Cause> {
    let mut causes = metadata::validate(new, definition.namespaced, NameRule::Path);
    // All of upstream's strategies check the second part again, and its clients see the causes twice.
    causes.extend(metadata::validate_update(new, old));
    causes.extend(metadata::validate_update(new, old));
    if let Model::Builtin(builtin) = &definition.model
        && builtin.behavior.whole_metadata
        && part == Part::Main
    {
        causes.extend(builtin::validate_metadata(builtin.row, new));
    }
    match &definition.model {
        // The rules are about what people ask for; controllers say what they see.
        Model::Builtin(builtin) if part == Part::Status => {
            causes.extend(builtin::validate_status(builtin.row, new, old));
        }
        Model::Builtin(_) if part == Part::Approval => causes.extend(builtin::validate_approval(new, old)),
        Model::Builtin(_) if part != Part::Main && part != Part::Scale => {}
        Model::Builtin(builtin) if builtin.row.schema_name == CRD_SCHEMA => {
            causes.extend(crd::validate_definition(new, Some(old)));
        }
        Model::Builtin(builtin) => {
            causes.extend(builtin::validate_content(builtin.row, new, Some(old)));
            if causes.is_empty() {
                warnings.extend(builtin::warnings(builtin.row, new));
            }
        }
        Model::Custom(custom) if part == Part::Status => {
            causes.extend(custom.validate_status(new, old, warnings));
            causes.extend(definition.scale.iter().flat_map(|paths| paths.validate_status(new)));
        }
        Model::Custom(custom) => {
            causes.extend(custom.validate(new, Some(old), warnings));
            causes.extend(definition.scale.iter().flat_map(|paths| paths.validate_spec(new)));
        }
    }
    causes
}
