//! Bodies in protobuf (`application/vnd.kubernetes.protobuf`), which Go's typed clients send: read into what the same
//! object is in JSON.
//!
//! The reader of the wire format is our own: the few lines of it that are needed here take a table of fields, and every
//! library for Rust wants code generated from the messages instead, some thousands of lines of it.

use serde_json::Value;
use thiserror::Error;

use crate::builtin;
use crate::error::ApiError;

/// What every body in protobuf begins with.
const MAGIC: &[u8] = b"k8s\0";

/// JSON may be nested that deep; what is stored has to be read again.
const MAX_DEPTH: usize = 127;

/// Why bytes are no message, in the words of upstream's decoders.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum Malformed {
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    Tag { message: String, number: u64, wire: u64 },
    #[error("proto: {0}: wiretype end group for non-group")]
    EndOfGroup(String),
    #[error("proto: illegal wireType {0}")]
    WireType(u64),
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType { wire: u8, field: String },
    #[error("the object is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("{0}")]
    Value(String),
}

/// A value as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Wire<'a> {
    fn wrong(self, field: &str) -> Malformed {
        let wire = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
        };
        Malformed::WrongWireType { wire, field: field.to_owned() }
    }

    pub(crate) fn varint(self, field: &str) -> Result<u64, Malformed> {
        if let Self::Varint(value) = self { Ok(value) } else { Err(self.wrong(field)) }
    }

    pub(crate) fn double(self, field: &str) -> Result<f64, Malformed> {
        if let Self::Fixed64(bits) = self { Ok(f64::from_bits(bits)) } else { Err(self.wrong(field)) }
    }

    pub(crate) fn bytes(self, field: &str) -> Result<&'a [u8], Malformed> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(self.wrong(field)) }
    }

    /// As Go writes it into JSON: what is no UTF-8 is replaced.
    pub(crate) fn text(self, field: &str) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.bytes(field)?).into_owned())
    }
}

/// The fields of a message, one after the other.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// The message's name, for errors.
    name: &'a str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], name: &'a str) -> Self {
        Self { rest: bytes, name }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed::Truncated)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Overflow)
    }

    /// The next field, groups left out: nothing of Kubernetes has any. Nothing at the end.
    pub(crate) fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, Malformed> {
        let mut groups = 0_usize;
        while !self.is_empty() {
            let tag = self.varint()?;
            let known = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
            let Some(number) = known else {
                let message = self.name.to_owned();
                return Err(Malformed::Tag { message, number: tag >> 3, wire: tag & 7 });
            };
            let wire = match tag & 7 {
                0 => Wire::Varint(self.varint()?),
                1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
                2 => {
                    let length = usize::try_from(self.varint()?).map_err(|_| Malformed::Truncated)?;
                    Wire::Bytes(self.take(length)?)
                }
                3 => {
                    groups += 1;
                    continue;
                }
                4 => {
                    groups =
                        groups.checked_sub(1).ok_or_else(|| Malformed::EndOfGroup(self.name.to_owned()))?;
                    continue;
                }
                5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
                other => return Err(Malformed::WireType(other)),
            };
            if groups == 0 {
                return Ok(Some((number, wire)));
            }
        }
        if groups == 0 { Ok(None) } else { Err(Malformed::Truncated) }
    }
}

/// How deep something is nested, and that this is never too deep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Depth(usize);

impl Depth {
    pub(crate) fn below(self) -> Result<Self, Malformed> {
        if self.0 < MAX_DEPTH { Ok(Self(self.0 + 1)) } else { Err(Malformed::TooDeep) }
    }
}

/// An object as it is sent: what it is, and its message (`runtime.Unknown` upstream).
#[derive(Debug, Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            let text = if bytes.is_empty() {
                "empty data"
            } else {
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
            };
            return Err(Malformed::Value(text.to_owned()));
        };
        if rest.is_empty() {
            return Err(Malformed::Value("empty body".to_owned()));
        }
        let mut envelope = Self::default();
        let mut fields = Reader::new(rest, "Unknown");
        while let Some((number, wire)) = fields.field()? {
            match number {
                1 => {
                    let mut names = Reader::new(wire.bytes("TypeMeta")?, "TypeMeta");
                    while let Some((number, wire)) = names.field()? {
                        match number {
                            1 => envelope.api_version = wire.text("APIVersion")?,
                            2 => envelope.kind = wire.text("Kind")?,
                            _ => {}
                        }
                    }
                }
                2 => envelope.raw = wire.bytes("Raw")?,
                // Upstream doesn't look at the encoding and the type of the content either.
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// A body that is not an object.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{why}")]
pub(crate) struct Undecodable {
    /// The kind and the version that the body says it is of, if it got that far.
    given: Option<(String, String)>,
    why: Malformed,
}

impl Undecodable {
    /// The error of an endpoint that wants a kind.
    pub(crate) fn wanted(&self, kind: &str, body: &[u8]) -> ApiError {
        let why = &self.why;
        ApiError::bad_request(match &self.given {
            Some((given, version)) => {
                format!("{given} in version {version:?} cannot be handled as a {kind}: {why}")
            }
            None => format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({})",
                summary(body)
            ),
        })
    }
}

/// Reads a body. Where it doesn't say of which `apiVersion` and kind it is, it is of these.
pub(crate) fn decode(bytes: &[u8], api_version: &str, kind: &str) -> Result<Value, Undecodable> {
    let envelope = Envelope::read(bytes).map_err(|why| Undecodable { given: None, why })?;
    let kind = if envelope.kind.is_empty() { kind } else { &envelope.kind };
    let api_version = if envelope.api_version.is_empty() { api_version } else { &envelope.api_version };
    object(api_version, kind, envelope.raw, Depth::default()).map_err(|why| {
        let (_, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Undecodable { given: Some((kind.to_owned(), version.to_owned())), why }
    })
}

/// A whole object of a built-in kind.
fn object(api_version: &str, kind: &str, message: &[u8], depth: Depth) -> Result<Value, Malformed> {
    let component = builtin::component_of(api_version, kind).ok_or_else(|| {
        Malformed::Value(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ))
    })?;
    let mut fields = builtin::message(&component, message, depth)?;
    fields.insert("apiVersion".to_owned(), api_version.into());
    fields.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(fields))
}

/// An object within another: JSON, or the same again. Nothing, if there are no bytes.
pub(crate) fn raw(bytes: &[u8], depth: Depth) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    if bytes.starts_with(MAGIC) {
        let envelope = Envelope::read(bytes)?;
        return object(&envelope.api_version, &envelope.kind, envelope.raw, depth.below()?);
    }
    let decoded = crate::decode::json(bytes).map_err(|error| Malformed::Value(error.to_string()))?;
    fits(&decoded.value, depth)?;
    Ok(decoded.value)
}

/// Whether a value, which itself is not nested too deep, isn't where it is to be put either.
fn fits(value: &Value, depth: Depth) -> Result<(), Malformed> {
    match value {
        Value::Array(items) => {
            let depth = depth.below()?;
            items.iter().try_for_each(|item| fits(item, depth))
        }
        Value::Object(fields) => {
            let depth = depth.below()?;
            fields.values().try_for_each(|value| fits(value, depth))
        }
        _ => Ok(()),
    }
}

/// The first bytes of a body, for errors.
fn summary(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            digits + more
        }
    }
}
