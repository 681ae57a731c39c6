//! YAML parser: libyaml's state machine from tokens to events.

use super::YamlError;
use super::scan::{Kind, Memory as ScanMemory, Scanner, Text};

type Result<T> = std::result::Result<T, YamlError>;

/// Maximum number of `%TAG` directives, since each tag is compared with all of them. Few documents have any.
const MAX_TAG_DIRECTIVES: usize = 100;

/// Tags that affect the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    None,
    /// `!`
    NonSpecific,
    Str,
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Binary,
    Merge,
    Other,
}

/// Anchor and tag of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Properties {
    pub(super) anchor: Option<Text>,
    pub(super) tag: Tag,
    pub(super) at: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// End of the document, or no document.
    End,
    Alias {
        name: Text,
        at: usize,
    },
    /// `implicit`: plain, and without a tag (or only `!`).
    Scalar {
        node: Properties,
        text: Text,
        implicit: bool,
    },
    SequenceStart(Properties),
    SequenceEnd,
    MappingStart(Properties),
    MappingEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    DocumentStart,
    DocumentContent,
    BlockNode,
    BlockSequenceFirst,
    BlockSequence,
    IndentlessSequence,
    BlockMappingFirst,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirst,
    FlowSequence,
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingFirst,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    DocumentEnd,
}

/// The parser's memory, kept from document to document.
#[derive(Debug, Default)]
pub(super) struct Memory {
    scan: ScanMemory,
    states: Vec<State>,
    /// Starts of the open collections.
    marks: Vec<usize>,
    /// Handles and prefixes of `%TAG`.
    tags: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Converts the first document of a text to events.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: &'a mut Vec<State>,
    marks: &'a mut Vec<usize>,
    tags: &'a mut Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a [u8], memory: &'a mut Memory) -> Self {
        let Memory { scan, states, marks, tags } = memory;
        states.clear();
        marks.clear();
        tags.clear();
        Self { scanner: Scanner::new(source, scan), state: State::DocumentStart, states, marks, tags }
    }

    pub(super) fn text(&self, text: Text) -> &[u8] {
        self.scanner.text(text)
    }

    pub(super) fn next(&mut self) -> Result<Event> {
        match self.state {
            State::DocumentStart => self.document_start(),
            State::DocumentContent => self.document_content(),
            State::BlockNode => self.node(true, false),
            State::BlockSequenceFirst => {
                self.open_collection()?;
                self.block_sequence()
            }
            State::BlockSequence => self.block_sequence(),
            State::IndentlessSequence => self.indentless_sequence(),
            State::BlockMappingFirst => {
                self.open_collection()?;
                self.block_mapping_key()
            }
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirst => {
                self.open_collection()?;
                self.flow_sequence(true)
            }
            State::FlowSequence => self.flow_sequence(false),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_pair_value(),
            State::FlowPairEnd => {
                self.state = State::FlowSequence;
                Ok(Event::MappingEnd)
            }
            State::FlowMappingFirst => {
                self.open_collection()?;
                self.flow_mapping_key(true)
            }
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(false),
            State::FlowMappingEmptyValue => self.flow_mapping_value(true),
            State::DocumentEnd => {
                // libyaml reads ahead before it ends a document, and so reports errors there.
                self.scanner.peek()?;
                Ok(Event::End)
            }
        }
    }

    fn peek(&mut self) -> Result<(Kind, usize)> {
        self.scanner.peek().map(|token| (token.kind, token.at))
    }

    fn next_kind(&mut self) -> Result<(Kind, usize)> {
        self.scanner.take();
        self.peek()
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    fn open_collection(&mut self) -> Result<()> {
        let (_, at) = self.peek()?;
        self.marks.push(at);
        self.scanner.take();
        Ok(())
    }

    /// An absent node: null.
    fn empty(at: usize) -> Event {
        let node = Properties { anchor: None, tag: Tag::None, at };
        Event::Scalar { node, text: Text::EMPTY, implicit: true }
    }

    fn empty_in(&mut self, state: State, at: usize) -> Result<Event> {
        self.state = state;
        Ok(Self::empty(at))
    }

    fn node_in(&mut self, then: State, block: bool, indentless: bool) -> Result<Event> {
        self.states.push(then);
        self.node(block, indentless)
    }

    fn error<T>(message: &str, at: usize) -> Result<T> {
        Err(YamlError::new(message, at))
    }

    fn document_start(&mut self) -> Result<Event> {
        let (kind, _) = self.peek()?;
        match kind {
            Kind::StreamEnd => return Ok(Event::End),
            Kind::VersionDirective { .. } | Kind::TagDirective { .. } | Kind::DocumentStart => {
                let (kind, at) = self.directives()?;
                if kind != Kind::DocumentStart {
                    return Self::error("did not find expected <document start>", at);
                }
                self.scanner.take();
                self.state = State::DocumentContent;
            }
            _ => {
                self.directives()?;
                self.state = State::BlockNode;
            }
        }
        self.states.push(State::DocumentEnd);
        self.next()
    }

    fn directives(&mut self) -> Result<(Kind, usize)> {
        let mut version = false;
        loop {
            let (kind, at) = self.peek()?;
            match kind {
                Kind::VersionDirective { .. } if version => {
                    return Self::error("found duplicate %YAML directive", at);
                }
                Kind::VersionDirective { major: 1, minor: 1 } => version = true,
                Kind::VersionDirective { .. } => return Self::error("found incompatible YAML document", at),
                Kind::TagDirective { handle, prefix } => {
                    let (handle, prefix) = (self.text(handle).to_vec(), self.text(prefix).to_vec());
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return Self::error("found duplicate %TAG directive", at);
                    }
                    if self.tags.len() >= MAX_TAG_DIRECTIVES {
                        return Self::error("found too many %TAG directives", at);
                    }
                    self.tags.push((handle, prefix));
                }
                _ => break,
            }
            self.scanner.take();
        }
        for (handle, prefix) in [(&b"!"[..], &b"!"[..]), (b"!!", b"tag:yaml.org,2002:")] {
            if !self.tags.iter().any(|(known, _)| known == handle) {
                self.tags.push((handle.to_vec(), prefix.to_vec()));
            }
        }
        self.peek()
    }

    fn document_content(&mut self) -> Result<Event> {
        let (kind, at) = self.peek()?;
        match kind {
            Kind::VersionDirective { .. }
            | Kind::TagDirective { .. }
            | Kind::DocumentStart
            | Kind::DocumentEnd
            | Kind::StreamEnd => {
                self.pop_state();
                Ok(Self::empty(at))
            }
            _ => self.node(true, false),
        }
    }

    fn node(&mut self, block: bool, indentless: bool) -> Result<Event> {
        let (mut kind, mut at) = self.peek()?;
        if let Kind::Alias(name) = kind {
            self.pop_state();
            self.scanner.take();
            return Ok(Event::Alias { name, at });
        }
        let start = at;
        let mut anchor = None;
        let mut tag = None;
        loop {
            match kind {
                Kind::Anchor(name) if anchor.is_none() => anchor = Some(name),
                Kind::Tag { handle, suffix } if tag.is_none() => tag = Some((handle, suffix)),
                _ => break,
            }
            (kind, at) = self.next_kind()?;
        }
        let tag = match tag {
            Some((handle, suffix)) => self.resolve_tag(handle, suffix, start)?,
            None => Tag::None,
        };
        let node = Properties { anchor, tag, at: start };
        let (state, event) = match kind {
            Kind::BlockEntry if indentless => (State::IndentlessSequence, Event::SequenceStart(node)),
            Kind::Scalar { text, plain } => {
                let implicit = tag == Tag::NonSpecific || (tag == Tag::None && plain);
                self.pop_state();
                self.scanner.take();
                return Ok(Event::Scalar { node, text, implicit });
            }
            Kind::FlowSequenceStart => (State::FlowSequenceFirst, Event::SequenceStart(node)),
            Kind::FlowMappingStart => (State::FlowMappingFirst, Event::MappingStart(node)),
            Kind::BlockSequenceStart if block => (State::BlockSequenceFirst, Event::SequenceStart(node)),
            Kind::BlockMappingStart if block => (State::BlockMappingFirst, Event::MappingStart(node)),
            _ if anchor.is_some() || tag != Tag::None => {
                self.pop_state();
                return Ok(Event::Scalar { node, text: Text::EMPTY, implicit: tag == Tag::None });
            }
            _ => return Self::error("did not find expected node content", at),
        };
        self.state = state;
        Ok(event)
    }

    fn resolve_tag(&self, handle: Text, suffix: Text, at: usize) -> Result<Tag> {
        let suffix = self.text(suffix);
        let full;
        let tag = if handle.is_empty() {
            suffix
        } else {
            let handle = self.text(handle);
            let Some((_, prefix)) = self.tags.iter().find(|(known, _)| known == handle) else {
                return Self::error("found undefined tag handle", at);
            };
            full = [prefix.as_slice(), suffix].concat();
            &full
        };
        let Some(name) = tag.strip_prefix(b"tag:yaml.org,2002:") else {
            return Ok(if tag == b"!" { Tag::NonSpecific } else { Tag::Other });
        };
        Ok(match name {
            b"str" => Tag::Str,
            b"bool" => Tag::Bool,
            b"int" => Tag::Int,
            b"float" => Tag::Float,
            b"null" => Tag::Null,
            b"timestamp" => Tag::Timestamp,
            b"binary" => Tag::Binary,
            b"merge" => Tag::Merge,
            _ => Tag::Other,
        })
    }

    fn block_sequence(&mut self) -> Result<Event> {
        let (kind, at) = self.peek()?;
        match kind {
            Kind::BlockEntry => match self.next_kind()? {
                (Kind::BlockEntry | Kind::BlockEnd, _) => self.empty_in(State::BlockSequence, at),
                _ => self.node_in(State::BlockSequence, true, false),
            },
            Kind::BlockEnd => {
                self.close_collection();
                Ok(Event::SequenceEnd)
            }
            _ => Self::error("did not find expected '-' indicator", at),
        }
    }

    fn close_collection(&mut self) {
        self.scanner.take();
        self.pop_state();
        self.marks.pop();
    }

    fn indentless_sequence(&mut self) -> Result<Event> {
        let (kind, at) = self.peek()?;
        if kind != Kind::BlockEntry {
            self.pop_state();
            return Ok(Event::SequenceEnd);
        }
        match self.next_kind()? {
            (Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd, _) => {
                self.empty_in(State::IndentlessSequence, at)
            }
            _ => self.node_in(State::IndentlessSequence, true, false),
        }
    }

    fn block_mapping_key(&mut self) -> Result<Event> {
        let (kind, at) = self.peek()?;
        match kind {
            Kind::Key => match self.next_kind()? {
                (Kind::Key | Kind::Value | Kind::BlockEnd, _) => self.empty_in(State::BlockMappingValue, at),
                _ => self.node_in(State::BlockMappingValue, true, true),
            },
            Kind::BlockEnd => {
                self.close_collection();
                Ok(Event::MappingEnd)
            }
            _ => Self::error("did not find expected key", at),
        }
    }

    fn block_mapping_value(&mut self) -> Result<Event> {
        let (kind, at) = self.peek()?;
        if kind != Kind::Value {
            return self.empty_in(State::BlockMappingKey, at);
        }
        match self.next_kind()? {
            (Kind::Key | Kind::Value | Kind::BlockEnd, _) => self.empty_in(State::BlockMappingKey, at),
            _ => self.node_in(State::BlockMappingKey, true, true),
        }
    }

    fn flow_sequence(&mut self, first: bool) -> Result<Event> {
        let (mut kind, mut at) = self.peek()?;
        if kind != Kind::FlowSequenceEnd {
            if !first {
                if kind != Kind::FlowEntry {
                    return Self::error("did not find expected ',' or ']'", at);
                }
                (kind, at) = self.next_kind()?;
            }
            if kind == Kind::Key {
                self.scanner.take();
                self.state = State::FlowPairKey;
                return Ok(Event::MappingStart(Properties { anchor: None, tag: Tag::None, at }));
            }
            if kind != Kind::FlowSequenceEnd {
                return self.node_in(State::FlowSequence, false, false);
            }
        }
        self.close_collection();
        Ok(Event::SequenceEnd)
    }

    fn flow_pair_key(&mut self) -> Result<Event> {
        let (kind, at) = self.peek()?;
        if matches!(kind, Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd) {
            // The next token is consumed, whatever it is, as in libyaml.
            self.scanner.take();
            return self.empty_in(State::FlowPairValue, at);
        }
        self.node_in(State::FlowPairValue, false, false)
    }

    fn flow_pair_value(&mut self) -> Result<Event> {
        let (kind, mut at) = self.peek()?;
        if kind == Kind::Value {
            let next;
            (next, at) = self.next_kind()?;
            if !matches!(next, Kind::FlowEntry | Kind::FlowSequenceEnd) {
                return self.node_in(State::FlowPairEnd, false, false);
            }
        }
        self.empty_in(State::FlowPairEnd, at)
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<Event> {
        let (mut kind, at) = self.peek()?;
        if kind != Kind::FlowMappingEnd {
            if !first {
                if kind != Kind::FlowEntry {
                    return Self::error("did not find expected ',' or '}'", at);
                }
                (kind, _) = self.next_kind()?;
            }
            if kind == Kind::Key {
                let (kind, at) = self.next_kind()?;
                if matches!(kind, Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd) {
                    return self.empty_in(State::FlowMappingValue, at);
                }
                return self.node_in(State::FlowMappingValue, false, false);
            }
            if kind != Kind::FlowMappingEnd {
                return self.node_in(State::FlowMappingEmptyValue, false, false);
            }
        }
        self.close_collection();
        Ok(Event::MappingEnd)
    }

    fn flow_mapping_value(&mut self, empty: bool) -> Result<Event> {
        let (kind, mut at) = self.peek()?;
        if !empty && kind == Kind::Value {
            let next;
            (next, at) = self.next_kind()?;
            if !matches!(next, Kind::FlowEntry | Kind::FlowMappingEnd) {
                return self.node_in(State::FlowMappingKey, false, false);
            }
        }
        self.empty_in(State::FlowMappingKey, at)
    }
}
