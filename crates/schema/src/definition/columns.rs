//! `ValidateCustomResourceColumnDefinition`.

use settled_apimachinery::field::{Error as FieldError, Path};

use super::fields::validate_simple_json_path;
use super::v1::CustomResourceColumnDefinition;

const TYPES: &str = "must be one of boolean,date,integer,number,string";
const FORMATS: [&str; 9] = ["", "byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn validate_custom_resource_column_definition(
    column: &CustomResourceColumnDefinition<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if column.name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    match column.type_ {
        "" => errors.push(FieldError::required(path.child("type"), TYPES)),
        "boolean" | "date" | "integer" | "number" | "string" => {}
        other => errors.push(FieldError::invalid(path.child("type"), other, TYPES)),
    }
    if !FORMATS.contains(&column.format) {
        let detail = "must be one of byte,date,date-time,double,float,int32,int64,password";
        errors.push(FieldError::invalid(path.child("format"), column.format, detail));
    }
    match column.json_path {
        "" => errors.push(FieldError::required(path.child("JSONPath"), "")),
        json_path => {
            validate_simple_json_path(json_path, &path.child("JSONPath"), errors);
        }
    }
}
