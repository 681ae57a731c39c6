//! Validator: the compiled rules of a CRD's schema.

use std::sync::Arc;

use serde_json::Value;
use settled_apimachinery::field::Error as FieldError;
use settled_schema::Schema as Structural;

use crate::compile::{self, Node};
use crate::rule::Rule;
use crate::schema::Schema;
use crate::validate;

/// All compiled rules of a schema, shared by all writes.
///
/// ```
/// use serde_json::json;
/// use settled_schema::Schema;
///
/// let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {
///     "type": "object",
///     "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
///     "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min must not exceed max"}],
/// }}})).unwrap();
/// let (validator, errors) = settled_cel::Validator::compile(&schema, "spec.versions[0].schema.openAPIV3Schema");
/// assert!(errors.is_empty());
/// let validator = validator.ok_or("the schema has a rule")?;
///
/// let errors = validator.validate(&json!({"spec": {"min": 2, "max": 1}}), None);
/// assert_eq!(errors[0].field, "spec");
/// assert_eq!(errors[0].message(), "Invalid value: min must not exceed max");
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug)]
pub struct Validator {
    root: Option<Node>,
}

impl Validator {
    /// Compiles the rules of a structural schema.
    ///
    /// Invalid rules do not prevent a validator: they are errors of every object, as upstream. There is no validator if
    /// the schema has no rules. Returned errors are upstream's errors of the CRD; `path` is the path of the schema in
    /// the CRD, such as `spec.versions[0].schema.openAPIV3Schema`.
    #[must_use]
    pub fn compile(schema: &Structural, path: &str) -> (Option<Self>, Vec<FieldError>) {
        let schema = Arc::new(Schema::of(schema.root()));
        if !schema.has_rules() {
            return (None, Vec::new());
        }
        let (root, errors) = compile::compile(&schema, path);
        (Some(Self { root }), errors)
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Validates an object.
    ///
    /// `old` is the stored object on updates. Transition rules (with `oldSelf`) run only if the old value can be
    /// correlated: within lists, only in those of type `map`. Errors of unchanged values are ratcheted, except for
    /// transition rules.
    ///
    /// The cost limit is 1,000,000 per expression and 10,000,000 in total; exceeding it is an error and ends the
    /// validation.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_with_cost(object, old).0
    }

    /// The same, with ratcheted errors, which a server returns as warnings.
    #[must_use]
    pub fn validate_and_warn(
        &self,
        object: &Value,
        old: Option<&Value>,
    ) -> (Vec<FieldError>, Vec<FieldError>) {
        let Some(root) = &self.root else { return (Vec::new(), Vec::new()) };
        let outcome = validate::validate(root, object, old, validate::PER_OBJECT);
        (outcome.errors, outcome.ratcheted)
    }

    /// The same, with the cost of the rules.
    #[must_use]
    pub fn validate_with_cost(&self, object: &Value, old: Option<&Value>) -> (Vec<FieldError>, u64) {
        let Some(root) = &self.root else { return (Vec::new(), 0) };
        let outcome = validate::validate(root, object, old, validate::PER_OBJECT);
        let spent = validate::PER_OBJECT.saturating_sub(outcome.budget.max(0));
        (outcome.errors, spent as u64)
    }

    /// Estimated cost of one evaluation of each rule, except those within `allOf`, which upstream does not estimate.
    #[must_use]
    pub fn estimates(&self) -> Vec<(Rule, u64)> {
        let mut found = Vec::new();
        if let Some(root) = &self.root {
            collect(root, &mut found);
        }
        found
    }
}

fn collect(node: &Node, found: &mut Vec<(Rule, u64)>) {
    found.extend(node.rules.iter().map(|rule| (rule.rule.clone(), rule.max_cost)));
    node.items.iter().for_each(|child| collect(child, found));
    node.additional.iter().for_each(|child| collect(child, found));
    node.properties.values().for_each(|child| collect(child, found));
}
