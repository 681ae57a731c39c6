//! Protobuf wire format.
//!
//! The reader is our own: the few lines of it that are needed here take a table of fields, and every library for Rust wants code
//! generated from the messages instead, some thousands of lines of it.

use thiserror::Error;

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
