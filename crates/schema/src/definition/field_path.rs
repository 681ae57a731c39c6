//! `ValidFieldPath`: where a path like `.spec.list['a b']` leads in a schema.

use crate::props::JsonSchemaProps;

/// The field of a path.
pub(super) struct FieldPath<'p> {
    /// The path, normalized.
    pub(super) path: String,
    /// The name of its first field.
    pub(super) first: Option<String>,
    /// The schema of the field.
    pub(super) schema: &'p JsonSchemaProps,
}

struct Tokens<'t>(&'t str);

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let end = match self.0.chars().next()? {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = self.0.as_bytes();
                (1..bytes.len())
                    .find(|index| bytes[*index] == b'\'' && bytes[index - 1] != b'\\')
                    .map_or(self.0.len(), |index| index + 1)
            }
            _ => self.0.find(['.', '[', ']']).unwrap_or(self.0.len()),
        };
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

/// Follows a path; with `allow_array_notation` its fields may be in brackets.
pub(super) fn valid_field_path<'p>(
    path: &str,
    schema: &'p JsonSchemaProps,
    allow_array_notation: bool,
) -> Result<FieldPath<'p>, String> {
    let end = || "unexpected end of JSON path".to_owned();
    let invalid = || "does not refer to a valid field".to_owned();
    let mut tokens = Tokens(path);
    let mut found = FieldPath { path: String::new(), first: None, schema };
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            "[" if !allow_array_notation => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let Some(inner) = inner else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                inner.replace("\\'", "'")
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if found.schema.has_properties() {
            found.schema = found.schema.property(&name).ok_or_else(invalid)?;
            found.path = format!("{}.{name}", found.path);
        } else {
            let additional = found.schema.additional.as_ref().and_then(|either| either.schema.as_ref());
            found.schema = additional.ok_or_else(invalid)?;
            found.path = format!("{}[{name}]", found.path);
        }
        found.first.get_or_insert(name);
        if token == "[" {
            match tokens.next().ok_or_else(end)? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok(found)
}
