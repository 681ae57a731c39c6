//! Output of JSON objects as YAML or compact JSON.

mod scalar;

use crate::head::string_end;
use crate::item::{Malformed, Position};
use crate::tokens::{JsonError, Token, Tokens};

/// Values nested deeper are written in flow style: indentation would outgrow content.
const BLOCK_LEVELS: usize = 64;

/// Appends one JSON value to `out` as block style YAML: as `kubectl -o yaml` prints it, but without sorting keys,
/// reformatting numbers or folding long lines.
///
/// Reading the YAML again results in the same JSON, except for the format of floats.
///
/// # Errors
///
/// `json` is not one JSON value; `out` is then unchanged.
///
/// # Examples
///
/// ```
/// let mut yaml = Vec::new();
/// settled_manifest::write_yaml(br#"{"kind":"Pod","args":["-c","yes"],"script":"a\nb\n"}"#, &mut yaml)?;
/// assert_eq!(String::from_utf8_lossy(&yaml), "kind: Pod\nargs:\n- -c\n- \"yes\"\nscript: |\n  a\n  b\n");
/// # Ok::<(), settled_manifest::Malformed>(())
/// ```
pub fn write_yaml(json: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    let mut writer = Writer { tokens: Tokens::new(json), out, frames: Vec::new(), inline: false };
    writer.value().map_err(|error| {
        out.truncate(start);
        let position = Position { line: 1, column: 1 }.advance(&json[..error.at.min(json.len())]);
        Malformed { message: error.message.to_owned(), position }
    })
}

/// An open array or object.
#[derive(Debug, Clone, Copy)]
struct Frame {
    object: bool,
    /// Column of its entries.
    indent: usize,
}

struct Writer<'a> {
    tokens: Tokens<'a>,
    out: &'a mut Vec<u8>,
    frames: Vec<Frame>,
    /// The next entry is on the line of the preceding dash.
    inline: bool,
}

impl Writer<'_> {
    fn value(&mut self) -> Result<(), JsonError> {
        // After an opening bracket, before it is known whether the collection is empty.
        let mut opened: Option<bool> = None;
        while let Some(token) = self.tokens.next()? {
            if let Some(object) = opened.take() {
                if matches!(token, Token::EndObject | Token::EndArray) {
                    self.before_scalar();
                    self.out.extend_from_slice(if object { b"{}\n" } else { b"[]\n" });
                    continue;
                }
                if self.frames.len() >= BLOCK_LEVELS {
                    self.before_scalar();
                    self.flow(object, token)?;
                    self.out.push(b'\n');
                    continue;
                }
                self.open(object);
            }
            match token {
                Token::BeginObject => {
                    self.before_value();
                    opened = Some(true);
                }
                Token::BeginArray => {
                    self.before_value();
                    opened = Some(false);
                }
                Token::EndObject | Token::EndArray => {
                    self.frames.pop();
                }
                Token::Key(key) => self.key(&key),
                Token::String(text) => {
                    self.before_value();
                    self.before_scalar();
                    let indent = self.frames.last().map_or(0, |frame| frame.indent);
                    scalar::write(&text, indent, self.out);
                    self.out.push(b'\n');
                }
                Token::Other(word) => {
                    self.before_value();
                    self.before_scalar();
                    self.out.extend_from_slice(word.as_bytes());
                    self.out.push(b'\n');
                }
            }
        }
        Ok(())
    }

    /// Begins a line, unless the entry follows a dash.
    fn begin_entry(&mut self, indent: usize) {
        if !std::mem::take(&mut self.inline) {
            self.out.resize(self.out.len() + indent, b' ');
        }
    }

    fn key(&mut self, key: &str) {
        let indent = self.frames.last().map_or(0, |frame| frame.indent);
        self.begin_entry(indent);
        scalar::write_key(key, indent, self.out);
    }

    /// Writes the dash of an array element.
    fn before_value(&mut self) {
        if let Some(&Frame { object: false, indent }) = self.frames.last() {
            self.begin_entry(indent);
            self.out.push(b'-');
            self.inline = true;
        }
    }

    /// Writes the separator between a value and the key or dash before it.
    fn before_scalar(&mut self) {
        self.inline = false;
        if !self.frames.is_empty() {
            self.out.push(b' ');
        }
    }

    /// Begins a non-empty array or object.
    fn open(&mut self, object: bool) {
        let indent = match self.frames.last() {
            None => 0,
            Some(&Frame { object: true, indent }) => {
                self.out.push(b'\n');
                // Dashes of a sequence are in the column of its key.
                if object { indent + 2 } else { indent }
            }
            Some(&Frame { object: false, indent }) => {
                self.out.push(b' ');
                indent + 2
            }
        };
        self.frames.push(Frame { object, indent });
    }

    /// Writes the collection that begins with this bracket and token on one line.
    fn flow(&mut self, object: bool, first: Token<'_>) -> Result<(), JsonError> {
        let mut depth = 1;
        self.out.push(if object { b'{' } else { b'[' });
        let mut next = Some(first);
        let mut comma = false;
        while let Some(token) = next {
            if comma && !matches!(token, Token::EndObject | Token::EndArray) {
                self.out.extend_from_slice(b", ");
            }
            comma = true;
            match token {
                Token::BeginObject | Token::BeginArray => {
                    depth += 1;
                    comma = false;
                    self.out.push(if token == Token::BeginObject { b'{' } else { b'[' });
                }
                Token::EndObject | Token::EndArray => {
                    depth -= 1;
                    self.out.push(if token == Token::EndObject { b'}' } else { b']' });
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Token::Key(key) => {
                    scalar::write_flow_key(&key, self.out);
                    comma = false;
                }
                Token::String(text) => scalar::write_double_quoted(&text, self.out),
                Token::Other(word) => self.out.extend_from_slice(word.as_bytes()),
            }
            next = self.tokens.next()?;
        }
        Ok(())
    }
}

/// Appends `json` to `out` without whitespace between tokens. Does not validate.
///
/// # Examples
///
/// ```
/// let mut compact = Vec::new();
/// settled_manifest::minify(b"{ \"a b\" : [ 1.0,\n 2 ] }", &mut compact);
/// assert_eq!(compact, b"{\"a b\":[1.0,2]}");
/// ```
pub fn minify(json: &[u8], out: &mut Vec<u8>) {
    out.reserve(json.len());
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'"' => {
                let end = string_end(json, at).unwrap_or(json.len()).min(json.len());
                out.extend_from_slice(&json[at..end]);
                at = end;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
}
