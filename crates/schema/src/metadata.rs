//! Metadata of whole resources and of those embedded in them: `ObjectMeta`, read as Go reads it.

use serde_json::{Map, Number, Value};
use settled_apimachinery::field::{Error as FieldError, Path, to_aggregate};
use settled_apimachinery::group_version::GroupVersion;
use settled_apimachinery::object_meta::validate_object_meta;
use settled_apimachinery::validation;
use settled_go::Num;
use settled_go::strconv::quote;

use crate::formats::{date, days_in};
use crate::node::{Node, Schema};

impl Schema {
    /// Checks the types of `apiVersion`, `kind` and `metadata` of embedded resources, with `root` also of the object itself, and
    /// rewrites metadata as upstream's structure has it: what is unknown or empty goes, times are in UTC. Gives the sorted
    /// paths of what was unknown. With `drop_malformed`, fields of the wrong type go, too, and nothing is an error.
    ///
    /// # Errors
    ///
    /// Fields of the wrong type. Upstream reports any one of them. The object is then partly rewritten.
    pub fn coerce_metadata(
        &self,
        object: &mut Value,
        root: bool,
        drop_malformed: bool,
    ) -> Result<Vec<String>, Vec<FieldError>> {
        let mut coercer = Coercer { drop: drop_malformed, ..Coercer::default() };
        coercer.coerce(object, self.root(), root, &Path::Nil);
        if coercer.errors.is_empty() {
            coercer.unknown.sort_unstable();
            Ok(coercer.unknown)
        } else {
            Err(coercer.errors)
        }
    }

    /// Checks the metadata of embedded resources, with `root` also that of the object itself as of one of them: names are
    /// checked as parts of paths.
    pub fn validate_metadata(&self, object: &Value, root: bool) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate(object, self.root(), root, &Path::Nil, &mut errors);
        errors
    }
}

#[derive(Default)]
struct Coercer {
    drop: bool,
    /// Stop at the first error, as upstream: the value that is shown then contains what was not reached as it was.
    first: bool,
    unknown: Vec<String>,
    size: usize,
    errors: Vec<FieldError>,
}

/// So much of paths is kept.
const MAX_PATHS: usize = 1 << 20;

/// Coerces a value below a path; the first error, if there is one.
pub(crate) fn coerce(
    value: &mut Value,
    node: &Node,
    resource: bool,
    drop: bool,
    path: &Path<'_>,
) -> Option<FieldError> {
    let mut coercer = Coercer { drop, first: true, ..Coercer::default() };
    coercer.coerce(value, node, resource, path);
    coercer.errors.into_iter().next()
}

impl Coercer {
    fn coerce(&mut self, value: &mut Value, node: &Node, resource: bool, path: &Path<'_>) {
        if self.is_done() {
            return;
        }
        match value {
            Value::Object(members) => {
                let resource = resource || node.embedded;
                if resource {
                    self.resource(members, path);
                    if self.is_done() {
                        return;
                    }
                }
                for (key, member) in members.iter_mut() {
                    if let Some(child) = node.property(key) {
                        // The metadata is new, and has no resources in it.
                        if !resource || key != "metadata" {
                            self.coerce(member, child, false, &path.child(key));
                        }
                    } else if let Some(child) = node.additional_properties() {
                        self.coerce(member, child, false, &path.key(key));
                    }
                }
            }
            Value::Array(items) => {
                let Some(child) = node.items() else { return };
                for (at, item) in items.iter_mut().enumerate() {
                    self.coerce(item, child, false, &path.index(at));
                }
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.first && !self.errors.is_empty()
    }

    fn resource(&mut self, members: &mut Map<String, Value>, path: &Path<'_>) {
        for name in ["apiVersion", "kind"] {
            let Some(value) = members.get(name) else { continue };
            if value.is_string() {
                continue;
            }
            if self.drop {
                members.remove(name);
            } else {
                let error = FieldError::invalid(path.child(name), value.clone(), "must be a string");
                self.errors.push(error);
            }
        }
        if self.is_done() {
            return;
        }
        let Some(metadata) = members.get("metadata") else { return };
        let at = path.child("metadata");
        let mut read = Read::default();
        let read_whole = read.object_meta(metadata);
        match read_whole {
            Ok(meta) => {
                self.record(&at, read.unknown);
                members.insert("metadata".to_owned(), Value::Object(meta));
            }
            Err(why) if !self.drop => self.errors.push(FieldError::invalid(at, metadata.clone(), why)),
            Err(_) => {
                // Field by field, without those that fail.
                let Value::Object(fields) = metadata else { return };
                let mut all = Map::new();
                for (key, field) in fields {
                    let single = Value::Object(Map::from_iter([(key.clone(), field.clone())]));
                    let mut read = Read::default();
                    if let Ok(meta) = read.object_meta(&single) {
                        self.record(&at, read.unknown);
                        all.extend(meta);
                    }
                }
                members.insert("metadata".to_owned(), Value::Object(all));
            }
        }
    }

    fn record(&mut self, at: &Path<'_>, unknown: Vec<String>) {
        for path in unknown {
            if self.size < MAX_PATHS {
                let path = format!("{at}.{path}");
                self.size += path.len();
                self.unknown.push(path);
            }
        }
    }
}

/// The types of Go's fields.
enum Field {
    /// With the name of the type.
    Text(&'static str),
    Int,
    /// A pointer to an integer.
    IntPointer,
    Flag,
    Time,
    Texts,
    TextMap,
    Structs(&'static str, &'static [(&'static str, Self)]),
    Raw,
}

const OWNER: &[(&str, Field)] = &[
    ("apiVersion", Field::Text("string")),
    ("blockOwnerDeletion", Field::Flag),
    ("controller", Field::Flag),
    ("kind", Field::Text("string")),
    ("name", Field::Text("string")),
    ("uid", Field::Text("types.UID")),
];

const MANAGED: &[(&str, Field)] = &[
    ("apiVersion", Field::Text("string")),
    ("fieldsType", Field::Text("string")),
    ("fieldsV1", Field::Raw),
    ("manager", Field::Text("string")),
    ("operation", Field::Text("v1.ManagedFieldsOperationType")),
    ("subresource", Field::Text("string")),
    ("time", Field::Time),
];

const META: &[(&str, Field)] = &[
    ("annotations", Field::TextMap),
    ("creationTimestamp", Field::Time),
    ("deletionGracePeriodSeconds", Field::IntPointer),
    ("deletionTimestamp", Field::Time),
    ("finalizers", Field::Texts),
    ("generateName", Field::Text("string")),
    ("generation", Field::Int),
    ("labels", Field::TextMap),
    ("managedFields", Field::Structs("ManagedFieldsEntry", MANAGED)),
    ("name", Field::Text("string")),
    ("namespace", Field::Text("string")),
    ("ownerReferences", Field::Structs("OwnerReference", OWNER)),
    ("resourceVersion", Field::Text("string")),
    ("selfLink", Field::Text("string")),
    ("uid", Field::Text("types.UID")),
];

/// Go's decoder. It goes on after a wrong type, and stops at a time that cannot be parsed.
#[derive(Default)]
struct Read {
    unknown: Vec<String>,
    wrong: Option<String>,
    size: usize,
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

impl Read {
    fn object_meta(&mut self, value: &Value) -> Result<Map<String, Value>, String> {
        let Value::Object(members) = value else {
            if value.is_null() {
                return Ok(Map::new());
            }
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
                kind_of(value)
            ));
        };
        let mut meta = self.structure("ObjectMeta", "", "", META, members)?;
        if let Some(why) = self.wrong.take() {
            return Err(why);
        }
        // Empty values are left out, those behind a pointer are not.
        meta.retain(|key, value| {
            let pointer = matches!(key.as_str(), "deletionTimestamp" | "deletionGracePeriodSeconds");
            pointer || !is_empty(value)
        });
        Ok(meta)
    }

    fn mismatch(&mut self, value: &str, owner: &str, path: &str, kind: &str) {
        if self.wrong.is_none() {
            let text =
                format!("json: cannot unmarshal {value} into Go struct field {owner}.{path} of type {kind}");
            self.wrong = Some(text);
        }
    }

    /// `path` has no places in lists, `at` has them.
    fn structure(
        &mut self,
        owner: &str,
        path: &str,
        at: &str,
        fields: &[(&str, Field)],
        members: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let mut read = Map::new();
        for (key, value) in members {
            let join = |parent: &str| if parent.is_empty() { key.clone() } else { format!("{parent}.{key}") };
            let Some((_, field)) = fields.iter().find(|(name, _)| name == key) else {
                let at = join(at);
                self.size += at.len();
                if self.size < MAX_PATHS {
                    self.unknown.push(at);
                }
                continue;
            };
            if value.is_null() {
                continue;
            }
            let path = join(path);
            if let Some(value) = self.field(owner, &path, &join(at), field, value)? {
                read.insert(key.clone(), value);
            }
        }
        Ok(read)
    }

    fn text(&mut self, owner: &str, path: &str, kind: &str, value: &Value) -> Option<Value> {
        match value {
            Value::String(_) => Some(value.clone()),
            Value::Null => Some("".into()),
            other => {
                self.mismatch(&kind_of(other), owner, path, kind);
                None
            }
        }
    }

    fn field(
        &mut self,
        owner: &str,
        path: &str,
        at: &str,
        field: &Field,
        value: &Value,
    ) -> Result<Option<Value>, String> {
        Ok(match (field, value) {
            (Field::Text(kind), value) => self.text(owner, path, kind, value),
            (Field::Int | Field::IntPointer, Value::Number(number)) => match Num::of(number) {
                Num::Int(number) => Some(number.into()),
                Num::Float(_) => {
                    let number = settled_go::json::to_string(value);
                    self.mismatch(&format!("number {number}"), owner, path, "int64");
                    None
                }
            },
            (Field::Flag, Value::Bool(_)) | (Field::Raw, _) => Some(value.clone()),
            (Field::Time, Value::String(text)) => Some(time(text)?.into()),
            // It ends the decoding, whatever was wrong before.
            (Field::Time, value) => {
                self.wrong = None;
                self.mismatch(&kind_of(value), owner, path, "string");
                return Err(self.wrong.take().unwrap_or_default());
            }
            (Field::Texts, Value::Array(items)) => {
                let items = items.iter();
                Some(items.filter_map(|item| self.text(owner, path, "string", item)).collect())
            }
            (Field::TextMap, Value::Object(members)) => {
                let mut read = Map::new();
                for (key, value) in members {
                    if let Some(value) = self.text(owner, path, "string", value) {
                        read.insert(key.clone(), value);
                    }
                }
                Some(Value::Object(read))
            }
            (Field::Structs(name, fields), Value::Array(items)) => {
                let mut all = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    let nothing = Map::new();
                    let members = match item {
                        Value::Object(members) => members,
                        Value::Null => &nothing,
                        other => {
                            self.mismatch(&kind_of(other), owner, path, &format!("v1.{name}"));
                            continue;
                        }
                    };
                    let mut item = self.structure(name, path, &format!("{at}[{index}]"), fields, members)?;
                    if *name == "OwnerReference" {
                        for required in ["apiVersion", "kind", "name", "uid"] {
                            item.entry(required).or_insert_with(|| "".into());
                        }
                    } else {
                        item.retain(|key, value| key == "time" || key == "fieldsV1" || !is_empty(value));
                    }
                    all.push(Value::Object(item));
                }
                Some(Value::Array(all))
            }
            (field, value) => {
                let kind = match field {
                    Field::Int | Field::IntPointer => "int64".to_owned(),
                    Field::Flag => "bool".to_owned(),
                    Field::Texts => "[]string".to_owned(),
                    Field::TextMap => "map[string]string".to_owned(),
                    Field::Structs(name, _) => format!("[]v1.{name}"),
                    Field::Text(_) | Field::Time | Field::Raw => String::new(),
                };
                self.mismatch(&kind_of(value), owner, path, &kind);
                None
            }
        })
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => *value == Number::from(0),
        Value::String(value) => value.is_empty() || value == "0001-01-01T00:00:00Z",
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

/// A time as RFC 3339, in UTC and without fractions of seconds; an error as `time.Parse` says it.
fn time(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    let cannot = |rest: &str, part: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(text),
            quote(LAYOUT),
            quote(rest),
            quote(part)
        )
    };
    let out = |what: &str| format!("parsing time {}: {what} out of range", quote(text));
    let mut rest = text;
    let mut numbers = [0_i64; 6];
    let parts =
        [(4, "2006", "-"), (2, "01", "-"), (2, "02", "T"), (2, "15", ":"), (2, "04", ":"), (2, "05", "")];
    for (number, (digits, name, separator)) in numbers.iter_mut().zip(parts) {
        let part = rest.get(..digits).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        *number = part.and_then(|part| part.parse().ok()).ok_or_else(|| cannot(rest, name))?;
        rest = &rest[digits..];
        let range = match name {
            "01" => Some((1..=12, "month")),
            "15" => Some((0..=23, "hour")),
            "04" => Some((0..=59, "minute")),
            "05" => Some((0..=59, "second")),
            _ => None,
        };
        if let Some((range, what)) = range
            && !range.contains(number)
        {
            return Err(out(what));
        }
        rest = rest.strip_prefix(separator).ok_or_else(|| cannot(rest, separator))?;
    }
    if rest.starts_with(['.', ',']) {
        let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            rest = &rest[1 + digits..];
        }
    }
    let mut offset = 0;
    if let Some(after) = rest.strip_prefix('Z') {
        rest = after;
    } else {
        let zone = rest.as_bytes();
        let digit =
            |at: usize| zone.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| i64::from(byte - b'0'));
        let (Some(b'+' | b'-'), Some(b':')) = (zone.first(), zone.get(3)) else {
            return Err(cannot(rest, "Z07:00"));
        };
        let (Some(a), Some(b), Some(c), Some(d)) = (digit(1), digit(2), digit(4), digit(5)) else {
            return Err(cannot(rest, "Z07:00"));
        };
        let (hours, minutes) = (a * 10 + b, c * 10 + d);
        if hours > 24 {
            return Err(out("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(out("time zone offset minute"));
        }
        offset = (hours * 60 + minutes) * 60 * if zone[0] == b'-' { -1 } else { 1 };
        rest = &rest[6..];
    }
    if !rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text), quote(rest)));
    }
    if !date(&text[..10]) {
        return Err(out("day"));
    }
    let [year, month, day, hour, minute, second] = numbers;
    Ok(in_utc(year, month, day, hour * 3600 + minute * 60 + second - offset))
}

/// The day, moved where the seconds are beyond it.
fn in_utc(mut year: i64, mut month: i64, mut day: i64, mut seconds: i64) -> String {
    let days = |year: i64, month: i64| {
        let year = u32::try_from(year.rem_euclid(400)).unwrap_or_default();
        i64::from(days_in(year, u32::try_from(month).unwrap_or(1)))
    };
    while seconds < 0 {
        seconds += 86_400;
        day -= 1;
    }
    day += seconds / 86_400;
    seconds %= 86_400;
    if day < 1 {
        month -= 1;
        if month < 1 {
            (year, month) = (year - 1, 12);
        }
        day += days(year, month);
    } else if day > days(year, month) {
        day -= days(year, month);
        month += 1;
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Checks the type and the metadata of embedded resources.
pub(crate) fn validate(
    value: &Value,
    node: &Node,
    resource: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(members) => {
            if resource || node.embedded {
                validate_resource(members, path, errors);
            }
            for (key, member) in members {
                if let Some(child) = node.property(key) {
                    validate(member, child, false, &path.child(key), errors);
                } else if let Some(child) = node.additional_properties() {
                    validate(member, child, false, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = node.items() else { return };
            for (at, item) in items.iter().enumerate() {
                validate(item, child, false, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(members: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let at = path.child(name);
        match members.get(name) {
            None => errors.push(FieldError::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(at, "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" => {
                if let Err(error) = GroupVersion::parse(text) {
                    errors.push(FieldError::invalid(at, text.as_str(), error.to_string()));
                }
            }
            Some(Value::String(text)) => {
                let wrong = validation::is_dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    errors.push(FieldError::invalid(at, text.as_str(), why));
                }
            }
            Some(other) => errors.push(FieldError::invalid(at, other.clone(), "must be a string")),
        }
    }
    let Some(metadata) = members.get("metadata") else { return };
    let at = path.child("metadata");
    match Read::default().object_meta(metadata) {
        Err(why) => errors.push(FieldError::invalid(at, metadata.clone(), why)),
        Ok(mut meta) => {
            if text_of(&meta, "name").is_empty() {
                meta.insert("name".to_owned(), "fakename".into());
            }
            let namespaced = !text_of(&meta, "namespace").is_empty();
            validate_object_meta(&meta, namespaced, &validation::validate_path_segment_name, &at, errors);
        }
    }
}

pub(crate) fn text_of<'m>(members: &'m Map<String, Value>, name: &str) -> &'m str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What a default of metadata amounts to, in one text; `None` if it is right.
pub(crate) fn wrong_default(surrounding: &mut Value, root: &Node) -> Option<String> {
    if let Some(error) = coerce(surrounding, root, true, false, &Path::Nil) {
        return Some(error.to_string());
    }
    let mut errors = Vec::new();
    validate(surrounding, root, true, &Path::Nil, &mut errors);
    (!errors.is_empty()).then(|| to_aggregate(&errors))
}
