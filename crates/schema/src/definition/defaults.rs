//! Defaults of structural schemas: `ValidateDefaults`, and whether they are pruned.

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error as FieldError, Path};

use crate::node::{Node, Schema};
use crate::props::JsonSchemaProps;
use crate::{metadata, prune, structural, validate};

/// One step from a resource down to a value.
#[derive(Clone, Copy)]
enum Step<'a> {
    Child(&'a str),
    Index,
}

/// `SurroundingObjectFunc`: a new resource with the value at the end of the steps.
fn wrap(steps: &[Step<'_>], value: Value) -> Value {
    steps.iter().rev().fold(value, |value, step| match step {
        Step::Child(name) => Value::Object(Map::from_iter([((*name).to_owned(), value)])),
        Step::Index => Value::Array(vec![value]),
    })
}

/// The value at the end of the steps.
fn unwrap<'v>(steps: &[Step<'_>], value: &'v Value) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Child(name) => value.get(*name),
        Step::Index => value.get(0),
    })
}

/// Checks that defaults are pruned, if that is required, and valid.
pub(super) fn validate_defaults(
    schema: &Schema,
    require_pruned_defaults: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut validator = Validator { require_pruned_defaults, errors };
    validator.node(schema.root(), schema.root(), true, &mut Vec::new(), false, path);
}

struct Validator<'e> {
    require_pruned_defaults: bool,
    errors: &'e mut Vec<FieldError>,
}

impl Validator<'_> {
    /// The surrounding object is made for defaults within metadata.
    fn node<'n>(
        &mut self,
        node: &'n Node,
        root: &'n Node,
        is_root: bool,
        steps: &mut Vec<Step<'n>>,
        inside_meta: bool,
        path: &Path<'_>,
    ) {
        let mut fresh = Vec::new();
        let is_resource = is_root || node.is_embedded_resource();
        let (root, steps, inside_meta) =
            if is_resource { (node, &mut fresh, false) } else { (root, steps, inside_meta) };
        if let Some(default) = node.default_value() {
            let path = path.child("default");
            if inside_meta {
                self.default_in_metadata(node, root, steps, default, &path);
            } else {
                self.default(node, is_resource, default.clone(), &path);
            }
        }
        if let Some(items) = node.items() {
            steps.push(Step::Index);
            self.node(items, root, false, steps, inside_meta, &path.child("items"));
            steps.pop();
        }
        let properties = path.child("properties");
        for (name, property) in node.properties() {
            let is_meta = is_resource && matches!(name, "metadata" | "apiVersion" | "kind");
            steps.push(Step::Child(name));
            self.node(property, root, false, steps, inside_meta || is_meta, &properties.key(name));
            steps.pop();
        }
    }

    fn default_in_metadata(
        &mut self,
        node: &Node,
        root: &Node,
        steps: &[Step<'_>],
        default: &Value,
        path: &Path<'_>,
    ) {
        let mut object = wrap(steps, default.clone());
        for (name, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
            if let Some(members) = object.as_object_mut() {
                members.entry(name).or_insert_with(|| value.into());
            }
        }
        if let Some(detail) = metadata::wrong_default(&mut object, root) {
            let detail = format!("must result in valid metadata: {detail}");
            self.errors.push(FieldError::invalid(path, default.clone(), detail));
        } else {
            self.errors.extend(validate::check(node, true, &path.to_string(), default, None));
        }
    }

    fn default(&mut self, node: &Node, is_resource: bool, mut default: Value, path: &Path<'_>) {
        let mut pruned = default.clone();
        prune::node(node, &mut pruned, is_resource);
        let is_unpruned = self.require_pruned_defaults && pruned != default;
        // Upstream rewrites the metadata in place, and shows the value as it is afterwards.
        let malformed = metadata::coerce(&mut default, node, is_resource, false, path);
        if is_unpruned {
            self.errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
        }
        if let Some(error) = malformed {
            self.errors.push(error);
            return;
        }
        let mut errors = Vec::new();
        metadata::validate(&default, node, is_resource, path, &mut errors);
        if errors.is_empty() {
            errors = validate::check(node, true, &path.to_string(), &default, None);
        }
        self.errors.append(&mut errors);
    }
}

/// `schemaHasUnprunedDefaults`: whether a default of a structural schema holds what the schema does not name.
pub(super) fn schema_has_unpruned_defaults(schema: &JsonSchemaProps) -> bool {
    if !schema.has(&|schema| schema.default.is_some())
        || structural::unsupported(schema).is_some()
        || !structural::validate(schema, &Path::Nil).is_empty()
    {
        return false;
    }
    let schema = Schema::new(schema);
    has_unpruned_defaults(schema.root(), schema.root(), &mut Vec::new())
}

fn has_unpruned_defaults<'n>(node: &'n Node, root: &'n Node, steps: &mut Vec<Step<'n>>) -> bool {
    if let Some(default) = node.default_value() {
        let mut object = wrap(steps, default.clone());
        if object.is_object() {
            // Whatever is malformed is dropped.
            let _dropped = metadata::coerce(&mut object, root, true, true, &Path::Nil);
            prune::node(root, &mut object, true);
            if unwrap(steps, &object) != Some(default) {
                return true;
            }
        }
    }
    let mut is_below = |step: Step<'n>, child: &'n Node| {
        steps.push(step);
        let found = has_unpruned_defaults(child, root, steps);
        steps.pop();
        found
    };
    node.additional_properties().is_some_and(|child| is_below(Step::Child("*"), child))
        || node.items().is_some_and(|child| is_below(Step::Index, child))
        || node.properties().any(|(name, child)| is_below(Step::Child(name), child))
}
