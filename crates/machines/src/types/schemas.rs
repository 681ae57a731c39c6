//! Schemas that cannot be derived: times, numbers or percentages, embedded objects.

use schemars::{Schema, SchemaGenerator, json_schema};

/// `metav1.Time`.
pub(super) fn time(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// `metav1.Time` of a field that may be absent.
pub(super) fn optional_time(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}

/// `intstr.IntOrString`: a number, or a percentage.
pub(super) fn int_or_percent(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 0,
        "pattern": "^[0-9]+%$",
        "maxLength": 11,
    })
}

/// A typed, versioned object of a provider. [`crds`](crate::crds) puts the schemas of the providers in its place.
pub(super) fn typed_object(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "required": ["apiVersion", "kind"],
        "properties": {
            "apiVersion": {"type": "string", "minLength": 1},
            "kind": {"type": "string", "minLength": 1},
        },
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// What only a provider reads.
pub(super) fn opaque(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// Labels or annotations.
pub(super) fn string_map(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 4096},
    })
}

/// Labels that a selector matches exactly.
pub(super) fn label_map(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 63},
    })
}
