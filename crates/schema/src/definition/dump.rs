//! Versions of a CRD as `encoding/json` prints upstream's internal structures.

use super::internal::{InternalVersion, PerVersion};
use super::v1::CustomResourceSubresources;
use crate::dump::{Dump, dump_list, dump_props};

/// A list of versions.
pub(super) fn dump_versions(versions: &[InternalVersion<'_>]) -> String {
    let mut out = String::new();
    dump_list(&mut out, Some(versions), |version, out| {
        let mut dump = Dump::new(out);
        dump.text("Name", version.name);
        dump.flag("Served", version.served);
        dump.flag("Storage", version.storage);
        dump.flag("Deprecated", version.deprecated);
        dump.text_or_null("DeprecationWarning", version.deprecation_warning);
        dump_own(&version.own, &mut dump);
        dump.end();
    });
    out
}

fn dump_own(own: &PerVersion<'_>, dump: &mut Dump<'_>) {
    match &own.validation {
        None => dump.field("Schema").push_str("null"),
        Some(validation) => {
            let mut inner = Dump::new(dump.field("Schema"));
            match &validation.open_api_v3_schema {
                None => inner.field("OpenAPIV3Schema").push_str("null"),
                Some(schema) => dump_props(schema, inner.field("OpenAPIV3Schema")),
            }
            inner.end();
        }
    }
    match &own.subresources {
        None => dump.field("Subresources").push_str("null"),
        Some(subresources) => dump_subresources(subresources, dump.field("Subresources")),
    }
    dump.list("AdditionalPrinterColumns", own.columns.as_deref(), |column, out| {
        let mut dump = Dump::new(out);
        dump.text("Name", column.name);
        dump.text("Type", column.type_);
        dump.text("Format", column.format);
        dump.text("Description", column.description);
        dump.field("Priority").push_str(&column.priority.to_string());
        dump.text("JSONPath", column.json_path);
        dump.end();
    });
    dump.list("SelectableFields", own.selectable_fields.as_deref(), |field, out| {
        let mut dump = Dump::new(out);
        dump.text("JSONPath", field.json_path);
        dump.end();
    });
}

fn dump_subresources(subresources: &CustomResourceSubresources<'_>, out: &mut String) {
    let mut dump = Dump::new(out);
    dump.field("Status").push_str(if subresources.status { "{}" } else { "null" });
    match &subresources.scale {
        None => dump.field("Scale").push_str("null"),
        Some(scale) => {
            let mut inner = Dump::new(dump.field("Scale"));
            inner.text("SpecReplicasPath", scale.spec_replicas_path);
            inner.text("StatusReplicasPath", scale.status_replicas_path);
            inner.text_or_null("LabelSelectorPath", scale.label_selector_path);
            inner.end();
        }
    }
    dump.end();
}
