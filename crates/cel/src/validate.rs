//! Evaluation of rules on an object and its old state.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, ErrorType};

use crate::budget::Fault;
use crate::compile::Node;
use crate::compiled::Compiled;
use crate::eval;
use crate::plan::Program;
use crate::schema::Schema;
use crate::scope::Object;
use crate::value::{Val, of_object};

/// `RuntimeCELCostBudget`: maximum cost of all rules on one object.
pub(crate) const PER_OBJECT: i64 = 10_000_000;
const MAX_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const INTERNAL: &str =
    "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add";
const CALL_LIMIT: &str = "operation cancelled: actual cost limit exceeded";

pub(crate) struct Outcome {
    pub(crate) ratcheted: Vec<FieldError>,
    pub(crate) errors: Vec<FieldError>,
    /// Remaining budget; negative if it is exceeded.
    pub(crate) budget: i64,
}

pub(crate) fn validate(node: &Node, object: &Value, old: Option<&Value>, budget: i64) -> Outcome {
    let correlated = old.map(|old| Correlated::new(object, old, &node.schema));
    let ratchet = Ratchet { current: correlated.as_ref(), nearest: None };
    let mut run = Run { errors: Vec::new(), ratcheted: Vec::new(), budget };
    run.node(node, &mut Path::default(), object, old, ratchet);
    Outcome { errors: run.errors, ratcheted: run.ratcheted, budget: run.budget }
}

/// Path in the object, extended and truncated in place.
#[derive(Default)]
struct Path(String);

impl Path {
    fn show(&self) -> String {
        if self.0.is_empty() { "<nil>".to_owned() } else { self.0.clone() }
    }

    fn child(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}.{name}", self.0) }
    }
}

/// A value and its old state.
struct Correlated<'a> {
    value: &'a Value,
    old: &'a Value,
    schema: &'a Schema,
    is_equal: Cell<Option<bool>>,
}

impl<'a> Correlated<'a> {
    fn new(value: &'a Value, old: &'a Value, schema: &'a Schema) -> Self {
        Self { value, old, schema, is_equal: Cell::new(None) }
    }

    fn key(&self, field: &str) -> Option<Self> {
        let (Value::Object(value), Value::Object(old)) = (self.value, self.old) else { return None };
        let schema = self.schema.property(field).or(self.schema.additional.as_ref())?;
        Some(Self::new(value.get(field)?, old.get(field)?, schema))
    }

    /// Old elements by key.
    fn old_items(&self) -> OldItems<'a> {
        OldItems::new(self.schema, self.old.as_array().map_or(&[], Vec::as_slice))
    }

    fn index(&self, at: usize, old: &OldItems<'a>) -> Option<Self> {
        let value = self.value.as_array()?.get(at)?;
        let schema = self.schema.items.as_ref()?;
        Some(Self::new(value, old.get(value)?, schema))
    }

    fn equal(&self) -> bool {
        if let Some(known) = self.is_equal.get() {
            return known;
        }
        let is_equal = self.compare();
        self.is_equal.set(Some(is_equal));
        is_equal
    }

    fn compare(&self) -> bool {
        match (self.value, self.old) {
            (Value::Array(value), Value::Array(old)) => {
                if value.len() != old.len() {
                    return false;
                }
                if self.schema.list_type.as_deref() != Some("map") {
                    return value == old;
                }
                let items = self.old_items();
                (0..value.len()).all(|at| self.index(at, &items).is_some_and(|child| child.equal()))
            }
            (Value::Object(value), Value::Object(old)) => {
                value.len() == old.len()
                    && value.keys().all(|key| self.key(key).is_some_and(|child| child.equal()))
            }
            (value, old) => value == old,
        }
    }
}

/// Elements of a list of type `map`; empty for other lists.
struct OldItems<'a> {
    keys: &'a [String],
    found: BTreeMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    fn new(schema: &'a Schema, items: &'a [Value]) -> Self {
        let mut old = Self { keys: &schema.list_keys, found: BTreeMap::new() };
        if schema.type_ == "array" && schema.list_type.as_deref() == Some("map") && !old.keys.is_empty() {
            for item in items {
                if let Some(key) = old.key(item) {
                    old.found.entry(key).or_insert(item);
                }
            }
        }
        old
    }

    fn key(&self, item: &Value) -> Option<String> {
        let mut text = String::new();
        for key in self.keys {
            let value =
                item.get(key).filter(|value| value.is_boolean() || value.is_number() || value.is_string())?;
            text.push_str(&value.to_string());
            text.push('\u{0}');
        }
        Some(text)
    }

    fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.found.is_empty() {
            return None;
        }
        self.found.get(&self.key(item)?).copied()
    }
}

#[derive(Clone, Copy, Default)]
struct Ratchet<'r, 'a> {
    current: Option<&'r Correlated<'a>>,
    nearest: Option<&'r Correlated<'a>>,
}

impl Ratchet<'_, '_> {
    /// Ratcheting: whether an error is unchanged since the old object.
    fn forgives(&self) -> bool {
        self.current.or(self.nearest).is_some_and(Correlated::equal)
    }
}

struct Run {
    errors: Vec<FieldError>,
    /// Errors of the old object.
    ratcheted: Vec<FieldError>,
    budget: i64,
}

impl Run {
    fn node<'a>(
        &mut self,
        node: &'a Node,
        path: &mut Path,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'_, 'a>,
    ) {
        if value.is_null() {
            return;
        }
        if !settled_budget::spend(1) {
            // The errors are not needed in this case.
            self.budget = -1;
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, path, value, old, ratchet);
        for inner in &node.all_of {
            if self.budget < 0 {
                return;
            }
            self.node(inner, path, value, old, Ratchet { current: None, nearest: ratchet.nearest });
        }
        if self.budget < 0 {
            return;
        }
        match value {
            Value::Array(items) => {
                let Some(inner) = &node.items else { return };
                let old_items =
                    OldItems::new(&node.schema, old.and_then(Value::as_array).map_or(&[], Vec::as_slice));
                let ratchet_items = ratchet.current.map(Correlated::old_items);
                for (at, item) in items.iter().enumerate() {
                    let current = ratchet
                        .current
                        .zip(ratchet_items.as_ref())
                        .and_then(|(list, old)| list.index(at, old));
                    let below = match ratchet.current {
                        Some(here) => Ratchet { current: current.as_ref(), nearest: Some(here) },
                        None => ratchet,
                    };
                    self.below(inner, path, &format!("[{at}]"), item, old_items.get(item), below);
                    if self.budget < 0 {
                        return;
                    }
                }
            }
            Value::Object(members) => {
                let is_correlated =
                    matches!(node.schema.map_type.as_deref(), None | Some("granular" | "atomic"));
                let old = old.and_then(Value::as_object).filter(|_| is_correlated);
                for (name, member) in members {
                    let additional = node.additional.as_deref().map(|inner| (inner, format!("[{name}]")));
                    let property = node.properties.get(name).map(|inner| (inner, format!(".{name}")));
                    for (inner, suffix) in additional.into_iter().chain(property) {
                        let current = ratchet.current.and_then(|here| here.key(name));
                        let below = match ratchet.current {
                            None => ratchet,
                            Some(_)
                                if ratchet.nearest.is_none()
                                    && matches!(name.as_str(), "apiVersion" | "kind") =>
                            {
                                Ratchet::default()
                            }
                            Some(here) => Ratchet { current: current.as_ref(), nearest: Some(here) },
                        };
                        self.below(inner, path, &suffix, member, old.and_then(|old| old.get(name)), below);
                        if self.budget < 0 {
                            return;
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn below<'a>(
        &mut self,
        node: &'a Node,
        path: &mut Path,
        suffix: &str,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'_, 'a>,
    ) {
        let length = path.0.len();
        let suffix = if length == 0 { suffix.strip_prefix('.').unwrap_or(suffix) } else { suffix };
        path.0.push_str(suffix);
        self.node(node, path, value, old, ratchet);
        path.0.truncate(length);
    }

    /// Ends the validation.
    fn stop(&mut self, error: FieldError) {
        self.errors.push(error);
        self.budget = -1;
    }

    fn rules<'a>(
        &mut self,
        node: &'a Node,
        path: &Path,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'_, 'a>,
    ) {
        if node.rules.is_empty() {
            return;
        }
        let schema = node.as_resource.as_ref().unwrap_or(&node.schema);
        let invalid = |message: &str| FieldError::invalid(path.show(), schema.type_.as_str(), message);
        if self.budget <= 0 {
            return self.stop(invalid(OUT_OF_BUDGET));
        }
        let self_ = of_object(value, schema);
        // The old value is read only if a rule uses it.
        let uses_old = node.rules.iter().any(|rule| rule.uses_old);
        let old_value = old.filter(|_| uses_old).map(|old| of_object(old, schema));
        let plain = Object { self_: self_.clone(), old: old_value.clone() };
        let optional = Object {
            self_,
            old: uses_old.then(|| match old_value {
                Some(Ok(value)) => Ok(Val::some(value)),
                Some(Err(fault)) => Err(fault),
                None => Ok(Val::Optional(None)),
            }),
        };
        for compiled in &node.rules {
            let rule = &compiled.rule;
            if let Some(error) = &compiled.error {
                self.errors.push(invalid(&format!("rule compile error: {error}")));
                continue;
            }
            let Some(program) = &compiled.program else { continue };
            let is_optional = rule.optional_old_self == Some(true);
            if compiled.uses_old && old.is_none() && !is_optional {
                continue;
            }
            let scope = if is_optional { &optional } else { &plain };
            let (result, cost) = eval::run_with_cost(program, scope);
            let cost = i64::try_from(cost).unwrap_or(i64::MAX);
            if cost > self.budget {
                return self.stop(invalid(OUT_OF_BUDGET));
            }
            self.budget -= cost;
            let title = rule.title();
            match result {
                Ok(Val::Bool(true)) => continue,
                Ok(_) => {}
                Err(Fault::Limit | Fault::Room) => {
                    let message = format!(
                        "'{CALL_LIMIT}': no further validation rules will be run due to call cost exceeds limit for \
                         rule: {title}"
                    );
                    return self.stop(invalid(&message));
                }
                Err(Fault::Internal | Fault::Absent(_)) => {
                    self.errors.push(invalid(&format!("{INTERNAL} evaluating rule: {title}")));
                    continue;
                }
                Err(Fault::Error(error)) if error.starts_with("no such overload") => {
                    let message = format!(
                        "'{error}': call arguments did not match a supported operator, function or macro signature \
                         for rule: {title}"
                    );
                    self.errors.push(invalid(&message));
                    continue;
                }
                Err(Fault::Error(error)) => {
                    self.errors.push(invalid(&format!("{error} evaluating rule: {title}")));
                    continue;
                }
            }
            self.failed(compiled, path, value, schema, &plain, ratchet);
            if self.budget < 0 {
                return;
            }
        }
    }

    /// Collects errors.
    const fn found(&mut self, is_ratcheted: bool) -> &mut Vec<FieldError> {
        if is_ratcheted { &mut self.ratcheted } else { &mut self.errors }
    }

    /// Reports a failed rule.
    fn failed<'a>(
        &mut self,
        compiled: &'a Compiled,
        path: &Path,
        value: &Value,
        schema: &Schema,
        scope: &Object<'a>,
        ratchet: Ratchet<'_, '_>,
    ) {
        let rule = &compiled.rule;
        let field = match compiled.path.as_deref().filter(|inner| !inner.is_empty()) {
            Some(inner) => path.child(inner),
            None => path.show(),
        };
        let is_ratcheted = !compiled.uses_old && ratchet.forgives();
        let mut detail = None;
        if let Some(program) = &compiled.message {
            match self.message(program, &rule.message_expression, scope) {
                Ok(message) => detail = message,
                Err(message) => {
                    let error = FieldError::invalid(field, schema.type_.as_str(), message);
                    self.found(is_ratcheted).push(error);
                    self.budget = -1;
                    return;
                }
            }
        }
        let detail = detail.unwrap_or_else(|| {
            if rule.message.is_empty() {
                format!("failed rule: {}", rule.title())
            } else {
                rule.title().to_owned()
            }
        });
        let is_shown = !matches!(schema.type_.as_str(), "object" | "array");
        let error_type = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => ErrorType::Forbidden,
            Some("FieldValueRequired") => ErrorType::Required,
            Some("FieldValueDuplicate") => ErrorType::Duplicate,
            _ => ErrorType::Invalid,
        };
        // Upstream omits the detail of duplicates.
        let detail = if error_type == ErrorType::Duplicate { String::new() } else { detail };
        let error = FieldError::new(error_type, field, is_shown.then(|| value.clone()), detail);
        self.found(is_ratcheted).push(error);
    }

    /// Evaluates a message expression; `None` if the result is unusable. A limit ends everything.
    fn message<'a>(
        &mut self,
        program: &'a Program,
        source: &str,
        scope: &Object<'a>,
    ) -> Result<Option<String>, String> {
        let (result, cost) = eval::run_with_cost(program, scope);
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            let text = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(text.to_owned());
        }
        if matches!(result, Err(Fault::Limit)) {
            return Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source:?}"
            ));
        }
        self.budget -= cost;
        let Ok(Val::Text(text)) = result else { return Ok(None) };
        let text = text.trim();
        let is_shown = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        Ok(is_shown.then(|| text.to_owned()))
    }
}
