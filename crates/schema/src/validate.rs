//! Values against schemas, as `kube-openapi` validates them, with ratcheting.
//!
//! Upstream selects errors of `anyOf` and `oneOf` by how many checks went well, so these are counted as it counts them. A
//! branch is first only counted; its errors are written for those that are reported.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error as FieldError, ErrorType, Path};
use settled_go::strconv::quote;
use settled_go::{self as go, Num};

use crate::node::{Additional, Child, Limits, ListType, Node, Schema, Type};
use crate::{lists, metadata};

/// So many bytes of errors are told of one object.
const MAX_ERRORS: usize = 1 << 20;
/// Schemas that go on without going into the value, and values deeper than any decoder reads.
const MAX_DEPTH: usize = 500;

impl Schema {
    /// Checks an object: its values, the metadata of embedded resources, and lists that are sets or maps. An update has the
    /// `old` object too; what was wrong before and has not changed is let pass.
    ///
    /// The metadata of the object itself, its scale subresource and its rules in CEL are not looked at. Errors are upstream's;
    /// where it has them in random order, here they are sorted by field name.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.validate_values("", object, old);
        metadata::validate(object, self.root(), false, &Path::Nil, &mut errors);
        self.validate_lists(object, old, &mut errors);
        errors
    }

    /// Checks a write to the status: its values, by the schema of `status` alone, and lists that are sets or maps anywhere
    /// (`ValidateStatusUpdate` upstream). Messages name paths within the status, as upstream's do.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = match (object.get("status"), self.root().property("status")) {
            (Some(status), Some(node)) => check(node, false, "status", status, old.get("status")),
            _ => Vec::new(),
        };
        self.validate_lists(object, Some(old), &mut errors);
        errors
    }

    /// Checks values alone. Fields are named as below `prefix`: `status` for the schema of that field.
    pub fn validate_values(&self, prefix: &str, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        check(self.root(), false, prefix, value, old)
    }

    fn validate_lists(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let mut found = Vec::new();
        lists::validate(object, self.root(), &Path::Nil, &mut found);
        if found.is_empty() {
            return;
        }
        // What was wrong before may stay so, anywhere.
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

/// Checks a value. Defaults are checked against the structural schema itself: formats that nobody knows count there, and
/// `x-kubernetes-int-or-string` is no type.
pub(crate) fn check(
    node: &Node,
    structural: bool,
    prefix: &str,
    value: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let checker = Checker { structural, prefix };
    let old = old.map(|old| Old { value: old, node });
    // Most objects are right, and need no memory.
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

/// A path as `kube-openapi` writes it.
#[derive(Clone, Copy)]
enum At<'a> {
    Root,
    Name(&'a Self, &'a str),
    /// A member without a schema of its own name. At the root it begins with a dot.
    Member(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl At<'_> {
    fn write(&self, text: &mut String) {
        match self {
            At::Root => {}
            At::Name(parent, name) => {
                parent.write(text);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            At::Member(parent, name) => {
                parent.write(text);
                text.push('.');
                text.push_str(name);
            }
            At::Index(parent, index) => {
                parent.write(text);
                let _ = write!(text, "[{index}]");
            }
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }
}

/// What a value was before, and the schema by which its parts are found again.
#[derive(Clone, Copy)]
struct Old<'a> {
    value: &'a Value,
    node: &'a Node,
}

#[derive(Default)]
struct Sink {
    errors: Vec<FieldError>,
    /// How many there were, also those not kept.
    count: usize,
    size: usize,
}

type Report<'s> = Option<&'s mut Sink>;

/// What came of a check.
#[derive(Clone, Copy)]
struct Outcome {
    valid: bool,
    matches: u64,
}

impl Outcome {
    fn merge(&mut self, other: Self) {
        self.valid &= other.valid;
        self.matches += other.matches;
    }
}

struct Checker<'p> {
    structural: bool,
    prefix: &'p str,
}

fn report(sink: &mut Report<'_>, outcome: &mut Outcome, error: impl FnOnce() -> FieldError) {
    outcome.valid = false;
    if let Some(sink) = sink {
        sink.count += 1;
        if sink.size < MAX_ERRORS {
            let error = error();
            sink.size += error.field.len() + error.detail.len() + 64;
            sink.errors.push(error);
        }
    }
}

impl Checker<'_> {
    fn field(&self, at: &str) -> String {
        let bare = at.strip_prefix('.').unwrap_or(at);
        match (self.prefix, bare) {
            ("", "") => "<nil>".to_owned(),
            ("", _) => bare.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, _) => format!("{prefix}.{bare}"),
        }
    }

    /// An error without a field.
    fn plain(&self, detail: String) -> FieldError {
        let field = if self.prefix.is_empty() { "<nil>" } else { self.prefix };
        FieldError::invalid(field, "", detail)
    }

    fn invalid(&self, at: &At<'_>, value: Value, said: &str) -> FieldError {
        let at = at.text();
        FieldError::invalid(self.field(&at), value, format!("{at} in body {said}"))
    }

    fn wrong_type(&self, at: &At<'_>, expected: &str, found: &str) -> FieldError {
        let at = at.text();
        let detail = format!("{at} in body must be of type {expected}: {}", quote(found));
        FieldError::new(ErrorType::TypeInvalid, self.field(&at), Some(found.into()), detail)
    }

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
        let format = limits.and_then(|limits| self.format(limits, &types));

        if types.any() || format.is_some() || value.is_null() {
            self.types(&types, format.unwrap_or_default(), node, value, at, sink, &mut result);
        }
        if value.is_null() {
            // No check of a null counts as one more.
            if let Some(limits) = limits {
                self.enumeration(limits, value, at, sink, &mut result);
            }
        } else {
            if let Some(limits) = limits {
                self.combined(limits, value, at, sink, depth, &mut result);
            }
            // What upstream counts: the combination and the whole, each with itself; common checks; its type.
            result.matches += 4;
            if types.any() || format.is_some() {
                result.matches += 1;
            }
            match value {
                Value::String(text) => {
                    result.matches += 1;
                    if let Some(limits) = limits {
                        self.text(limits, text, at, sink, &mut result);
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
                    self.number(limits, &types, format, Num::of(number), at, sink, &mut result);
                }
                Value::Array(items) => {
                    result.matches += 2;
                    self.items(node, items, at, old, sink, depth, &mut result);
                }
                _ => {}
            }
            if let Some(limits) = limits {
                self.enumeration(limits, value, at, sink, &mut result);
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

    /// The format, unless it is one that does not count for the type.
    fn format<'l>(&self, limits: &'l Limits, types: &Types) -> Option<&'l str> {
        let format = &*limits.format;
        if format.is_empty() {
            return None;
        }
        let counts = self.structural
            || match types.only() {
                None | Some(Type::String) => limits.known_format.is_some(),
                Some(Type::Integer) => matches!(format, "int32" | "int64"),
                Some(Type::Number) => matches!(format, "float" | "double"),
                Some(_) => false,
            };
        counts.then_some(format)
    }

    #[expect(clippy::too_many_arguments, reason = "all parts of one check")]
    fn types(
        &self,
        types: &Types,
        format: &str,
        node: &Node,
        value: &Value,
        at: &At<'_>,
        sink: &mut Report<'_>,
        result: &mut Outcome,
    ) {
        let (kind, kind_format) = match value {
            Value::Null => {
                if types.any() && !node.nullable {
                    report(sink, result, || self.wrong_type(at, &types.names(), "null"));
                } else {
                    result.matches += 1;
                }
                return;
            }
            Value::Bool(_) => (Type::Boolean, ""),
            Value::String(_) => (Type::String, ""),
            Value::Array(_) => (Type::Array, ""),
            Value::Object(_) => (Type::Object, ""),
            Value::Number(number) => match Num::of(number) {
                Num::Int(_) => (Type::Integer, "int64"),
                Num::Float(_) => (Type::Number, "float64"),
            },
        };
        let fits = types.has(kind)
            || (kind == Type::Integer && types.has(Type::Number))
            || (kind == Type::Number && types.has(Type::Integer) && value.as_f64().is_some_and(is_whole));
        let listed = matches!(kind, Type::String | Type::Array);
        if !listed && !format.is_empty() && !fits && kind_format != format {
            report(sink, result, || self.wrong_type(at, format, kind_format));
            return;
        }
        let numeric = types.has(Type::Number) || types.has(Type::Integer);
        if fits || (listed && !numeric && !format.is_empty()) {
            result.matches += 1;
            return;
        }
        report(sink, result, || self.wrong_type(at, &types.names(), kind.as_str()));
    }

    fn text(&self, limits: &Limits, text: &str, at: &At<'_>, sink: &mut Report<'_>, result: &mut Outcome) {
        if limits.max_length.is_some() || limits.min_length.is_some() {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            if let Some(most) = limits.max_length
                && length > most
            {
                report(sink, result, || FieldError::too_long(self.field(&at.text()), most));
                return;
            }
            if let Some(least) = limits.min_length
                && length < least
            {
                let said = format!("should be at least {least} chars long");
                report(sink, result, || self.invalid(at, text.into(), &said));
                return;
            }
        }
        if let Some(pattern) = &limits.pattern {
            let source = pattern.source();
            match pattern.matches(text) {
                Some(true) => {}
                Some(false) => report(sink, result, || {
                    self.invalid(at, text.into(), &format!("should match '{source}'"))
                }),
                None => report(sink, result, || {
                    let why = crate::pattern::error(source)
                        .map_or_else(|| "it is too large".to_owned(), |error| error.to_string());
                    self.invalid(
                        at,
                        text.into(),
                        &format!("should match '{source}, but pattern is invalid: {why}'"),
                    )
                }),
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all parts of one check")]
    fn number(
        &self,
        limits: Option<&Limits>,
        types: &Types,
        format: Option<&str>,
        number: Num,
        at: &At<'_>,
        sink: &mut Report<'_>,
        result: &mut Outcome,
    ) {
        let range = match (types.only(), format) {
            (Some(Type::Integer), Some(format @ ("int32" | "int64"))) => Range { kind: "integer", format },
            (Some(Type::Integer), _) => Range { kind: "integer", format: "" },
            (Some(Type::Number), Some(format @ ("float" | "double"))) => Range { kind: "number", format },
            (Some(Type::Number), _) => Range { kind: "number", format: "" },
            _ => Range { kind: "", format: "" },
        };
        let mut within = |number: Num, what: &str, sink: &mut Report<'_>| {
            let within = range.holds(number);
            if !within {
                report(sink, result, || {
                    let Range { kind, format } = range;
                    let at = at.text();
                    self.plain(if format.is_empty() {
                        format!("{what} value must be of type {kind} (default format) in {at}")
                    } else {
                        format!("{what} value must be of type {kind} with format {format} in {at}")
                    })
                });
            }
            within
        };
        within(number, "Checked", sink);
        let Some(limits) = limits else { return };
        // A limit that fits the type is compared as the value's own type.
        if let Some(factor) = limits.multiple_of {
            let native = within(Num::Float(factor), "MultipleOf", sink);
            if let Some(error) = self.multiple(comparable(number, native), factor, at) {
                report(sink, result, || error);
            }
        }
        let mut bound = |limit: f64, exclusive: bool, lower: bool, what: &str| {
            let mut outcome = Outcome { valid: true, matches: 0 };
            let native = range.holds(Num::Float(limit));
            if !native {
                let Range { kind, format } = range;
                report(sink, &mut outcome, || {
                    let at = at.text();
                    self.plain(if format.is_empty() {
                        format!("{what} value must be of type {kind} (default format) in {at}")
                    } else {
                        format!("{what} value must be of type {kind} with format {format} in {at}")
                    })
                });
            }
            let (beyond, shown) = match comparable(number, native) {
                Num::Int(value) => {
                    let limit = go_int(limit);
                    let (first, second) = if lower { (limit, value) } else { (value, limit) };
                    (first > second || (exclusive && first == second), limit.to_string())
                }
                Num::Float(value) => {
                    let (first, second) = if lower { (limit, value) } else { (value, limit) };
                    (first > second || (exclusive && first >= second), Num::Float(limit).to_string())
                }
            };
            if beyond {
                let words = match (lower, exclusive) {
                    (true, false) => "greater than or equal to",
                    (true, true) => "greater than",
                    (false, false) => "less than or equal to",
                    (false, true) => "less than",
                };
                report(sink, &mut outcome, || {
                    self.invalid(
                        at,
                        value_of(comparable(number, native)),
                        &format!("should be {words} {shown}"),
                    )
                });
            }
            outcome
        };
        if let Some(least) = limits.minimum {
            let outcome = bound(least, limits.exclusive_minimum, true, "Minimum boundary");
            result.merge(outcome);
        }
        if let Some(most) = limits.maximum {
            let outcome = bound(most, limits.exclusive_maximum, false, "Maximum boundary");
            result.merge(outcome);
        }
    }

    fn multiple(&self, number: Num, factor: f64, at: &At<'_>) -> Option<FieldError> {
        let (positive, multiple, shown, shown_value) = match number {
            Num::Int(value) => {
                let factor = go_int(factor);
                (factor > 0, factor > 0 && value % factor == 0, factor.to_string(), Value::from(factor))
            }
            Num::Float(value) => {
                let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
                (factor > 0.0, is_whole(quotient), Num::Float(factor).to_string(), Value::from(factor))
            }
        };
        if !positive {
            let at = at.text();
            let detail = format!("factor MultipleOf declared for {at} must be positive: {shown}");
            return Some(FieldError::invalid(self.field(&at), shown_value, detail));
        }
        (!multiple).then(|| self.invalid(at, value_of(number), &format!("should be a multiple of {shown}")))
    }

    fn enumeration(
        &self,
        limits: &Limits,
        value: &Value,
        at: &At<'_>,
        sink: &mut Report<'_>,
        result: &mut Outcome,
    ) {
        if limits.enumeration.is_empty()
            || limits.enumeration.iter().any(|allowed| converts_to(value, allowed))
        {
            return;
        }
        report(sink, result, || {
            let shown: Vec<Cow<'_, str>> = limits
                .enumeration
                .iter()
                .map(|allowed| {
                    allowed.as_str().map_or_else(|| go::json::to_string(allowed).into(), Cow::from)
                })
                .collect();
            FieldError::not_supported(
                self.field(&at.text()),
                value.clone(),
                shown.iter().map(|allowed| &**allowed),
            )
        });
    }

    /// `anyOf`, `oneOf`, `allOf`, `not`. Nothing is let pass within them.
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
        // Whose errors are told, by how many checks went well; the first of equals.
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
            // The type of a root can't have been wrong before.
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

/// The types that a schema allows.
enum Types {
    None,
    One(Type),
    IntOrString,
}

impl Types {
    fn of(node: &Node, structural: bool) -> Self {
        if node.int_or_string && !structural {
            return Self::IntOrString;
        }
        node.kind.map_or(Self::None, Self::One)
    }

    fn any(&self) -> bool {
        !matches!(self, Self::None)
    }

    fn has(&self, kind: Type) -> bool {
        match self {
            Self::None => false,
            Self::One(own) => *own == kind,
            Self::IntOrString => matches!(kind, Type::Integer | Type::String),
        }
    }

    fn only(&self) -> Option<Type> {
        match self {
            Self::One(own) => Some(*own),
            _ => None,
        }
    }

    fn names(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::One(own) => own.as_str().to_owned(),
            Self::IntOrString => "integer,string".to_owned(),
        }
    }
}

#[derive(Clone, Copy)]
struct Range<'f> {
    kind: &'f str,
    format: &'f str,
}

impl Range<'_> {
    /// Whether a number is in the range of the type, as its text is parsed.
    fn holds(self, number: Num) -> bool {
        match (self.kind, number) {
            ("integer", Num::Int(number)) => self.format != "int32" || i32::try_from(number).is_ok(),
            ("integer", Num::Float(number)) => {
                let most = if self.format == "int32" { 2_f64.powi(31) } else { 2_f64.powi(63) };
                number.fract() == 0.0 && (-most..most).contains(&number)
            }
            (_, Num::Float(number)) if self.format == "float" => {
                // Half of the last place beyond the largest float32 is rounded to infinity.
                number.abs() < f64::from(f32::MAX) + 2_f64.powi(102)
            }
            _ => true,
        }
    }
}

fn comparable(number: Num, native: bool) -> Num {
    if native { number } else { Num::Float(number.as_f64()) }
}

fn value_of(number: Num) -> Value {
    match number {
        Num::Int(number) => number.into(),
        Num::Float(number) => number.into(),
    }
}

/// Go's conversion of a float on amd64.
fn go_int(number: f64) -> i64 {
    if (-(2_f64.powi(63))..2_f64.powi(63)).contains(&number) { number as i64 } else { i64::MIN }
}

/// `swag.IsFloat64AJSONInteger`.
fn is_whole(number: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    if !(-MOST..=MOST).contains(&number) {
        return false;
    }
    if number.fract() == 0.0 {
        return true;
    }
    let near = go_int(number) as u64 as f64;
    if near == 0.0 {
        return false;
    }
    let difference = (number - near).abs();
    difference / (number.abs() + near.abs()) < 1e-9
}

/// Whether Go's reflection makes of a value one that equals the given one.
fn converts_to(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Number(value), Value::Number(other)) => match (Num::of(value), Num::of(other)) {
            (Num::Int(value), Num::Int(other)) => value == other,
            (Num::Float(value), Num::Float(other)) => value == other,
            (value @ Num::Int(_), Num::Float(other)) => value.as_f64() == other,
            (Num::Float(value), Num::Int(other)) => go_int(value) == other,
        },
        // An integer is converted to the text with that code point.
        (Value::Number(value), Value::String(other)) => value.as_i64().is_some_and(|value| {
            let point = u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            let mut bytes = [0; 4];
            point.encode_utf8(&mut bytes) == other
        }),
        (Value::Null, _) => false,
        (value, other) => value == other,
    }
}

/// The items of an old list by their keys.
struct OldList<'a> {
    node: &'a Node,
    items: HashMap<String, &'a Value>,
}

impl<'a> OldList<'a> {
    /// `None` if items of such a list can't be found again.
    fn new(node: &'a Node, old: &'a Value) -> Option<Self> {
        let items = old.as_array()?;
        if node.list_type() != Some(ListType::Map) || node.kind != Some(Type::Array) || node.items().is_none()
        {
            return None;
        }
        let mut all = HashMap::with_capacity(items.len());
        for item in items {
            if let Some(key) = item_key(node, item) {
                all.entry(key).or_insert(item);
            }
        }
        Some(Self { node, items: all })
    }

    fn find(&self, item: &Value) -> Option<Old<'a>> {
        let value = self.items.get(&item_key(self.node, item)?)?;
        Some(Old { value, node: self.node.items()? })
    }
}

fn item_key(node: &Node, item: &Value) -> Option<String> {
    let members = item.as_object()?;
    let mut key = String::new();
    let is_only_key = node.list_map_keys().len() == 1;
    for name in node.list_map_keys() {
        key.push('\0');
        match members.get(name)? {
            Value::Bool(value) => key.push_str(if *value { "true" } else { "false" }),
            Value::String(value) => key.push_str(&quote(value)),
            Value::Number(number) => {
                let _ = match Num::of(number) {
                    Num::Int(number) => write!(key, "{number}"),
                    Num::Float(number) if is_only_key => write!(key, "{number:?}"),
                    Num::Float(number) => write!(key, "{number:.6}"),
                };
            }
            _ => return None,
        }
    }
    (!key.is_empty()).then_some(key)
}

/// Whether a value is what it was, items of maps in any order. Members without a schema are taken as changed.
fn unchanged(node: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(before)) => {
            if new.len() != before.len() {
                return false;
            }
            if node.list_type() != Some(ListType::Map) {
                return new == before;
            }
            if new.is_empty() {
                return true;
            }
            OldList::new(node, old).is_some_and(|before| {
                new.iter()
                    .all(|item| before.find(item).is_some_and(|old| unchanged(old.node, item, old.value)))
            })
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, new)| match (old.get(key), node.member(key)) {
                    (Some(old), Some(node)) => unchanged(node, new, old),
                    _ => false,
                })
        }
        _ => new == old,
    }
}
