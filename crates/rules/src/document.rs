//! YAML documents with the line and column of each value.

use std::borrow::Cow;
use std::fmt;

use kstatus::{Node, NodeKind, Object};

/// Something in a file of rules that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct LoadError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// Message, with a suggestion if possible.
    pub message: String,
}

/// Everything that is wrong with some files of rules. None of their rules is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LoadErrors(pub Vec<LoadError>);

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

/// One document of a file.
#[derive(Debug)]
pub(crate) struct Document<'f> {
    file: &'f str,
    text: &'f str,
    /// The line of the file that the document begins on, counted from 0.
    line: usize,
    json: Cow<'f, [u8]>,
    /// None where the file's text is not at hand.
    places: Vec<(usize, usize)>,
    /// Offsets of line ends.
    ends: Vec<usize>,
}

/// One document, which begins on a line of its file, counted from 0; none where it is empty.
fn document<'f>(file: &'f str, text: &'f str, line: usize) -> Result<Option<Document<'f>>, LoadError> {
    let (mut json, mut places) = (Vec::new(), Vec::new());
    match settled_manifest::yaml_to_json_with_places(text.as_bytes(), &mut json, &mut places) {
        Ok(()) if json.is_empty() || json == b"null" => Ok(None),
        Ok(()) => {
            let ends =
                text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
            Ok(Some(Document { file, text, line, json: Cow::Owned(json), places, ends }))
        }
        Err(error) => Err(LoadError {
            file: file.to_owned(),
            line: line + usize::try_from(error.position.line).unwrap_or_default(),
            column: usize::try_from(error.position.column).unwrap_or_default(),
            message: error.message,
        }),
    }
}

/// The documents of a file; an error stands for one that is no YAML.
pub(crate) fn documents<'f>(file: &'f str, text: &'f str) -> Vec<Result<Document<'f>, LoadError>> {
    let mut documents = Vec::new();
    let mut cut = |text: &'f str, line: usize| documents.extend(document(file, text, line).transpose());
    let (mut start, mut start_line, mut at) = (0, 0, 0);
    for (line, content) in text.split_inclusive('\n').enumerate() {
        let word = content.trim_end();
        if word == "---" || word.starts_with("--- ") || word.starts_with("---\t") {
            cut(text.get(start..at).unwrap_or_default(), start_line);
            (start, start_line) = (at + 3, line);
        }
        at += content.len();
    }
    cut(text.get(start..).unwrap_or_default(), start_line);
    documents
}

impl<'f> Document<'f> {
    /// A value in JSON that was read before, from a line counted from 0. Of what is in it no places are known.
    pub(crate) fn prepared(json: &'f [u8], line: usize) -> Self {
        Self { file: "", text: "", line, json: Cow::Borrowed(json), places: Vec::new(), ends: Vec::new() }
    }

    /// The root, and the JSON it was read from: an object's bytes.
    pub(crate) fn root(&self) -> Item<'_, 'f> {
        Item { document: self, node: Node::Text(self.json.trim_ascii()) }
    }
}

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'d, 'f> {
    document: &'d Document<'f>,
    pub(crate) node: Node<'d>,
}

impl<'d, 'f> Item<'d, 'f> {
    /// The JSON text.
    pub(crate) fn json(&self) -> &'d [u8] {
        match self.node {
            Node::Text(text) => text,
            Node::Value(_) => b"null",
        }
    }

    /// The byte of the document's text at which this begins.
    fn at(&self) -> usize {
        let offset = self.json().as_ptr().addr().wrapping_sub(self.document.json.as_ptr().addr());
        let places = &self.document.places;
        let after = places.partition_point(|(written, _)| *written <= offset);
        after.checked_sub(1).and_then(|index| places.get(index)).map_or(0, |(_, at)| *at)
    }

    /// An error at this value.
    pub(crate) fn error(&self, message: impl Into<String>) -> LoadError {
        self.error_at(self.at(), message)
    }

    fn error_at(&self, at: usize, message: impl Into<String>) -> LoadError {
        let before = self.document.text.get(..at).unwrap_or(self.document.text);
        let lines = self.document.ends.partition_point(|end| *end < before.len());
        let last = lines.checked_sub(1).and_then(|last| self.document.ends.get(last));
        let line_start = last.map_or(0, |end| end + 1);
        LoadError {
            file: self.document.file.to_owned(),
            line: self.document.line + 1 + lines,
            column: 1 + before.get(line_start..).unwrap_or_default().chars().count(),
            message: message.into(),
        }
    }

    /// This text with the place it comes from.
    pub(crate) fn sourced(&self) -> Result<Sourced, LoadError> {
        let text = self.text()?.into_owned();
        if self.document.places.is_empty() {
            return Ok(Sourced::made(text));
        }
        let begin = self.error("");
        let source = self.document.text.get(self.at()..).unwrap_or_default();
        if text.is_empty() && source.starts_with('!') {
            return Err(self.error("put this in quotes: YAML takes a word that starts with `!` for a tag"));
        }
        let turns = turns(source, &text, begin.line, begin.column);
        let origin = Origin { file: begin.file, line: begin.line, column: begin.column, turns };
        Ok(Sourced { text, origin: Some(Box::new(origin)) })
    }

    /// The line this value begins on, counted from 1.
    pub(crate) fn line(&self) -> usize {
        self.error("").line
    }

    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        let node = self.node.get(key).filter(|node| !node.is_null())?;
        Some(Self { node, ..*self })
    }

    /// The members of a map, gone over once: to look for several of them.
    pub(crate) fn fields(&self) -> Fields<'d, 'f> {
        Fields(self.members().collect())
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (Cow<'d, str>, Self)> + use<'d, 'f> {
        let document = self.document;
        self.node.members().map(move |(key, node)| (key, Item { document, node }))
    }

    pub(crate) fn elements(&self) -> impl Iterator<Item = Self> + use<'d, 'f> {
        let document = self.document;
        self.node.elements().map(move |node| Item { document, node })
    }

    fn expected(&self, what: &str) -> LoadError {
        self.error(format!("expected {what}, found {}", self.node.kind().name()))
    }

    pub(crate) fn map(&self) -> Result<Self, LoadError> {
        if self.node.kind() == NodeKind::Map { Ok(*self) } else { Err(self.expected("a map")) }
    }

    pub(crate) fn list(&self) -> Result<Vec<Self>, LoadError> {
        if self.node.kind() == NodeKind::List {
            Ok(self.elements().collect())
        } else {
            Err(self.expected("a list"))
        }
    }

    /// A list, or one value that stands for a list of one.
    pub(crate) fn one_or_many(&self) -> Vec<Self> {
        if self.node.kind() == NodeKind::List { self.elements().collect() } else { vec![*self] }
    }

    pub(crate) fn text(&self) -> Result<Cow<'d, str>, LoadError> {
        self.node.as_str().ok_or_else(|| {
            let hint = match self.node.kind() {
                NodeKind::Bool | NodeKind::Int | NodeKind::Float | NodeKind::Null => "; put it in quotes",
                _ => "",
            };
            self.error(format!("expected text, found {}{hint}", self.node.kind().name()))
        })
    }

    pub(crate) fn boolean(&self) -> Result<bool, LoadError> {
        self.node.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    /// That a map has no other keys than these.
    pub(crate) fn only(&self, known: &[&str], errors: &mut Vec<LoadError>) {
        self.fields().only(known, errors);
    }

    /// The document as an object of Kubernetes.
    pub(crate) fn object(&self) -> Result<Object<'d>, LoadError> {
        Object::parse(self.json()).map_err(|error| self.error(error.to_string()))
    }
}

/// The members of a map, in their order.
#[derive(Debug)]
pub(crate) struct Fields<'d, 'f>(Vec<(Cow<'d, str>, Item<'d, 'f>)>);

impl<'d, 'f> Fields<'d, 'f> {
    /// As [`Item::get`].
    pub(crate) fn get(&self, key: &str) -> Option<Item<'d, 'f>> {
        let found = self.0.iter().rev().find(|(known, _)| **known == *key);
        found.map(|(_, item)| *item).filter(|item| !item.node.is_null())
    }

    /// That there are no other keys than these.
    pub(crate) fn only(&self, known: &[&str], errors: &mut Vec<LoadError>) {
        for (key, value) in &self.0 {
            if !known.contains(&&**key) {
                let near = known.iter().min_by_key(|known| settled_cel::distance(known, key));
                let near = near.filter(|near| settled_cel::distance(near, key) <= 2);
                let hint = near.map_or_else(
                    || format!("; known are {}", known.join(", ")),
                    |near| format!("; did you mean `{near}`?"),
                );
                errors.push(value.error(format!("unknown key `{key}`{hint}")));
            }
        }
    }
}

/// A text with the place it comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Sourced {
    pub(crate) text: String,
    /// None where the text was made, or its file is not at hand.
    origin: Option<Box<Origin>>,
}

/// Where a text comes from.
#[derive(Clone, PartialEq, Eq)]
struct Origin {
    file: String,
    line: usize,
    column: usize,
    /// From which of its bytes on it goes on at which line and column: after a quote, a line break, an escape.
    turns: Vec<(usize, usize, usize)>,
}

/// The text alone: it means the same wherever it stands.
impl fmt::Debug for Sourced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Sourced {
    pub(crate) fn made(text: String) -> Self {
        Self { text, origin: None }
    }

    /// A text that was made of one that came from the same place.
    pub(crate) fn with(&self, text: String) -> Self {
        Self { text, origin: self.origin.clone() }
    }

    /// An error at a byte of the text.
    pub(crate) fn error(&self, offset: usize, message: impl Into<String>) -> LoadError {
        let (file, begin, turns) = match self.origin.as_deref() {
            Some(origin) => (&*origin.file, (0, origin.line, origin.column), &*origin.turns),
            None => ("", (0, 0, 0), &[][..]),
        };
        let after = turns.partition_point(|(from, ..)| *from <= offset);
        let turn = after.checked_sub(1).and_then(|index| turns.get(index));
        let (from, line, column) = turn.copied().unwrap_or(begin);
        let between = self.text.get(from..offset.min(self.text.len())).unwrap_or_default();
        LoadError {
            file: file.to_owned(),
            line,
            column: column + between.chars().count(),
            message: message.into(),
        }
    }
}

/// A place in a file, and what follows there.
struct Reader<'f> {
    rest: &'f str,
    line: usize,
    column: usize,
}

impl Reader<'_> {
    /// Goes over so many characters.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            let Some(char) = self.rest.chars().next() else { return };
            self.rest = self.rest.get(char.len_utf8()..).unwrap_or_default();
            if char == '\n' {
                (self.line, self.column) = (self.line + 1, 1);
            } else {
                self.column += 1;
            }
        }
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        self.skip(self.rest.chars().take_while(|char| wanted(*char)).count());
    }

    /// Goes over the end of a line, and over so many spaces on the next one. Whether there is one here.
    fn skip_break(&mut self, indent: usize) -> bool {
        let count = if self.rest.starts_with("\r\n") { 2 } else { 1 };
        let is_break = count == 2 || self.rest.starts_with('\n');
        if is_break {
            self.skip(count);
            self.skip(self.rest.chars().take(indent).take_while(|char| *char == ' ').count());
        }
        is_break
    }
}

/// Where a scalar's text turns: it is gone over together with the source. Where they don't fit together, what follows
/// is taken as it stands.
fn turns(source: &str, text: &str, line: usize, column: usize) -> Vec<(usize, usize, usize)> {
    let mut reader = Reader { rest: source, line, column };
    let mut turns = Vec::new();
    let style = source.chars().next().unwrap_or(' ');
    let is_block = matches!(style, '|' | '>');
    let mut indent = 0;
    match style {
        '\'' | '"' => reader.skip(1),
        '|' | '>' => {
            reader.skip_while(|char| char != '\n');
            // An indicator of the indentation leaves some of it to the text.
            let leading = |text: &str| {
                let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                first.len() - first.trim_start_matches(' ').len()
            };
            indent = leading(reader.rest).saturating_sub(leading(text));
            reader.skip_break(indent);
        }
        _ if source.starts_with(text) => return turns,
        _ => {}
    }
    turns.push((0, reader.line, reader.column));
    let mut chars = text.char_indices().peekable();
    while let Some(&(at, char)) = chars.peek() {
        let mut turn = |reader: &Reader<'_>, at| turns.push((at, reader.line, reader.column));
        let is_break = matches!(char, ' ' | '\n');
        let spaces = reader.rest.trim_start_matches([' ', '\t']);
        if is_block && (reader.rest.starts_with(['\n', '\r'])) {
            // A folded line break is a space, or fewer breaks than there are in the source.
            reader.skip_break(indent);
            if is_break {
                chars.next();
            }
            turn(&reader, at + usize::from(is_break));
        } else if !is_block && spaces.starts_with(['\n', '\r']) {
            reader.skip_while(char::is_whitespace);
            let mut next = at;
            while let Some((at, _)) = chars.next_if(|(_, next)| *next == char && is_break) {
                next = at + 1;
                if char == ' ' {
                    break;
                }
            }
            turn(&reader, next);
            if next == at && !is_break {
                continue;
            }
        } else if style == '"' && reader.rest.starts_with('\\') {
            match reader.rest.chars().nth(1) {
                Some('\n' | '\r') => {
                    reader.skip(1);
                    reader.skip_while(char::is_whitespace);
                    turn(&reader, at);
                    continue;
                }
                Some('x') => reader.skip(4),
                Some('u') => reader.skip(6),
                Some('U') => reader.skip(10),
                _ => reader.skip(2),
            }
            chars.next();
            turn(&reader, at + char.len_utf8());
        } else if style == '\'' && reader.rest.starts_with("''") {
            reader.skip(2);
            chars.next();
            turn(&reader, at + 1);
        } else if reader.rest.starts_with(char) {
            reader.skip(1);
            chars.next();
        } else {
            break;
        }
    }
    turns
}
