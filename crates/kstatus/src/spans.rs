//! Positions of the fields that rules read, and the pass over the bytes that notes them and skips the rest.

use crate::block::slashes_and_backslashes;
use crate::fields::{FIELDS, Field, Parent};
use crate::json::{Cursor, Invalid, RawString, SyntaxError};
use crate::node::{Kind, Node, same, unescape};

/// Position of a field's value in the bytes; empty if the field is absent, since a JSON value has at least one byte.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// The members of a condition that rules read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// `type`
    Type,
    /// `status`
    Status,
    /// `reason`
    Reason,
    /// `message`
    Message,
    /// `observedGeneration`
    ObservedGeneration,
    /// `lastTransitionTime`
    LastTransitionTime,
    /// `severity`, which Cluster API sets
    Severity,
}

/// Their keys, in the order of [`Member`].
pub(crate) const CONDITION_KEYS: [&str; 7] =
    ["type", "status", "reason", "message", "observedGeneration", "lastTransitionTime", "severity"];

/// Length and first letter tell them apart, so there is one comparison.
#[inline]
fn member_named(key: &[u8]) -> Option<Member> {
    let member = match (key.len(), key.first()?) {
        (4, _) => Member::Type,
        (6, b's') => Member::Status,
        (6, _) => Member::Reason,
        (7, _) => Member::Message,
        (8, _) => Member::Severity,
        (18, b'o') => Member::ObservedGeneration,
        (18, _) => Member::LastTransitionTime,
        _ => return None,
    };
    same(key, CONDITION_KEYS.get(member as usize)?.as_bytes()).then_some(member)
}

pub(crate) type ConditionSpans = [Span; CONDITION_KEYS.len()];

/// Hardly any object has more conditions; those beyond are looked for again when they are asked for.
pub(crate) const CONDITIONS: usize = 8;

/// Hardly any spec or status has more members that are no [`Field`]; one that has is gone over again when it is asked for.
const OTHERS: usize = 12;

/// Positions of the members of a map that are no [`Field`]: custom rules read them, and the map need not be gone over again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others {
    /// The inside of the key, and the value.
    pub(crate) spans: [(Span, Span); OTHERS],
    /// Number of such members. Larger if not all of them are noted.
    pub(crate) length: usize,
    /// A bit for each key that may be there: length and letters of a key make one.
    seen: u64,
}

impl Others {
    const NONE: Self = Self { spans: [(Span::NONE, Span::NONE); OTHERS], length: 0, seen: 0 };
    /// The length if there are members that cannot be noted.
    const PARTIAL: usize = usize::MAX / 2;

    #[inline]
    fn note(&mut self, bytes: &[u8], key: Span, value: Span) {
        let name = key.text(bytes).unwrap_or_default();
        let letter = |at: Option<&u8>| usize::from(at.copied().unwrap_or_default());
        let bit = 1u64 << ((name.len() ^ letter(name.first()) ^ (letter(name.last()) << 2)) % 64);
        if self.seen & bit != 0 {
            let mut noted = self.spans.iter_mut().take(self.length);
            // Of two members with one key the last counts.
            if let Some((_, old)) = noted.find(|(known, _)| known.text(bytes) == Some(name)) {
                *old = value;
                return;
            }
        }
        self.seen |= bit;
        if let Some(noted) = self.spans.get_mut(self.length) {
            *noted = (key, value);
        }
        self.length += 1;
    }
}

/// There is a bit for each field.
const _: () = assert!(FIELDS <= u128::BITS as usize);

/// Positions of all fields that rules read.
#[derive(Debug)]
pub(crate) struct Spans {
    pub(crate) fields: [Span; FIELDS],
    /// A bit for each field that is there.
    pub(crate) present: u128,
    /// The first conditions: the element and its members.
    pub(crate) conditions: [(Span, ConditionSpans); CONDITIONS],
    /// Number of conditions.
    pub(crate) conditions_length: usize,
    /// Of `spec` and `status`.
    pub(crate) others: [Others; 2],
    /// Whether `metadata`, `spec` or `status` may be something else than a map.
    pub(crate) has_odd_parent: bool,
    /// Whether `apiVersion` and `kind` are strings without escapes, and where the only slash of the former is in the bytes.
    pub(crate) plain_type: Option<PlainType>,
}

/// API group and kind, if both are written without escapes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainType {
    pub(crate) group: Span,
    pub(crate) kind: Span,
}

impl Spans {
    pub(crate) const fn none() -> Self {
        Self {
            fields: [Span::NONE; FIELDS],
            present: 0,
            conditions: [(Span::NONE, [Span::NONE; CONDITION_KEYS.len()]); CONDITIONS],
            conditions_length: 0,
            others: [Others::NONE; 2],
            has_odd_parent: false,
            plain_type: None,
        }
    }

    /// The other members of `spec` or `status`.
    #[inline]
    fn others(&mut self, parent: Parent) -> Option<&mut Others> {
        let [spec, status] = &mut self.others;
        match parent {
            Parent::Spec => Some(spec),
            Parent::Status => Some(status),
            Parent::Top | Parent::Metadata => None,
        }
    }

    /// Forgets what lies in `parent`: of two members with one key the last counts, whole.
    fn forget(&mut self, parent: Parent) {
        let mut there = self.present & parent.mask();
        self.present &= !there;
        while there != 0 {
            if let Some(span) = self.fields.get_mut(there.trailing_zeros() as usize) {
                *span = Span::NONE;
            }
            there &= there - 1;
        }
        if parent == Parent::Status {
            self.conditions_length = 0;
        }
        if let Some(others) = self.others(parent) {
            (others.length, others.seen) = (0, 0);
        }
    }
}

impl Span {
    const NONE: Self = Self { start: 0, end: 0 };

    /// Offsets past 4 GiB are not kept: such a value reads as absent. Readers bound objects far below.
    fn new(start: usize, end: usize) -> Self {
        match u32::try_from(end) {
            // It does not begin after its end.
            Ok(end) => Self { start: start as u32, end },
            Err(_) => Self::default(),
        }
    }

    #[inline]
    pub(crate) fn of(self, bytes: &[u8]) -> Option<Node<'_>> {
        if self.end == 0 {
            return None;
        }
        self.text(bytes).map(Node::Text)
    }

    #[inline]
    pub(crate) fn text(self, bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(self.start as usize..self.end as usize)
    }
}

/// Notes the spans of the fields; gives the kind of the value where it is no object.
pub(crate) fn read(json: &[u8], spans: &mut Spans) -> Result<Option<Kind>, SyntaxError> {
    let mut cursor = Cursor::new(json);
    read_document(&mut cursor, spans).map_err(|Invalid| cursor.error())
}

fn read_document(cursor: &mut Cursor<'_>, spans: &mut Spans) -> Result<Option<Kind>, Invalid> {
    if cursor.peek() != Some(b'{') {
        let value = cursor.skip()?;
        cursor.finish()?;
        return Ok(Some(Node::Text(value).kind()));
    }
    read_map(cursor, Parent::Top, spans)?;
    cursor.finish()?;
    spans.plain_type = plain_type(cursor.bytes(), spans);
    Ok(None)
}

/// The places of group and kind. None where one of them is no string, is written with escapes, or is unusually long.
fn plain_type(bytes: &[u8], spans: &Spans) -> Option<PlainType> {
    let inside = |field: Field| {
        let Span { start, end } = *spans.fields.get(field as usize)?;
        let quoted = bytes.get(start as usize) == Some(&b'"');
        // A value has at least one byte, a string two.
        quoted.then(|| Span { start: start + 1, end: end.saturating_sub(1) })
    };
    let (version, kind) = (inside(Field::ApiVersion)?, inside(Field::ObjectKind)?);
    let masks = |span: Span| slashes_and_backslashes(bytes, span.start as usize, span.end as usize);
    let (slash, version_escapes) = masks(version)?;
    let (_, kind_escapes) = masks(kind)?;
    // An apiVersion with two slashes has no group, and leaves the kind empty.
    if version_escapes | kind_escapes != 0 || slash & slash.wrapping_sub(1) != 0 {
        return None;
    }
    let length = if slash == 0 { 0 } else { slash.trailing_zeros() };
    Some(PlainType { group: Span { start: version.start, end: version.start + length }, kind })
}

/// Reads the map at the cursor. Recursion ends at the second level: only the object itself has parents in it.
fn read_map(cursor: &mut Cursor<'_>, parent: Parent, spans: &mut Spans) -> Result<(), Invalid> {
    cursor.enter();
    let mut first = true;
    loop {
        let key = match cursor.compact_key(first) {
            Some(key) => key,
            None => match cursor.other_key(first)? {
                Some(key) => key,
                None => return Ok(()),
            },
        };
        first = false;
        let Some(field) = field_named(parent, key) else {
            let Some(others) = spans.others(parent) else {
                cursor.step()?;
                continue;
            };
            if key.escaped {
                others.length = Others::PARTIAL;
            }
            let next = cursor.peek();
            let start = cursor.at;
            cursor.step_from(next)?;
            let name = Span::new(key.start, key.start + key.inner.len());
            others.note(cursor.bytes(), name, Span::new(start, cursor.at));
            continue;
        };
        let next = cursor.peek();
        let start = cursor.at;
        match (field, next) {
            (Field::Metadata | Field::Spec | Field::Status, _) => {
                let inner = match field {
                    Field::Metadata => Parent::Metadata,
                    Field::Spec => Parent::Spec,
                    _ => Parent::Status,
                };
                spans.forget(inner);
                if next == Some(b'{') {
                    read_map(cursor, inner, spans)?;
                } else {
                    spans.has_odd_parent = true;
                    cursor.step()?;
                }
            }
            (Field::Conditions, _) => {
                spans.conditions_length = 0;
                if next == Some(b'[') {
                    read_conditions(cursor, spans)?;
                } else {
                    cursor.step()?;
                }
            }
            _ => cursor.step_from(next)?,
        }
        if let Some(span) = spans.fields.get_mut(field as usize) {
            *span = Span::new(start, cursor.at);
            spans.present |= 1 << field as u32;
        }
    }
}

/// Reads the list of conditions at the cursor: most rules look at all of them, so their members are noted on the way.
fn read_conditions(cursor: &mut Cursor<'_>, spans: &mut Spans) -> Result<(), Invalid> {
    cursor.enter();
    let mut first = true;
    while cursor.next_element(first)? {
        first = false;
        let noted = spans.conditions.get_mut(spans.conditions_length);
        spans.conditions_length += 1;
        let is_map = cursor.peek() == Some(b'{');
        let start = cursor.at;
        let Some((element, members)) = noted else {
            cursor.step()?;
            continue;
        };
        *members = Default::default();
        if is_map {
            read_condition(cursor, members)?;
        } else {
            cursor.step()?;
        }
        *element = Span::new(start, cursor.at);
    }
    Ok(())
}

fn read_condition(cursor: &mut Cursor<'_>, members: &mut ConditionSpans) -> Result<(), Invalid> {
    cursor.enter();
    let mut first = true;
    loop {
        let key = match cursor.compact_key(first) {
            Some(key) => key,
            None => match cursor.other_key(first)? {
                Some(key) => key,
                None => return Ok(()),
            },
        };
        first = false;
        let slot = if key.escaped { escaped_member(key.inner) } else { member_named(key.inner) };
        cursor.peek();
        let start = cursor.at;
        let value = cursor.skip()?;
        if let Some(span) = slot.and_then(|member| members.get_mut(member as usize)) {
            *span = if value == b"null" { Span::default() } else { Span::new(start, cursor.at) };
        }
    }
}

#[inline]
fn field_named(parent: Parent, key: RawString<'_>) -> Option<Field> {
    if key.escaped { escaped_field(parent, key.inner) } else { parent.field(key.inner) }
}

// Apart and by the inside alone: the key of the loop stays in registers.

#[cold]
#[inline(never)]
fn escaped_field(parent: Parent, inside: &[u8]) -> Option<Field> {
    parent.field(unescape(inside).as_bytes())
}

#[cold]
#[inline(never)]
fn escaped_member(inside: &[u8]) -> Option<Member> {
    member_named(unescape(inside).as_bytes())
}
