//! Compilation of all rules of a schema, with upstream's validation errors of the CRD.

use std::collections::BTreeMap;
use std::sync::Arc;

use settled_apimachinery::field::{Error as FieldError, ErrorType};

use crate::compiled::{Compiled, cardinality, field_path};
use crate::rule::Rule;
use crate::schema::{Declared, Schema, escape};

/// `StaticEstimatedCostLimit`: maximum estimated cost of a rule.
const PER_RULE: u64 = 10_000_000;
/// `StaticEstimatedCRDCostLimit`: maximum estimated cost of all rules of a schema.
const PER_SCHEMA: u64 = 100_000_000;
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Compiled rules of a schema node and its descendants.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) schema: Arc<Schema>,
    pub(crate) rules: Vec<Compiled>,
    pub(crate) items: Option<Box<Self>>,
    pub(crate) properties: BTreeMap<String, Self>,
    pub(crate) additional: Option<Box<Self>>,
    pub(crate) all_of: Vec<Self>,
    /// Whether rules can use the standard fields of resources.
    pub(crate) as_resource: Option<Arc<Schema>>,
}

impl Node {
    fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.items.is_none()
            && self.properties.is_empty()
            && self.additional.is_none()
            && self.all_of.is_empty()
    }
}

/// The compiled rules of a schema, and its errors.
pub(crate) fn compile(schema: &Arc<Schema>, path: &str) -> (Option<Node>, Vec<FieldError>) {
    let mut compiler = Compiler { total: 0, expensive: Vec::new() };
    let mut found = Errors::default();
    let declared = Declared::of(schema, true).map(Arc::new);
    let place = Place { path: path.to_owned(), cardinality: Some(1), uncorrelated: None };
    let node = compiler.node(schema, schema, declared, true, Some(&place), &mut found);
    let mut errors = found.schema;
    errors.append(&mut found.cel);
    if compiler.total > PER_SCHEMA {
        compiler.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, path) in compiler.expensive.into_iter().take(4) {
            let message =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(path, message));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path.to_owned(), exceeded(what, compiler.total, PER_SCHEMA)));
    }
    (node, errors)
}

/// Upstream's message for an estimate that exceeds its limit.
fn exceeded(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

#[derive(Default)]
struct Errors {
    /// Whether the rule is invalid without compiling it.
    schema: Vec<FieldError>,
    cel: Vec<FieldError>,
}

struct Place {
    path: String,
    /// Maximum number of values; `None` if unbounded.
    cardinality: Option<u64>,
    /// An ancestor whose old and new values cannot be correlated.
    uncorrelated: Option<String>,
}

impl Place {
    fn child(&self, schema: &Schema, path: String, is_correlated: bool) -> Self {
        let cardinality = self.cardinality.zip(schema.max_elements()).map(|(a, b)| a.saturating_mul(b));
        let here = (!is_correlated).then(|| self.path.clone());
        Self { path, cardinality, uncorrelated: self.uncorrelated.clone().or(here) }
    }
}

struct Compiler {
    total: u64,
    expensive: Vec<(u64, String)>,
}

impl Compiler {
    /// `place` is `None` where upstream does not validate rules, but evaluates them.
    fn node(
        &mut self,
        rules: &Arc<Schema>,
        schema: &Arc<Schema>,
        declared: Option<Arc<Declared>>,
        is_root: bool,
        place: Option<&Place>,
        errors: &mut Errors,
    ) -> Option<Node> {
        let mut node = Node {
            schema: Arc::clone(schema),
            rules: Vec::new(),
            items: None,
            properties: BTreeMap::new(),
            additional: None,
            all_of: Vec::new(),
            as_resource: None,
        };
        let before = errors.schema.len();
        let element = declared.as_ref().and_then(|declared| declared.element.clone());
        if let (Some(inner), Some(values)) = (&rules.additional, &schema.additional) {
            let place =
                place.map(|place| place.child(schema, format!("{}.additionalProperties", place.path), true));
            let child = self.node(inner, values, element.clone(), values.embedded, place.as_ref(), errors);
            node.additional = child.map(Box::new);
        }
        for (name, inner) in rules.properties.iter().flatten() {
            let Some(property) = schema.property(name) else { continue };
            let known = match (escape(name), &declared) {
                (Some(escaped), Some(declared)) => declared.fields.get(&escaped).cloned(),
                (Some(_), None) => None,
                (None, _) => Declared::of(property, property.embedded).map(Arc::new),
            };
            let is_known = known.is_some() || declared.is_none();
            let is_correlated = matches!(schema.map_type.as_deref(), None | Some("granular" | "atomic"));
            let place = place.map(|place| {
                place.child(schema, format!("{}.properties[{name}]", place.path), is_correlated)
            });
            if !is_known && !inner.has_rules() {
                continue;
            }
            if let Some(child) = self.node(inner, property, known, property.embedded, place.as_ref(), errors)
            {
                node.properties.insert(name.clone(), child);
            }
        }
        if let (Some(inner), Some(items)) = (&rules.items, &schema.items) {
            let is_correlated = schema.list_type.as_deref() == Some("map");
            let place =
                place.map(|place| place.child(schema, format!("{}.items", place.path), is_correlated));
            node.items =
                self.node(inner, items, element, items.embedded, place.as_ref(), errors).map(Box::new);
        }
        for inner in &rules.all_of {
            node.all_of.extend(self.node(inner, schema, declared.clone(), is_root, None, errors));
        }

        if !rules.rules.is_empty() {
            if let Some(place) = place {
                for (at, rule) in rules.rules.iter().enumerate() {
                    check(
                        rule,
                        schema,
                        &format!("{}.x-kubernetes-validations[{at}]", place.path),
                        &mut errors.schema,
                    );
                }
            }
            if is_root {
                node.as_resource = Some(Arc::new(schema.resource()));
            }
            // Other errors of the rule hide those of the expressions.
            let place = place.filter(|_| errors.schema.len() == before);
            self.rules(&mut node, &rules.rules, schema, declared.as_deref(), place, errors);
        }
        (!node.is_empty()).then_some(node)
    }

    fn rules(
        &mut self,
        node: &mut Node,
        rules: &[Rule],
        schema: &Schema,
        declared: Option<&Declared>,
        place: Option<&Place>,
        errors: &mut Errors,
    ) {
        let Some(declared) = declared else {
            if let Some(place) = place {
                let message = "internal error: failed to construct type information for x-kubernetes-validations \
                               rules: unable to convert structural schema to CEL declarations";
                let field = format!("{}.x-kubernetes-validations", place.path);
                errors.cel.push(FieldError::new(ErrorType::Internal, field, None, message));
            }
            return;
        };
        // Upstream generates a new name for each compilation, so that nobody relies on it.
        let named = declared.named("selfType0");
        for (at, rule) in rules.iter().enumerate() {
            let compiled = Compiled::new(rule, schema, declared, &named);
            if let Some(place) = place {
                self.judge(&compiled, declared, place, at, &mut errors.cel);
            }
            node.rules.push(compiled);
        }
    }

    /// Upstream's errors for a compiled rule.
    fn judge(
        &mut self,
        compiled: &Compiled,
        declared: &Declared,
        place: &Place,
        at: usize,
        errors: &mut Vec<FieldError>,
    ) {
        let rule = &compiled.rule;
        let path = format!("{}.x-kubernetes-validations[{at}]", place.path);
        let count = place.cardinality.unwrap_or_else(|| cardinality(declared.min_size));
        let cost = compiled.max_cost.saturating_mul(count);
        if cost > PER_RULE {
            let message = exceeded("estimated rule cost", cost, PER_RULE);
            errors.push(FieldError::forbidden(format!("{path}.rule"), message));
        }
        self.observe(cost, format!("{path}.rule"));
        if let Some(error) = &compiled.error {
            errors.push(FieldError::invalid_shown(format!("{path}.rule"), rule.shown(), error.as_str()));
        }
        if let Some(error) = &compiled.message_error {
            errors.push(FieldError::invalid_shown(
                format!("{path}.messageExpression"),
                rule.shown(),
                error.as_str(),
            ));
        } else if compiled.message.is_some() {
            let cost = compiled.message_cost;
            if cost > PER_RULE {
                let message = exceeded("estimated messageExpression cost", cost, PER_RULE);
                errors.push(FieldError::forbidden(format!("{path}.messageExpression"), message));
            }
            self.observe(cost, format!("{path}.messageExpression"));
        }
        if compiled.uses_old {
            if let Some(uncorrelated) = &place.uncorrelated {
                let message = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                );
                errors.push(FieldError::invalid(format!("{path}.rule"), rule.rule.as_str(), message));
            }
        } else if let Some(value) = rule.optional_old_self {
            let message = "may not be set if oldSelf is not used in rule";
            errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), value, message));
        }
    }

    fn observe(&mut self, cost: u64, path: String) {
        self.total = self.total.saturating_add(cost);
        if cost >= PER_SCHEMA / 100 {
            self.expensive.push((cost, path));
        }
    }
}

/// Errors that do not depend on the expression.
fn check(rule: &Rule, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let has_line_end = |text: &str| text.contains(['\n', '\r']);
    let message = rule.message.trim();
    let at = |field: &str| format!("{path}.{field}");
    if rule.rule.trim().is_empty() {
        errors.push(FieldError::required(at("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        errors.push(FieldError::invalid(
            at("message"),
            rule.message.as_str(),
            "must be non-empty if specified",
        ));
    } else if has_line_end(message) {
        errors.push(FieldError::invalid(
            at("message"),
            rule.message.as_str(),
            "must not contain line breaks",
        ));
    } else if has_line_end(rule.rule.trim()) && message.is_empty() {
        let text = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(at("message"), text));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let text = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(at("messageExpression"), text));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        errors.push(FieldError::not_supported(at("reason"), reason, REASONS));
    }
    if !rule.field_path.is_empty() {
        let value = rule.field_path.as_str();
        if rule.field_path.trim().is_empty() {
            errors.push(FieldError::invalid(at("fieldPath"), value, "must be non-empty if specified"));
        }
        if has_line_end(&rule.field_path) {
            errors.push(FieldError::invalid(at("fieldPath"), value, "must not contain line breaks"));
        }
        if field_path(&rule.field_path, schema).is_err() {
            errors.push(FieldError::invalid(at("fieldPath"), value, "must be a valid path"));
        }
    }
}
