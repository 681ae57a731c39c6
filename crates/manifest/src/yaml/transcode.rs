//! Transcoding of YAML events to JSON: keys, anchors, merges.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;

use super::parse::{Event, Memory, Parser, Tag};
use super::write::{write_key, write_value};
use super::{YamlError, check_characters};
use crate::head::{array_elements, object_members};
use crate::limits::Limits;

type Result<T> = std::result::Result<T, YamlError>;

/// Larger mappings find duplicate keys by hashing.
const FEW_KEYS: usize = 24;

/// Reads YAML documents one after the other, and reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Transcoder {
    parser: Memory,
    frames: Vec<Frame>,
    keys: Vec<Key>,
    anchors: HashMap<Vec<u8>, Anchor>,
    /// Anchors of complete collections whose JSON is part of the output, ordered by their ends.
    in_output: Vec<Vec<u8>>,
    /// JSON of anchored nodes that is no longer in the output, and keys under construction.
    kept: Vec<u8>,
    /// Output and document offsets of each node, if requested.
    pub(crate) places: Option<Vec<(usize, usize)>>,
    /// Duplicate keys and their document offsets, if they are allowed.
    pub(crate) duplicates: Option<Vec<(usize, String)>>,
}

/// An open array or object.
#[derive(Debug)]
struct Frame {
    kind: FrameKind,
    /// Its offset in the output.
    start: usize,
    anchor: Option<Vec<u8>>,
    /// Number of anchors before it.
    anchors: usize,
    /// Number of nodes before it.
    nodes: u64,
}

#[derive(Debug)]
enum FrameKind {
    Sequence {
        first: bool,
    },
    Mapping {
        /// Index of its first key in the list of keys.
        keys: usize,
        /// A key was read, but not its value.
        value: bool,
        /// It has a key `<<`.
        merge: bool,
        /// All keys, if there are many.
        many: Option<HashSet<Vec<u8>>>,
    },
}

/// A key of an open mapping.
#[derive(Debug)]
struct Key {
    /// Its range in the output, with quotes.
    text: Range<usize>,
    /// Its offset in the document, if it is `<<`.
    merge: Option<usize>,
}

#[derive(Debug, Clone)]
enum Anchor {
    /// Its node is incomplete.
    Open,
    /// Its JSON is part of the output, or was saved.
    Done { text: Range<usize>, kept: bool, nodes: u64 },
    /// A scalar, unconverted: keys and values are written differently.
    Scalar { text: Vec<u8>, tag: Tag, implicit: bool },
}

/// Role of a node in its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Value,
    Key,
}

impl Transcoder {
    /// Appends the JSON of the first document in `source` to `out`, which must be empty; nothing if there is no
    /// document.
    pub(crate) fn read(&mut self, source: &[u8], out: &mut Vec<u8>, limits: Limits) -> Result<()> {
        check_characters(source)?;
        self.frames.clear();
        self.keys.clear();
        self.anchors.clear();
        self.in_output.clear();
        self.kept.clear();
        self.places.iter_mut().for_each(Vec::clear);
        let mut memory = mem::take(&mut self.parser);
        let mut parser = Parser::new(source, &mut memory);
        let mut run = Run { transcoder: self, out, limits, nodes: 0, aliased: 0, copied: 0 };
        let result = run.document(&mut parser);
        self.parser = memory;
        result
    }
}

/// State of reading one document.
struct Run<'a> {
    transcoder: &'a mut Transcoder,
    out: &'a mut Vec<u8>,
    limits: Limits,
    /// Number of nodes that Go would decode, and how many of them come from aliases.
    nodes: u64,
    aliased: u64,
    /// Bytes written for aliases and merges.
    copied: usize,
}

impl Run<'_> {
    fn document(&mut self, parser: &mut Parser<'_>) -> Result<()> {
        loop {
            match parser.next()? {
                Event::End => return Ok(()),
                Event::Alias { name, at } => self.alias(parser.text(name), at)?,
                Event::Scalar { node, text, implicit } => {
                    let text = parser.text(text);
                    if let Some(name) = node.anchor {
                        let anchor = Anchor::Scalar { text: text.to_vec(), tag: node.tag, implicit };
                        self.transcoder.anchors.insert(parser.text(name).to_vec(), anchor);
                    }
                    self.scalar(text, node.tag, implicit, node.at)?;
                }
                Event::SequenceStart(node) => {
                    let anchor = node.anchor.map(|name| parser.text(name));
                    self.open(node.at, anchor, FrameKind::Sequence { first: true }, b'[')?;
                }
                Event::MappingStart(node) => {
                    let anchor = node.anchor.map(|name| parser.text(name));
                    let keys = self.transcoder.keys.len();
                    let kind = FrameKind::Mapping { keys, value: false, merge: false, many: None };
                    self.open(node.at, anchor, kind, b'{')?;
                }
                Event::SequenceEnd => {
                    self.out.push(b']');
                    self.close();
                }
                Event::MappingEnd => {
                    self.out.push(b'}');
                    if let Some(Frame { kind: FrameKind::Mapping { keys, merge, .. }, start, .. }) =
                        self.transcoder.frames.last()
                    {
                        let (keys, merge, start) = (*keys, *merge, *start);
                        if merge {
                            self.merge(start)?;
                        }
                        self.transcoder.keys.truncate(keys);
                    }
                    self.close();
                }
            }
        }
    }

    /// Writes the separator before the next node, and returns the node's role.
    fn begin(&mut self, at: usize, scalar: bool) -> Result<Role> {
        let role = self.separate(at, scalar)?;
        if let Some(places) = &mut self.transcoder.places {
            places.push((self.out.len(), at));
        }
        Ok(role)
    }

    fn separate(&mut self, at: usize, scalar: bool) -> Result<Role> {
        match self.transcoder.frames.last_mut().map(|frame| &mut frame.kind) {
            None => Ok(Role::Value),
            Some(FrameKind::Sequence { first }) => {
                if !mem::take(first) {
                    self.out.push(b',');
                }
                Ok(Role::Value)
            }
            Some(FrameKind::Mapping { value: true, .. }) => {
                self.out.push(b':');
                Ok(Role::Value)
            }
            Some(FrameKind::Mapping { keys, .. }) => {
                if !scalar {
                    return Err(YamlError::new("invalid map key: it is a mapping or a sequence", at));
                }
                if self.transcoder.keys.len() > *keys {
                    self.out.push(b',');
                }
                Ok(Role::Key)
            }
        }
    }

    fn end(&mut self, role: Role) {
        if let Some(Frame { kind: FrameKind::Mapping { value, .. }, .. }) = self.transcoder.frames.last_mut()
        {
            *value = role == Role::Key;
        }
    }

    fn open(&mut self, at: usize, anchor: Option<&[u8]>, kind: FrameKind, bracket: u8) -> Result<()> {
        self.begin(at, false)?;
        if self.transcoder.frames.len() >= self.limits.depth {
            let message = format!("the object nests deeper than the limit of {} levels", self.limits.depth);
            return Err(YamlError::new(message, at));
        }
        let anchor = anchor.map(<[u8]>::to_vec);
        if let Some(name) = &anchor {
            self.transcoder.anchors.insert(name.clone(), Anchor::Open);
        }
        self.transcoder.frames.push(Frame {
            kind,
            start: self.out.len(),
            anchor,
            anchors: self.transcoder.in_output.len(),
            nodes: self.nodes,
        });
        self.nodes += 1;
        self.out.push(bracket);
        Ok(())
    }

    fn close(&mut self) {
        if let Some(frame) = self.transcoder.frames.pop()
            && let Some(name) = frame.anchor
        {
            let anchor = Anchor::Done {
                text: frame.start..self.out.len(),
                kept: false,
                nodes: self.nodes - frame.nodes,
            };
            self.transcoder.in_output.push(name.clone());
            self.transcoder.anchors.insert(name, anchor);
        }
        self.end(Role::Value);
    }

    fn alias(&mut self, name: &[u8], at: usize) -> Result<()> {
        let shown = String::from_utf8_lossy(name);
        let (text, kept, nodes) = match self.transcoder.anchors.get(name) {
            None => return Err(YamlError::new(format!("unknown anchor '{shown}' referenced"), at)),
            Some(Anchor::Open) => {
                return Err(YamlError::new(format!("anchor '{shown}' value contains itself"), at));
            }
            Some(Anchor::Scalar { text, tag, implicit }) => {
                let (text, tag, implicit) = (text.clone(), *tag, *implicit);
                self.count_alias(1, text.len(), at)?;
                return self.scalar(&text, tag, implicit, at);
            }
            Some(Anchor::Done { text, kept, nodes }) => (text.clone(), *kept, *nodes),
        };
        let first = if kept { self.transcoder.kept[text.start] } else { self.out[text.start] };
        self.begin(at, false)?;
        self.count_alias(nodes, text.len(), at)?;
        if kept {
            self.out.extend_from_slice(&self.transcoder.kept[text]);
        } else {
            self.out.extend_from_within(text);
        }
        if self.is_merge_value() && first == b'[' {
            return Err(want_map(at));
        }
        self.end(Role::Value);
        Ok(())
    }

    /// Accounts for an alias of this many nodes and bytes.
    fn count_alias(&mut self, nodes: u64, bytes: usize, at: usize) -> Result<()> {
        self.nodes += 1 + nodes;
        self.aliased += nodes;
        let ratio = self.aliased as f64 / self.nodes as f64;
        if self.aliased > 100 && self.nodes > 1000 && ratio > allowed_alias_ratio(self.nodes) {
            return Err(YamlError::new("document contains excessive aliasing", at));
        }
        self.copied += bytes;
        self.check_copied(at)
    }

    fn check_copied(&self, at: usize) -> Result<()> {
        let limit = self.limits.object_bytes.saturating_mul(2);
        if self.copied > limit {
            return Err(YamlError::new(format!("aliases and merges expand to more than {limit} bytes"), at));
        }
        Ok(())
    }

    /// The current value is that of a key `<<`.
    fn is_merge_value(&self) -> bool {
        matches!(
            self.transcoder.frames.last(),
            Some(Frame { kind: FrameKind::Mapping { value: true, merge: true, .. }, .. })
        ) && self.transcoder.keys.last().is_some_and(|key| key.merge.is_some())
    }

    fn scalar(&mut self, text: &[u8], tag: Tag, implicit: bool, at: usize) -> Result<()> {
        let role = self.begin(at, true)?;
        self.nodes += 1;
        let start = self.out.len();
        if role == Role::Value {
            write_value(text, tag, implicit, at, self.out)?;
        } else if text == b"<<" && (implicit || tag == Tag::Merge) {
            self.out.extend_from_slice(b"\"<<\"");
            self.transcoder.keys.push(Key { text: start..self.out.len(), merge: Some(at) });
            if let Some(Frame { kind: FrameKind::Mapping { merge, .. }, .. }) =
                self.transcoder.frames.last_mut()
            {
                *merge = true;
            }
        } else {
            write_key(text, tag, implicit, at, self.out)?;
            self.add_key(start, at)?;
        }
        self.end(role);
        Ok(())
    }

    /// Records the key that begins at `start` of the output.
    fn add_key(&mut self, start: usize, at: usize) -> Result<()> {
        let out = &self.out[..];
        let key = &out[start..];
        let transcoder = &mut *self.transcoder;
        if let Some(Frame { kind: FrameKind::Mapping { keys, many, .. }, .. }) = transcoder.frames.last_mut()
        {
            let before = &transcoder.keys[*keys..];
            let known = match many {
                Some(many) => !many.insert(key.to_vec()),
                None => {
                    before.iter().any(|before| before.merge.is_none() && out[before.text.clone()] == *key)
                }
            };
            if known && let Some(duplicates) = &mut transcoder.duplicates {
                duplicates.push((at, String::from_utf8_lossy(key).into_owned()));
                return Ok(());
            }
            if known {
                let message = format!("key {} already set in map", String::from_utf8_lossy(key));
                return Err(YamlError::new(message, at));
            }
            if many.is_none() && before.len() >= FEW_KEYS {
                let texts =
                    before.iter().filter(|key| key.merge.is_none()).map(|key| out[key.text.clone()].to_vec());
                *many = Some(texts.chain([key.to_vec()]).collect());
            }
        }
        transcoder.keys.push(Key { text: start..out.len(), merge: None });
        Ok(())
    }

    /// Rewrites the mapping at `start` with its merged keys. As in Go, and unlike the specification, the later key
    /// wins, whether it is merged or not.
    fn merge(&mut self, start: usize) -> Result<()> {
        self.keep_anchors(start)?;
        let text = self.out.split_off(start);
        if let Some(places) = &mut self.transcoder.places {
            // Rewritten nodes have the offset of the mapping.
            let before = places.partition_point(|(written, _)| *written <= start);
            places.truncate(before);
        }
        self.copied += text.len();
        self.check_copied(0)?;
        let mut members: Vec<(&[u8], &[u8])> = Vec::new();
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        let mut set = |key, value| match places.get(key) {
            Some(&place) => members[place] = (key, value),
            None => {
                places.insert(key, members.len());
                members.push((key, value));
            }
        };
        let keys = match self.transcoder.frames.last() {
            Some(Frame { kind: FrameKind::Mapping { keys, .. }, .. }) => *keys,
            _ => 0,
        };
        let is_merge = self.transcoder.keys[keys..].iter().map(|key| key.merge);
        for ((key, value), merge) in object_members(&text).zip(is_merge) {
            let Some(at) = merge else {
                set(key, value);
                continue;
            };
            match value.first() {
                Some(b'{') => object_members(value).for_each(|(key, value)| set(key, value)),
                Some(b'[') => {
                    let maps: Vec<&[u8]> = array_elements(value).collect();
                    if !maps.iter().all(|map| map.starts_with(b"{")) {
                        return Err(want_map(at));
                    }
                    // The first one wins.
                    for map in maps.iter().rev() {
                        object_members(map).for_each(|(key, value)| set(key, value));
                    }
                }
                _ => return Err(want_map(at)),
            }
        }
        self.out.push(b'{');
        for (index, (key, value)) in members.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(key);
            self.out.push(b':');
            self.out.extend_from_slice(value);
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Saves the JSON of the anchors within the current mapping before it is rewritten.
    fn keep_anchors(&mut self, start: usize) -> Result<()> {
        let Transcoder { anchors, in_output, kept, frames, .. } = &mut *self.transcoder;
        // Earlier anchors are not visited: there may be many, and many merges.
        let before = frames.last().map_or(0, |frame| frame.anchors);
        for name in in_output.drain(before.min(in_output.len())..) {
            if let Some(Anchor::Done { text, kept: is_kept @ false, .. }) = anchors.get_mut(&name)
                && text.start >= start
            {
                let from = kept.len();
                kept.extend_from_slice(&self.out[text.clone()]);
                self.copied += text.len();
                *text = from..kept.len();
                *is_kept = true;
            }
        }
        self.check_copied(0)
    }
}

fn want_map(at: usize) -> YamlError {
    YamlError::new("map merge requires map or sequence of maps as the value", at)
}

/// Maximum ratio of nodes from aliases (Go's numbers): nearly all of a small document, a tenth of a very large one.
fn allowed_alias_ratio(nodes: u64) -> f64 {
    const LOW: u64 = 400_000;
    const HIGH: u64 = 4_000_000;
    match nodes {
        ..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((nodes - LOW) as f64 / (HIGH - LOW) as f64),
    }
}
