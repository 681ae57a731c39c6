//! Rules in annotations of CustomResourceDefinitions that are read from the same input as the objects of their kinds.
//!
//! Files are searched for such annotations before the first verdict, so the order of CRDs and objects does not matter. A stream
//! (standard input, a pipe, a URL, a kustomization) is read once: there, a CRD counts for the objects after it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use settled_manifest::{Batch, Item, Limits, Object, Scratch, Splitter};
use settled_rules::{CRD_ANNOTATIONS, Definition, LoadError, RuleSet};

use crate::inputs::Inputs;
use crate::stderr;

static FINDERS: LazyLock<Vec<Finder<'static>>> =
    LazyLock::new(|| CRD_ANNOTATIONS.iter().map(Finder::new).collect());

/// Whether a text mentions an annotation that is a rule: much cheaper than to look for CRDs in it.
pub(crate) fn mentions(text: &[u8]) -> bool {
    FINDERS.iter().any(|finder| finder.find(text).is_some())
}

/// Adds the rules of all CRDs in files that can be read twice. What cannot be read is reported when it is read for its objects.
pub(crate) fn learn(inputs: Inputs, rules: &RuleSet, object_bytes: usize) {
    if !rules.reads_annotations() {
        return;
    }
    for input in inputs.only_files() {
        let Some(path) = input.path else { continue };
        if input.reader.is_ok_and(|reader| file_mentions(reader).unwrap_or_default()) {
            learn_file(&path, &input.source, rules, object_bytes).ok();
        }
    }
}

/// As [`mentions`], for a file of any size.
fn file_mentions(mut reader: impl Read) -> io::Result<bool> {
    const BUFFER_BYTES: usize = 256 << 10;
    let longest = CRD_ANNOTATIONS.iter().map(|name| name.len()).max().unwrap_or_default();
    let mut buffer = vec![0; BUFFER_BYTES];
    // What may be the beginning of a name stays for the next part.
    let mut kept = 0;
    loop {
        let read = match reader.read(&mut buffer[kept..]) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let length = kept + read;
        if mentions(&buffer[..length]) {
            return Ok(true);
        }
        kept = length.min(longest);
        buffer.copy_within(length - kept..length, 0);
    }
}

fn learn_file(path: &Path, source: &str, rules: &RuleSet, object_bytes: usize) -> io::Result<()> {
    let limits = Limits { object_bytes, ..Limits::default() };
    let mut splitter = Splitter::with_limits(File::open(path)?, limits);
    let mut recycled = Batch::default();
    while let Some(batch) = splitter.next_batch(recycled)? {
        if mentions(batch.text()) {
            read(&batch, source, |_, definition| rules.learn(definition));
        }
        recycled = batch;
    }
    Ok(())
}

/// Definitions of a batch of a stream, which are added when the objects before them are evaluated.
#[derive(Default)]
pub(crate) struct Pending(VecDeque<(Vec<u8>, Definition)>);

impl Pending {
    pub(crate) fn of(source: &str, batch: &Batch, rules: &RuleSet) -> Self {
        let mut pending = Self::default();
        if rules.reads_annotations() && mentions(batch.text()) {
            read(batch, source, |json, definition| pending.0.push_back((json.to_vec(), definition)));
        }
        pending
    }

    /// Adds the definition that an object is, after its verdict.
    pub(crate) fn pass(&mut self, json: &[u8], rules: &RuleSet) {
        if self.0.front().is_some_and(|(next, _)| next == json)
            && let Some((_, definition)) = self.0.pop_front()
        {
            rules.learn(definition);
        }
    }
}

/// Calls back with each CRD that has a rule. Warns of those whose rule cannot be read.
fn read(batch: &Batch, source: &str, mut each: impl FnMut(&[u8], Definition)) {
    batch.objects(&mut Scratch::with_places(), |item| {
        let Item::Object(found) = item else { return };
        if !mentions(found.json) {
            return;
        }
        let (Ok(object), Ok(text)) = (kstatus::Object::parse(found.json), std::str::from_utf8(found.json))
        else {
            return;
        };
        if object.kind().as_deref() != Some("CustomResourceDefinition") {
            return;
        }
        match Definition::read(&object.name().unwrap_or_default(), text) {
            Ok(Some(definition)) => each(found.json, definition),
            Ok(None) => {}
            Err(errors) => errors.0.iter().for_each(|error| warn(batch, &found, text, source, error)),
        }
    });
}

/// Says at which place of the input a rule is wrong.
fn warn(batch: &Batch, found: &Object<'_>, text: &str, source: &str, error: &LoadError) {
    let line_start = match error.line.checked_sub(2) {
        Some(line) => text.match_indices('\n').nth(line).map_or(0, |(at, _)| at + 1),
        None => 0,
    };
    let line = text.get(line_start..).unwrap_or_default();
    let column = line.char_indices().nth(error.column.saturating_sub(1)).map_or(0, |(at, _)| at);
    let place = batch.position(found, line_start + column);
    stderr::warning(&format!(
        "{}:{}:{}: annotation of CRD {} ignored: {}",
        if source == "-" { "standard input" } else { source },
        place.line,
        place.column,
        error.file,
        error.message
    ));
}
