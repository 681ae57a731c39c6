//! Object projection: the fields that rules read, in the bytes of an object by their noted positions, or in a parsed value. Nothing is copied.

use std::borrow::Cow;

use serde_json::Value;

use crate::fields::{Field, Parent};
use crate::node::{Elements, Entries, Key, Node, plain_text};
use crate::spans::{CONDITION_KEYS, CONDITIONS, ConditionSpans, Member, PlainType, Span, Spans, read};

/// A field whose place is noted while an object is read: looking it up costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known(Field);

impl Known {
    /// `metadata.annotations`
    pub const ANNOTATIONS: Self = Self(Field::Annotations);
    /// `metadata.generation`
    pub const GENERATION: Self = Self(Field::Generation);
    /// `status`
    pub const STATUS: Self = Self(Field::Status);
    /// `status.conditions`
    pub const CONDITIONS: Self = Self(Field::Conditions);
    /// `status.observedGeneration`
    pub const OBSERVED_GENERATION: Self = Self(Field::ObservedGeneration);

    /// The field `key` of `metadata`, `spec` or `status`, or of the object itself (`parent` is empty); none where its
    /// place is not noted.
    #[must_use]
    pub fn find(parent: &str, key: &str) -> Option<Self> {
        let parent = match parent {
            "" => Parent::Top,
            "metadata" => Parent::Metadata,
            "spec" => Parent::Spec,
            "status" => Parent::Status,
            _ => return None,
        };
        parent.field(key.as_bytes()).map(Self)
    }
}

/// Result of a field lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    Value(Node<'a>),
    /// The field, or its parent, is absent or the parent is null.
    Absent,
    /// The parent is there but is no map.
    BadParent(Node<'a>),
}

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Text(&'a [u8]),
    /// The object, and its metadata, spec and status: looking them up once is half of what a field costs.
    Value(&'a Value, [Option<&'a Value>; 3]),
}

/// An element of `status.conditions`, or of another list of conditions.
#[derive(Clone, Copy, Debug)]
pub struct ConditionFields<'o>(Place<'o>);

#[derive(Clone, Copy, Debug)]
enum Place<'o> {
    /// The object's bytes, and where the element and its members are in them.
    Noted(&'o [u8], &'o (Span, ConditionSpans)),
    Element(Node<'o>),
}

impl<'o> ConditionFields<'o> {
    /// An element of any list of conditions.
    #[must_use]
    pub fn of(element: Node<'o>) -> Self {
        Self(Place::Element(element))
    }

    /// The element itself, of whatever type it is.
    #[inline]
    #[must_use]
    pub fn element(&self) -> Node<'o> {
        match self.0 {
            // One that is noted is there.
            Place::Noted(bytes, (element, _)) => element.of(bytes).unwrap_or(Node::Text(b"null")),
            Place::Element(element) => element,
        }
    }

    /// A member that is there and not null.
    #[inline]
    #[must_use]
    pub fn member(&self, member: Member) -> Option<Node<'o>> {
        match self.0 {
            Place::Noted(bytes, (_, members)) => members.get(member as usize)?.of(bytes),
            Place::Element(element) => {
                let key = CONDITION_KEYS.get(member as usize)?;
                element.get(key).filter(|value| !value.is_null())
            }
        }
    }
}

/// One Kubernetes object, read as far as verdicts need it.
///
/// It borrows the bytes or the parsed value it was read from and copies nothing.
///
/// ```
/// use kstatus::{Object, Options, Status};
/// let object = Object::parse(br#"{"apiVersion":"v1","kind":"Namespace",
///     "metadata":{"name":"shop"},"status":{"phase":"Active"}}"#)?;
/// assert_eq!(object.name().as_deref(), Some("shop"));
/// let verdict = object.verdict(&Options::new("2026-11-21T12:00:00Z".parse().unwrap()));
/// assert_eq!(verdict.status, Status::Current);
/// # Ok::<(), kstatus::ParseError>(())
/// ```
#[derive(Debug)]
pub struct Object<'a> {
    source: Source<'a>,
    spans: Spans,
}

/// Bytes that are not one JSON object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column}")]
pub struct ParseError {
    message: String,
    offset: usize,
    line: usize,
    column: usize,
}

impl ParseError {
    /// Message without the position.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The byte of the input at which it was found, counted from 0.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The line of that byte, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column of that byte, in bytes and counted from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    fn new(message: String, offset: usize, bytes: &[u8]) -> Self {
        let before = bytes.get(..offset).unwrap_or(bytes);
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        Self { message, offset, line, column: before.len() - line_start + 1 }
    }
}

impl<'a> Object<'a> {
    /// Reads the bytes of one JSON object.
    ///
    /// All of the bytes are checked, also those that no rule reads, and nothing but white space may follow the object.
    ///
    /// # Errors
    /// When the bytes are no JSON, hold another JSON value than an object, or are nested deeper than
    /// [`MAX_DEPTH`](crate::MAX_DEPTH) levels.
    pub fn parse(json: &'a [u8]) -> Result<Self, ParseError> {
        let mut object = Self::unread(json);
        object.read()?;
        Ok(object)
    }

    /// As [`parse`](Self::parse), for an object that is needed here only: it is larger than most are in bytes, and is not moved.
    ///
    /// ```
    /// use kstatus::Object;
    /// let name = Object::parse_with(br#"{"metadata":{"name":"shop"}}"#, |object| object.name().map(|name| name.into_owned()))?;
    /// assert_eq!(name.as_deref(), Some("shop"));
    /// # Ok::<(), kstatus::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// As of `parse`.
    pub fn parse_with<R>(json: &'a [u8], body: impl FnOnce(&Self) -> R) -> Result<R, ParseError> {
        let mut object = Self::unread(json);
        object.read()?;
        Ok(body(&object))
    }

    /// An object whose bytes are still to be [read](Self::read): in two steps it is never moved on the way.
    pub(crate) fn unread(json: &'a [u8]) -> Self {
        Self { source: Source::Text(json), spans: Spans::none() }
    }

    /// Notes where everything lies in the bytes.
    pub(crate) fn read(&mut self) -> Result<(), ParseError> {
        let Source::Text(json) = self.source else { return Ok(()) };
        match read(json, &mut self.spans) {
            Ok(None) => Ok(()),
            Ok(Some(kind)) => {
                Err(ParseError::new(format!("expected an object, found {}", kind.name()), 0, json))
            }
            Err(error) => Err(ParseError::new(error.problem.to_string(), error.offset, json)),
        }
    }

    /// Takes a value that is already parsed.
    ///
    /// # Errors
    /// When the value is no object.
    pub fn from_value(value: &'a Value) -> Result<Self, ParseError> {
        if value.is_object() {
            let parents = ["metadata", "spec", "status"].map(|key| value.get(key));
            return Ok(Self { source: Source::Value(value, parents), spans: Spans::none() });
        }
        let message = format!("expected an object, found {}", Node::Value(value).kind().name());
        Err(ParseError { message, offset: 0, line: 1, column: 1 })
    }

    /// `apiVersion`, where it is a string.
    #[must_use]
    pub fn api_version(&self) -> Option<Cow<'a, str>> {
        self.get(Field::ApiVersion)?.as_str()
    }

    /// `kind`, where it is a string.
    #[must_use]
    pub fn kind(&self) -> Option<Cow<'a, str>> {
        self.get(Field::ObjectKind)?.as_str()
    }

    /// `metadata.namespace`, where it is a string.
    #[must_use]
    pub fn namespace(&self) -> Option<Cow<'a, str>> {
        self.get(Field::Namespace)?.as_str()
    }

    /// `metadata.name`, where it is a string.
    #[must_use]
    pub fn name(&self) -> Option<Cow<'a, str>> {
        self.get(Field::Name)?.as_str()
    }

    /// The field's value, null included; none where it is absent or its parent is no map.
    #[inline]
    pub(crate) fn get(&self, field: Field) -> Option<Node<'a>> {
        match self.source {
            Source::Text(bytes) => self.spans.fields.get(field as usize)?.of(bytes),
            Source::Value(value, [metadata, spec, status]) => {
                let parent = match field.parent() {
                    Parent::Top => Some(value),
                    Parent::Metadata => metadata,
                    Parent::Spec => spec,
                    Parent::Status => status,
                };
                parent?.get(field.key()).map(Node::Value)
            }
        }
    }

    /// Position of the field's value in the object's bytes.
    pub(crate) fn span(&self, field: Field) -> Option<(usize, usize)> {
        let span = self.spans.fields.get(field as usize).filter(|span| span.end > 0)?;
        Some((span.start as usize, span.end as usize))
    }

    /// The object itself.
    #[must_use]
    pub fn root(&self) -> Node<'a> {
        match self.source {
            Source::Text(bytes) => Node::Text(bytes.trim_ascii()),
            Source::Value(value, _) => Node::Value(value),
        }
    }

    /// The value of a field whose place was noted, null included.
    ///
    /// ```
    /// use kstatus::{Known, Object};
    /// let phase = Known::find("status", "phase").unwrap();
    /// let object = Object::parse(br#"{"status":{"phase":"Up"}}"#)?;
    /// assert!(object.known(phase).unwrap().is("Up"));
    /// # Ok::<(), kstatus::ParseError>(())
    /// ```
    #[must_use]
    pub fn known(&self, field: Known) -> Option<Node<'a>> {
        self.get(field.0)
    }

    /// The API group and the kind, as far as they are text.
    #[must_use]
    pub fn type_names(&self) -> (Cow<'a, str>, Cow<'a, str>) {
        let (group, kind) = self.group_kind();
        let text = |bytes: Cow<'a, [u8]>| match bytes {
            Cow::Borrowed(bytes) => plain_text(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        };
        (text(group), text(kind))
    }

    /// The members of `spec` or `status` whose places are not [`Known`], as they are written, in their order. None where they were not noted:
    /// then [`Node::entries`] of the map has them.
    ///
    /// ```
    /// use kstatus::{Known, Object};
    /// let object = Object::parse(br#"{"status":{"phase":"Up","disks":3}}"#)?;
    /// let disks = object.others(Known::STATUS).unwrap().next().unwrap();
    /// assert_eq!((disks.0, disks.1.as_int()), (&b"disks"[..], Some(3)));
    /// # Ok::<(), kstatus::ParseError>(())
    /// ```
    #[must_use]
    pub fn others(&self, parent: Known) -> Option<OtherMembers<'_, 'a>> {
        let Source::Text(bytes) = self.source else { return None };
        let [spec, status] = &self.spans.others;
        let others = match parent.0 {
            Field::Spec => spec,
            Field::Status => status,
            _ => return None,
        };
        Some(OtherMembers { bytes, noted: others.spans.get(..others.length)?.iter() })
    }

    /// The members of `spec` or `status`, [known](Known) ones first. Where they were noted, the bytes are not gone over again,
    /// and of the known ones only those come that have a bit in `fields`.
    pub(crate) fn members(&self, parent: Parent, fields: u128) -> ObjectMembers<'_, 'a> {
        let top = parent.field_of_top();
        match top.and_then(|field| self.others(Known(field))) {
            Some(others) => {
                let known = self.spans.present & parent.mask() & fields;
                ObjectMembers::Noted { object: self, known, others }
            }
            None => ObjectMembers::Map(top.and_then(|field| self.get(field)).map(Node::entries)),
        }
    }

    /// The elements of `status.conditions`; none where it is no list.
    pub fn conditions(&self) -> ConditionElements<'_, 'a> {
        let (bytes, noted) = match self.source {
            Source::Text(bytes) => (bytes, self.spans.conditions_length.min(CONDITIONS)),
            Source::Value(..) => (&[][..], 0),
        };
        let has_more = matches!(self.source, Source::Value(..)) || self.spans.conditions_length > noted;
        let list = if has_more { self.get(Field::Conditions) } else { None };
        ConditionElements {
            bytes,
            noted: self.spans.conditions.get(..noted).unwrap_or_default().iter(),
            rest: list.map(|list| list.elements().skip(noted)),
        }
    }

    /// The first of `status.conditions` with a type.
    ///
    /// ```
    /// use kstatus::{Member, Object};
    /// let object = Object::parse(br#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#)?;
    /// let ready = object.condition("Ready").unwrap();
    /// assert!(ready.member(Member::Status).unwrap().is("True"));
    /// # Ok::<(), kstatus::ParseError>(())
    /// ```
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<ConditionFields<'_>> {
        if let Source::Text(bytes) = self.source
            && let Some(noted) = self.spans.conditions.get(..self.spans.conditions_length)
        {
            let noted = noted.iter().find(|(_, spans)| {
                let Some(span) = spans.get(Member::Type as usize) else { return false };
                // A string has two quotes, and is longer if it holds escapes.
                let length = (span.end as usize).wrapping_sub(span.start as usize);
                length >= type_.len() + 2 && span.of(bytes).is_some_and(|found| found.is(type_))
            })?;
            return Some(ConditionFields(Place::Noted(bytes, noted)));
        }
        self.conditions().find(|condition| condition.member(Member::Type).is_some_and(|node| node.is(type_)))
    }

    /// Whether `apiVersion` and `kind` are non-empty strings of the usual form.
    pub(crate) fn is_plainly_typed(&self) -> bool {
        let has_version = self.span(Field::ApiVersion).is_some_and(|(start, end)| end - start > 2);
        has_version && self.spans.plain_type.is_some_and(|PlainType { kind, .. }| kind.end > kind.start)
    }

    /// The field's value, telling an absent field from one whose parent is no map.
    pub(crate) fn find(&self, field: Field) -> Found<'a> {
        if let Some(value) = self.get(field) {
            return Found::Value(value);
        }
        if matches!(self.source, Source::Text(_)) && !self.spans.has_odd_parent {
            return Found::Absent;
        }
        match field.parent().field_of_top().and_then(|parent| self.get(parent)) {
            Some(parent) if !parent.is_map() && !parent.is_null() => Found::BadParent(parent),
            _ => Found::Absent,
        }
    }

    /// API group and kind as upstream reads them: an `apiVersion` with more than one slash leaves both empty.
    ///
    /// As bytes: they are compared with known names, and checking that they are UTF-8 would cost more than that. As
    /// text see [`type_names`](Self::type_names).
    #[must_use]
    pub fn group_kind(&self) -> (Cow<'a, [u8]>, Cow<'a, [u8]>) {
        if let (Source::Text(bytes), Some(PlainType { group, kind })) = (self.source, self.spans.plain_type) {
            let text = |span: Span| Cow::Borrowed(span.text(bytes).unwrap_or_default());
            return (text(group), text(kind));
        }
        let kind = || self.bytes_of(Field::ObjectKind);
        let version = self.bytes_of(Field::ApiVersion);
        let (mut slashes, mut last) = (0usize, 0);
        for (at, byte) in version.iter().enumerate() {
            if *byte == b'/' {
                (slashes, last) = (slashes + 1, at);
            }
        }
        match (slashes, last) {
            (0, _) => (Cow::Borrowed(b""), kind()),
            (1, at) => {
                let group = match version {
                    Cow::Borrowed(version) => Cow::Borrowed(version.get(..at).unwrap_or_default()),
                    Cow::Owned(mut version) => {
                        version.truncate(at);
                        Cow::Owned(version)
                    }
                };
                (group, kind())
            }
            _ => Default::default(),
        }
    }

    /// The bytes of a string; empty where it is none.
    fn bytes_of(&self, field: Field) -> Cow<'a, [u8]> {
        let Some(node) = self.get(field) else { return Cow::Borrowed(b"") };
        match node.plain() {
            Some(bytes) => Cow::Borrowed(bytes),
            None => Cow::Owned(node.as_str().unwrap_or_default().into_owned().into_bytes()),
        }
    }
}

/// The members of a map that were noted: keys without their quotes, and values.
#[derive(Debug)]
pub struct OtherMembers<'o, 'a> {
    bytes: &'a [u8],
    noted: std::slice::Iter<'o, (Span, Span)>,
}

impl<'a> Iterator for OtherMembers<'_, 'a> {
    type Item = (&'a [u8], Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.noted.next()?;
        Some((key.text(self.bytes)?, value.of(self.bytes)?))
    }
}

/// The members of `spec` or `status`.
pub(crate) enum ObjectMembers<'o, 'a> {
    Noted {
        object: &'o Object<'a>,
        /// A bit for each field that is still to come.
        known: u128,
        others: OtherMembers<'o, 'a>,
    },
    Map(Option<Entries<'a>>),
}

impl<'a> Iterator for ObjectMembers<'_, 'a> {
    type Item = (Key<'a>, Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Noted { object, known, others } => {
                if *known == 0 {
                    // One that is written with escapes is not noted.
                    return others.next().map(|(key, value)| (Key::of_plain(key), value));
                }
                let field = Field::at(known.trailing_zeros() as usize)?;
                *known &= *known - 1;
                Some((Key::of_text(field.key()), object.get(field)?))
            }
            Self::Map(entries) => entries.as_mut()?.next(),
        }
    }
}

/// The conditions: first those that were noted, then those that must be looked for.
#[derive(Debug)]
pub struct ConditionElements<'o, 'a> {
    bytes: &'a [u8],
    noted: std::slice::Iter<'o, (Span, ConditionSpans)>,
    rest: Option<std::iter::Skip<Elements<'a>>>,
}

impl<'o, 'a: 'o> Iterator for ConditionElements<'o, 'a> {
    type Item = ConditionFields<'o>;

    #[inline]
    fn next(&mut self) -> Option<ConditionFields<'o>> {
        if let Some(noted) = self.noted.next() {
            return Some(ConditionFields(Place::Noted(self.bytes, noted)));
        }
        Some(ConditionFields::of(self.rest.as_mut()?.next()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_parents_the_last_counts_whole() {
        let object = Object::parse(
            br#"{"metadata":{"name":"a","namespace":"n"},"metadata":{"name":"b"},"st\u0061tus":{"phase":"x"},"spec":1}"#,
        )
        .unwrap();
        assert_eq!(object.name().as_deref(), Some("b"));
        assert_eq!(object.namespace(), None);
        assert_eq!(object.get(Field::Phase).and_then(Node::as_str).as_deref(), Some("x"));
        assert!(matches!(object.find(Field::Paused), Found::BadParent(_)));
        assert!(matches!(object.find(Field::Generation), Found::Absent));
    }

    #[test]
    fn other_members_are_those_that_are_no_fields() {
        let many: String = (0..13).map(|number| format!("\"m{number}\":{number},")).collect();
        for status in [
            "{}",
            "null",
            "3",
            r#"{"phase":"Up"}"#,
            r#"{"a":1,"phase":"Up","b":{"c":[1,{"a":2}]},"a":null,"":"x" , "d" : "é\n" }"#,
            &format!("{{{many}\"phase\":\"Up\"}}"),
            r#"{"\u0061":1}"#,
            r#"{"a":1},"status":{"b":2}"#,
            r#"{"a":1},"status":null"#,
        ] {
            let json = format!("{{\"status\":{status}}}");
            let object = Object::parse(json.as_bytes()).unwrap();
            let is_field = |key: &str| Parent::Status.field(key.as_bytes()).is_some();
            let members = object.get(Field::Status).unwrap().members().filter(|(key, _)| !is_field(key));
            let mut last: Vec<(String, String)> = Vec::new();
            for (key, value) in members {
                let value = format!("{value:?}");
                match last.iter_mut().find(|(known, _)| *known == *key) {
                    Some((_, old)) => *old = value,
                    None => last.push((key.into_owned(), value)),
                }
            }
            let expected: Vec<String> = last.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            match object.others(Known::STATUS) {
                Some(others) => {
                    let text = |key| std::str::from_utf8(key).unwrap();
                    let found: Vec<String> =
                        others.map(|(key, value)| format!("{}: {value:?}", text(key))).collect();
                    assert_eq!(found, expected, "{status}");
                }
                None => assert!(expected.len() > 12 || status.contains('\\'), "{status}"),
            }
        }
        assert!(Object::parse(b"{}").unwrap().others(Known::STATUS).unwrap().next().is_none());
        assert!(Object::parse(b"{}").unwrap().others(Known::GENERATION).is_none());
    }

    #[test]
    fn group_and_kind_are_those_of_the_parsed_object() {
        let long = format!("{}/v1", "a".repeat(80));
        for version in
            ["v1", "", "/", "apps/v1", "apps/", "/v1", "a/b/c", "a\\u002fb", "\\u0061/v1", "é/v1", &long]
        {
            for kind in ["\"Pod\"", "\"\"", "\"P\\u006fd\"", "null", "3"] {
                for padding in [0, 100] {
                    let space = " ".repeat(padding);
                    let json = format!("{{\"kind\":{kind},\"apiVersion\":\"{version}\"{space}}}");
                    let value = serde_json::from_str(&json).unwrap();
                    let expected = Object::from_value(&value).unwrap().group_kind();
                    assert_eq!(Object::parse(json.as_bytes()).unwrap().group_kind(), expected, "{json}");
                }
            }
        }
        for json in [&b"{}"[..], b"{\"apiVersion\":3,\"kind\":\"Pod\"}", b"{\"kind\":\"Pod\"}"] {
            let value = serde_json::from_slice(json).unwrap();
            let expected = Object::from_value(&value).unwrap().group_kind();
            assert_eq!(Object::parse(json).unwrap().group_kind(), expected);
        }
    }

    #[test]
    fn conditions_are_found_by_their_type() {
        let filler: String = (0..9).map(|number| format!("{{\"type\":\"C{number}\"}},")).collect();
        for before in ["", "3,{},{\"type\":null},{\"type\":4},", "{\"type\":\"Unready\"},", &filler] {
            for type_ in ["Ready", "Re\\u0061dy"] {
                let json = format!(
                    "{{\"status\":{{\"conditions\":[{before}{{\"status\":\"True\",\"type\":\"{type_}\"}},{{\"type\":\"Ready\"}}]}}}}"
                );
                let object = Object::parse(json.as_bytes()).unwrap();
                let status = object.condition("Ready").unwrap().member(Member::Status).unwrap();
                assert!(status.is("True"), "{json}");
                assert!(object.condition("Read").is_none() && object.condition("").is_none());
            }
        }
    }

    #[test]
    fn depth_is_bounded_wherever_it_is_reached() {
        for path in [&["x"][..], &["status"], &["status", "x"], &["status", "conditions"], &["metadata", "x"]]
        {
            for (levels, fits) in [(crate::MAX_DEPTH, true), (crate::MAX_DEPTH + 1, false)] {
                let open: String = path.iter().map(|key| format!("{{\"{key}\":")).collect();
                let lists = levels - path.len();
                let json = [open, "[".repeat(lists), "]".repeat(lists), "}".repeat(path.len())].concat();
                assert_eq!(Object::parse(json.as_bytes()).is_ok(), fits, "{path:?} {levels}");
            }
        }
    }

    #[test]
    fn errors_say_where() {
        let error = Object::parse(b"{\n  \"kind\": tru\n}").unwrap_err();
        assert_eq!(error.to_string(), "expected `true`, `false` or `null` at line 2 column 11");
        assert_eq!(
            Object::parse(b" [1]").unwrap_err().to_string(),
            "expected an object, found a list at line 1 column 1"
        );
        assert_eq!(
            Object::parse(b"{").unwrap_err().to_string(),
            "unexpected end of input at line 1 column 2"
        );
    }
}
