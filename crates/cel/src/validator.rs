//! The rules of a CRD's schema, compiled and run.

use std::sync::Arc;

use serde_json::Value;
use settled_apimachinery::field::Error as FieldError;
use settled_schema::Schema as Structural;

use crate::compile::{self, Node};
use crate::rule::Rule;
use crate::schema::Schema;
use crate::validate;

/// All rules of one schema, compiled: one for all writes.
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
    /// There is a validator even where rules are wrong: those are errors of every object, as they are upstream. There is
    /// none where the schema has no rules. The errors are upstream's of the CRD; `path` is where in the CRD the schema
    /// stands, such as `spec.versions[0].schema.openAPIV3Schema`.
    #[must_use]
    pub fn compile(schema: &Structural, path: &str) -> (Option<Self>, Vec<FieldError>) {
        let schema = Arc::new(Schema::of(schema.root()));
        if !schema.has_rules() {
            return (None, Vec::new());
        }
        let (root, errors) = compile::compile(&schema, path);
        (Some(Self { root }), errors)
    }

    /// Whether there is nothing to check.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// What the rules say against an object.
    ///
    /// `old` is the stored object on updates. Rules with `oldSelf` only run where the old value can be found: not within
    /// lists, but those of type `map`. What fails and is as it was before is forgiven, unless the rule uses `oldSelf`.
    ///
    /// One expression may cost 1,000,000, all together 10,000,000; what costs more is an error, and ends the validation.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_with_cost(object, old).0
    }

    /// The same, and what is forgiven, of which a server warns.
    #[must_use]
    pub fn validate_and_warn(
        &self,
        object: &Value,
        old: Option<&Value>,
    ) -> (Vec<FieldError>, Vec<FieldError>) {
        let Some(root) = &self.root else { return (Vec::new(), Vec::new()) };
        let outcome = validate::validate(root, object, old, validate::PER_OBJECT);
        (outcome.errors, outcome.forgiven)
    }

    /// The same, with what the rules have cost.
    #[must_use]
    pub fn validate_with_cost(&self, object: &Value, old: Option<&Value>) -> (Vec<FieldError>, u64) {
        let Some(root) = &self.root else { return (Vec::new(), 0) };
        let outcome = validate::validate(root, object, old, validate::PER_OBJECT);
        let spent = validate::PER_OBJECT.saturating_sub(outcome.budget.max(0));
        (outcome.errors, spent as u64)
    }

    /// What each rule may cost at most when it runs once. Those within `allOf` are left out: upstream estimates none.
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
