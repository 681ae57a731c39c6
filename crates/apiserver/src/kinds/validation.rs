//! Validation of creates and updates of any kind (`Validate` and `ValidateUpdate` of upstream's strategies).

use serde_json::Value;
use settled_apimachinery::unstructured::{field, items};

use crate::error::Cause;
use crate::kinds::builtin::BuiltinKind;
use crate::kinds::check::Check;
use crate::kinds::definition::Definition;
use crate::kinds::model::Model;
use crate::kinds::names::Part;
use crate::kinds::strategy::Strategy;
use crate::metadata::{self, NameRule};

/// What is wrong with a new object.
pub(crate) fn validate_create(
    definition: &Definition,
    new: &Value,
    warnings: &mut Vec<String>,
) -> Vec<Cause> {
    match &definition.model {
        Model::Builtin(builtin) => {
            let causes = validate_builtin(builtin.row, builtin.strategy, new);
            if causes.is_empty() {
                warnings.extend((builtin.strategy.warnings)(new));
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

/// What is wrong with a new object of a built-in kind. At most some hundred causes.
pub(crate) fn validate_builtin(kind: &BuiltinKind, strategy: &Strategy, new: &Value) -> Vec<Cause> {
    let mut causes = match strategy.validates_metadata {
        true => Vec::new(),
        false => validate_metadata(kind, strategy, new),
    };
    causes.extend(strategy.validate_content(new, None));
    causes
}

/// Names by their kind's form, labels, owners, finalizers.
fn validate_metadata(kind: &BuiltinKind, strategy: &Strategy, new: &Value) -> Vec<Cause> {
    let mut check = Check { causes: metadata::validate(new, kind.namespaced, strategy.name_rule) };
    for (index, finalizer) in items(field(new, "metadata"), "finalizers").iter().enumerate() {
        check.standard_finalizer(&format!("metadata.finalizers[{index}]"), finalizer);
    }
    check.causes
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
    let changes = metadata::validate_update(new, old);
    causes.extend(changes.iter().cloned());
    causes.extend(changes);
    match &definition.model {
        Model::Builtin(builtin) if part == Part::Main || part == Part::Scale => {
            if builtin.strategy.behavior.whole_metadata && part == Part::Main {
                causes.extend(validate_metadata(builtin.row, builtin.strategy, new));
            }
            causes.extend(builtin.strategy.validate_content(new, Some(old)));
            if causes.is_empty() {
                warnings.extend((builtin.strategy.warnings)(new));
            }
        }
        // The rules are about what people ask for; controllers say what they see.
        Model::Builtin(builtin) => {
            // As upstream: strategies of Pods' subresources look at valid metadata only.
            if part == Part::Status || part == Part::Approval || causes.is_empty() {
                causes.extend(builtin.strategy.validate_part(part, new, old));
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
