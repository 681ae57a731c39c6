//! Validation of values against schemas: a port of `kube-openapi`'s, with ratcheting.
//!
//! Upstream selects errors of `anyOf` and `oneOf` by the number of passed checks, which is counted in the same way. Branches
//! are first only counted; errors are created for the selected one.

mod ratcheting;
mod report;
mod types;
mod values;

use std::collections::HashSet;

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error as FieldError, ErrorType, Path};
use settled_go::Num;
use settled_go::strconv::quote;

use self::ratcheting::{Old, OldList, unchanged};
use self::report::{At, Checker, Outcome, Report, Sink, report};
use self::types::Types;
use crate::node::{Additional, Child, Limits, Node, Schema};
use crate::{lists, metadata};

/// Maximum nesting: bounds recursive schemas; values are limited by their decoders.
const MAX_DEPTH: usize = 500;

impl Schema {
    /// Validates an object: its values, the metadata of embedded resources, and lists that are sets or maps. Updates have an
    /// `old` object; errors of unchanged values are ratcheted.
    ///
    /// The object's own metadata, its scale subresource and its CEL rules are not validated. Errors are upstream's; where
    /// upstream has a random order, they are sorted by field name.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.validate_values("", object, old);
        metadata::validate(object, self.root(), false, &Path::Nil, &mut errors);
        self.validate_lists(object, old, &mut errors);
        errors
    }

    /// `ValidateStatusUpdate`: validates `status` by its schema, and lists that are sets or maps in the whole object. As
    /// upstream, paths in messages are relative to the status.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = match (object.get("status"), self.root().property("status")) {
            (Some(status), Some(node)) => check(node, false, "status", status, old.get("status")),
            _ => Vec::new(),
        };
        self.validate_lists(object, Some(old), &mut errors);
        errors
    }

    /// Validates values only. `prefix` is the path of the value, such as `status`.
    pub fn validate_values(&self, prefix: &str, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        check(self.root(), false, prefix, value, old)
    }

    fn validate_lists(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let mut found = Vec::new();
        lists::validate(object, self.root(), &Path::Nil, &mut found);
        if found.is_empty() {
            return;
        }
        // Any errors in the old lists allow new ones.
        if let Some(old) = old {
            let mut before = Vec::new();
            lists::validate(old, self.root(), &Path::Nil, &mut before);
            if !before.is_empty() {
                return;
            }
        }
        errors.append(&mut found);
    }
}

/// Validates a value. Defaults are validated against the `structural` schema, where unknown formats count and
/// `x-kubernetes-int-or-string` is not a type.
pub(crate) fn check(
    node: &Node,
    structural: bool,
    prefix: &str,
    value: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let checker = Checker { structural, prefix };
    let old = old.map(|old| Old { value: old, node });
    // Valid objects need no allocation.
    let mut sink = Sink::default();
    checker.node(node, value, &At::Root, old, &mut Some(&mut sink), 0);
    if sink.errors.len() > 1 {
        let mut seen = HashSet::new();
        let keep: Vec<bool> = sink
            .errors
            .iter()
            .map(|error| seen.insert((error.error_type, error.field.as_str(), error.detail.as_str())))
            .collect();
        let mut keep = keep.into_iter();
        sink.errors.retain(|_| keep.next().unwrap_or(true));
    }
    sink.errors
}

impl Checker<'_> {
    fn node(
        &self,
        node: &Node,
        value: &Value,
        at: &At<'_>,
        old: Option<Old<'_>>,
        sink: &mut Report<'_>,
        depth: usize,
    ) -> Outcome {
        let mut result = Outcome { valid: true, matches: 0 };
        if !settled_budget::spend(1) {
            return result;
        }
        if depth > MAX_DEPTH {
            report(sink, &mut result, || {
                FieldError::new(ErrorType::Internal, self.field(&at.text()), None, "is nested too deeply")
            });
            return result;
        }
        let depth = depth + 1;
        let mark = sink.as_ref().map(|sink| (sink.errors.len(), sink.count, sink.size));
        let types = Types::of(node, self.structural);
        let limits = node.limits.as_deref();
        let format = limits.and_then(|limits| types::format(self, limits, &types));

        if types.any() || format.is_some() || value.is_null() {
            types::types(self, &types, format.unwrap_or_default(), node, value, at, sink, &mut result);
        }
        if value.is_null() {
            // A skipped check of null does not count.
            if let Some(limits) = limits {
                values::enumeration(self, limits, value, at, sink, &mut result);
            }
        } else {
            if let Some(limits) = limits {
                self.combined(limits, value, at, sink, depth, &mut result);
            }
            // As upstream counts: combination and whole twice each; common checks; type.
            result.matches += 4;
            if types.any() || format.is_some() {
                result.matches += 1;
            }
            match value {
                Value::String(text) => {
                    result.matches += 1;
                    if let Some(limits) = limits {
                        values::text(self, limits, text, at, sink, &mut result);
                        if let (Some(name), Some(known)) = (format, limits.known_format) {
                            result.matches += 1;
                            if !known.accepts(text) {
                                report(sink, &mut result, || self.wrong_type(at, name, text));
                            }
                        }
                    }
                }
                Value::Number(number) => {
                    result.matches += 2;
                    values::number(self, limits, &types, format, Num::of(number), at, sink, &mut result);
                }
                Value::Array(items) => {
                    result.matches += 2;
                    self.items(node, items, at, old, sink, depth, &mut result);
                }
                _ => {}
            }
            if let Some(limits) = limits {
                values::enumeration(self, limits, value, at, sink, &mut result);
            }
            if let Value::Object(members) = value {
                result.matches += 1;
                self.members(node, members, at, old, sink, depth, &mut result);
            }
        }

        if !result.valid
            && let Some(old) = old
            && unchanged(old.node, value, old.value)
        {
            if let (Some(sink), Some((errors, count, size))) = (sink.as_mut(), mark) {
                sink.errors.truncate(errors);
                (sink.count, sink.size) = (count, size);
            }
            result.valid = true;
        }
        result
    }

    /// `schemaPropsValidator`: `anyOf`, `oneOf`, `allOf`, `not`, without ratcheting within them.
    fn combined(
        &self,
        limits: &Limits,
        value: &Value,
        at: &At<'_>,
        sink: &mut Report<'_>,
        depth: usize,
        result: &mut Outcome,
    ) {
        let count = |nested: &Child| self.node(nested.get(), value, at, None, &mut None, depth);
        // The branch whose errors are reported: most passed checks, then order.
        let better = |best: &mut Option<(usize, u64)>, index: usize, matches: u64| {
            if best.is_none_or(|(_, most)| matches > most) {
                *best = Some((index, matches));
            }
        };
        if !limits.any_of.is_empty() {
            let mut best = None;
            let mut success = None;
            for (index, nested) in limits.any_of.iter().enumerate() {
                let outcome = count(nested);
                if outcome.valid {
                    success = Some(outcome);
                    break;
                }
                better(&mut best, index, outcome.matches);
            }
            if let Some(outcome) = success {
                result.merge(outcome);
            } else {
                report(sink, result, || {
                    let at = quote(&at.text());
                    self.plain(format!("{at} must validate at least one schema (anyOf)"))
                });
                if let Some((index, matches)) = best {
                    result.merge(if sink.is_some() {
                        self.node(limits.any_of[index].get(), value, at, None, sink, depth)
                    } else {
                        Outcome { valid: false, matches }
                    });
                }
            }
        }
        if !limits.one_of.is_empty() {
            let mut best = None;
            let mut success = None;
            let mut validated = 0;
            for (index, nested) in limits.one_of.iter().enumerate() {
                let outcome = count(nested);
                if outcome.valid {
                    validated += 1;
                    best = None;
                    success.get_or_insert(outcome);
                } else if validated == 0 {
                    better(&mut best, index, outcome.matches);
                }
            }
            if let (1, Some(outcome)) = (validated, success) {
                result.merge(outcome);
            } else {
                report(sink, result, || {
                    let at = quote(&at.text());
                    let found = if validated == 0 {
                        "Found none valid".to_owned()
                    } else {
                        format!("Found {validated} valid alternatives")
                    };
                    self.plain(format!("{at} must validate one and only one schema (oneOf). {found}"))
                });
                if let Some((index, matches)) = best {
                    result.merge(if sink.is_some() {
                        self.node(limits.one_of[index].get(), value, at, None, sink, depth)
                    } else {
                        Outcome { valid: false, matches }
                    });
                }
            }
        }
        if !limits.all_of.is_empty() {
            let mut validated = 0;
            for nested in &limits.all_of {
                let outcome = self.node(nested.get(), value, at, None, sink, depth);
                validated += usize::from(outcome.valid);
                result.merge(outcome);
            }
            if validated < limits.all_of.len() {
                report(sink, result, || {
                    let none = if validated == 0 { ". None validated" } else { "" };
                    self.plain(format!("{} must validate all the schemas (allOf){none}", quote(&at.text())))
                });
            }
        }
        if let Some(not) = &limits.not
            && count(not).valid
        {
            report(sink, result, || {
                self.plain(format!("{} must not validate the schema (not)", quote(&at.text())))
            });
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all parts of one check")]
    fn items(
        &self,
        node: &Node,
        items: &[Value],
        at: &At<'_>,
        old: Option<Old<'_>>,
        sink: &mut Report<'_>,
        depth: usize,
        result: &mut Outcome,
    ) {
        if let Some(child) = node.items() {
            let before = old.and_then(|old| OldList::new(old.node, old.value));
            for (index, item) in items.iter().enumerate() {
                let old = before.as_ref().and_then(|before| before.find(item));
                result.merge(self.node(child, item, &At::Index(at, index), old, sink, depth));
            }
        }
        let Some(limits) = &node.limits else { return };
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(least) = limits.min_items
            && size < least
        {
            let said = format!("should have at least {least} items");
            report(sink, result, || self.invalid(at, size.into(), &said));
        }
        if let Some(most) = limits.max_items
            && size > most
        {
            report(sink, result, || FieldError::too_many(self.field(&at.text()), size, most));
        }
        if limits.unique_items {
            let mut seen = HashSet::new();
            if !items.iter().all(|item| seen.insert(item.to_string())) {
                report(sink, result, || self.invalid(at, "".into(), "shouldn't contain duplicates"));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all parts of one check")]
    fn members(
        &self,
        node: &Node,
        members: &Map<String, Value>,
        at: &At<'_>,
        old: Option<Old<'_>>,
        sink: &mut Report<'_>,
        depth: usize,
        result: &mut Outcome,
    ) {
        if let Some(limits) = &node.limits
            && (limits.min_properties.is_some() || limits.max_properties.is_some())
        {
            let size = i64::try_from(members.len()).unwrap_or(i64::MAX);
            if let Some(least) = limits.min_properties
                && size < least
            {
                let said = format!("should have at least {least} properties");
                report(sink, result, || self.invalid(at, size.into(), &said));
            }
            if let Some(most) = limits.max_properties
                && size > most
            {
                report(sink, result, || FieldError::too_many(self.field(&at.text()), size, most));
            }
        }
        let before = |key: &str| {
            let old = old?;
            // Kind and apiVersion of a stored root are valid.
            if matches!(at, At::Root) && matches!(key, "kind" | "apiVersion") {
                return None;
            }
            Some(Old { value: old.value.get(key)?, node: old.node.member(key)? })
        };
        match &node.additional {
            Additional::Allowed(false) => {
                for key in members.keys().filter(|key| node.property(key).is_none()) {
                    report(sink, result, || {
                        let at = at.text();
                        let detail = format!("{at}.{key} in body is a forbidden property");
                        FieldError::invalid(self.field(&at), key.as_str(), detail)
                    });
                }
            }
            Additional::Schema(child) => {
                for (key, member) in members.iter().filter(|(key, _)| node.property(key).is_none()) {
                    let outcome =
                        self.node(child.get(), member, &At::Member(at, key), before(key), sink, depth);
                    result.merge(outcome);
                }
            }
            Additional::None | Additional::Allowed(true) => {}
        }
        for (key, member) in members {
            if let Some(child) = node.property(key) {
                result.merge(self.node(child, member, &At::Name(at, key), before(key), sink, depth));
            }
        }
        for name in node.required() {
            if !members.contains_key(name) {
                report(sink, result, || FieldError::required(self.field(&At::Member(at, name).text()), ""));
            }
        }
    }
}
