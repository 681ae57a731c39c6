//! Decoding of `encoding/base64`: line breaks are skipped, and trailing bits can have any value.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use base64::Engine as _;
use base64::alphabet::{STANDARD as STANDARD_ALPHABET, URL_SAFE as URL_ALPHABET};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// `base64.StdEncoding`: with padding.
pub static STANDARD: Encoding = Encoding {
    engine: GeneralPurpose::new(&STANDARD_ALPHABET, config(DecodePaddingMode::RequireCanonical)),
    symbols: *b"+/",
    is_padded: true,
};

/// `base64.URLEncoding`: the URLs' alphabet, with padding.
pub static URL_SAFE: Encoding = Encoding {
    engine: GeneralPurpose::new(&URL_ALPHABET, config(DecodePaddingMode::RequireCanonical)),
    symbols: *b"-_",
    is_padded: true,
};

/// `base64.RawURLEncoding`: the URLs' alphabet, without padding.
pub static URL_SAFE_NO_PAD: Encoding = Encoding {
    engine: GeneralPurpose::new(&URL_ALPHABET, config(DecodePaddingMode::RequireNone)),
    symbols: *b"-_",
    is_padded: false,
};

const fn config(padding: DecodePaddingMode) -> GeneralPurposeConfig {
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(padding)
}

/// One of Go's encodings.
#[derive(Debug)]
pub struct Encoding {
    engine: GeneralPurpose,
    /// Alphabet's digits 62 and 63.
    symbols: [u8; 2],
    is_padded: bool,
}

/// `base64.CorruptInputError`: offset of the first invalid byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CorruptInputError(pub usize);

impl fmt::Display for CorruptInputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal base64 data at input byte {}", self.0)
    }
}

impl Error for CorruptInputError {}

/// `govalidator.IsBase64`, the format `byte` of schemas: [`STANDARD`] without line breaks, and not empty.
pub fn is_base64(text: &str) -> bool {
    !text.is_empty() && !text.contains(['\r', '\n']) && STANDARD.decode(text).is_ok()
}

impl Encoding {
    /// `DecodeString`.
    ///
    /// ```
    /// use settled_go::base64;
    ///
    /// assert_eq!(base64::STANDARD.decode("aGkh\naA=="), Ok(b"hi!h".to_vec()));
    /// let error = base64::STANDARD.decode("aGk").unwrap_err();
    /// assert_eq!(error.to_string(), "illegal base64 data at input byte 0");
    /// ```
    ///
    /// # Errors
    /// [`CorruptInputError`] if the text is not base64.
    pub fn decode(&self, text: impl AsRef<[u8]>) -> Result<Vec<u8>, CorruptInputError> {
        let text = text.as_ref();
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let digits = match text.iter().any(is_line_end) {
            true => Cow::Owned(text.iter().copied().filter(|byte| !is_line_end(byte)).collect()),
            false => Cow::Borrowed(text),
        };
        self.engine.decode(digits).map_err(|_| CorruptInputError(self.corrupt_offset(text)))
    }

    /// `EncodeToString`.
    pub fn encode(&self, bytes: impl AsRef<[u8]>) -> String {
        self.engine.encode(bytes)
    }

    /// Go's offset of the first invalid byte, in groups of four digits with line breaks between them.
    fn corrupt_offset(&self, text: &[u8]) -> usize {
        let mut digits = 0_usize;
        let mut bytes = text.iter().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
        while let Some((offset, byte)) = bytes.next() {
            match byte {
                b'=' if self.is_padded && digits % 4 >= 2 => {
                    if digits % 4 == 2 {
                        match bytes.next() {
                            Some((_, b'=')) => {}
                            Some((after, _)) => return after - 1,
                            None => return text.len(),
                        }
                    }
                    return bytes.next().map_or(text.len(), |(after, _)| after);
                }
                digit if digit.is_ascii_alphanumeric() || self.symbols.contains(digit) => digits += 1,
                _ => return offset,
            }
        }
        text.len().saturating_sub(digits % 4)
    }
}
