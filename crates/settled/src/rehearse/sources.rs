//! Manifests with their places: the file, line and column of each field.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kstatus::Object;
use serde_json::Value;
use settled_manifest::{Batch, Item, Position, Scratch, Splitter};
use settled_rehearsal::findings::{Finding, Manifest};
use settled_rehearsal::prepare;

use crate::error::CommandError;
use crate::inputs::Inputs;
use crate::places::Places;

/// Malformed documents that are named.
const NAMED_MAX: usize = 10;

/// A manifest, and where it stands.
pub(super) struct Source {
    pub(super) manifest: Manifest,
    pub(super) file: Arc<str>,
    places: Places,
}

impl Source {
    /// An object of a cluster.
    pub(super) fn of_cluster(object: Value, cluster: &Arc<str>) -> Self {
        let manifest = Manifest::new(object, "default");
        Self { manifest, file: Arc::clone(cluster), places: Places::default() }
    }

    /// What is applied.
    pub(super) fn json(&self) -> Vec<u8> {
        self.manifest.json().as_bytes().to_vec()
    }

    /// Where a field stands, or what is around it.
    pub(super) fn place(&self, field: &str) -> Option<Position> {
        self.places.find(field)
    }
}

/// Reads all objects. A malformed document is an error: the rest must not pass for everything.
pub(super) fn read(
    files: &[PathBuf],
    kustomization: Option<&Path>,
    namespace: &str,
) -> Result<Vec<Source>, CommandError> {
    let mut reader = Reader { namespace, sources: Vec::new(), malformed: Vec::new() };
    for input in Inputs::of(files, kustomization) {
        let unreadable = |error| CommandError::input_error(format!("cannot read {}", input.source), error);
        reader.stream(&input.source, input.reader.map_err(unreadable)?).map_err(unreadable)?;
    }
    reader.finish()
}

/// Reads the objects of a text.
pub(super) fn parse(file: &str, text: &'static str, namespace: &str) -> Result<Vec<Source>, CommandError> {
    let mut reader = Reader { namespace, sources: Vec::new(), malformed: Vec::new() };
    let unreadable = |error| CommandError::input_error(format!("cannot read {file}"), error);
    reader.stream(&file.into(), Box::new(text.as_bytes())).map_err(unreadable)?;
    reader.finish()
}

/// Changes what cannot be rehearsed as it is, and says so.
pub(super) fn adapt(sources: &mut [Source], seed: u64) -> Vec<Finding> {
    let mut manifests: Vec<Manifest> = sources.iter_mut().map(|source| source.manifest.clone()).collect();
    let findings = prepare::adapt(&mut manifests, seed);
    for (source, manifest) in sources.iter_mut().zip(manifests) {
        source.manifest = manifest;
    }
    findings
}

struct Reader<'n> {
    namespace: &'n str,
    sources: Vec<Source>,
    malformed: Vec<String>,
}

impl Reader<'_> {
    fn stream(&mut self, file: &Arc<str>, stream: Box<dyn Read + Send>) -> io::Result<()> {
        let Self { namespace, sources, malformed } = self;
        let mut splitter = Splitter::new(stream);
        let mut scratch = Scratch::with_places();
        while let Some(batch) = splitter.next_batch(Batch::default())? {
            batch.objects(&mut scratch, |item| match item {
                Item::Object(object) => match source(&batch, &object, file, namespace) {
                    Ok(source) => sources.push(source),
                    Err(message) => malformed.push(format!("{file}: {message}")),
                },
                Item::Malformed(error) => {
                    let Position { line, column } = error.position;
                    malformed.push(format!("{file}:{line}:{column}: {}", error.message));
                }
            });
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<Source>, CommandError> {
        if !self.malformed.is_empty() {
            let more = self.malformed.len().saturating_sub(NAMED_MAX);
            let error = CommandError::input("the input contains documents that are not objects");
            let error = self.malformed.into_iter().take(NAMED_MAX).fold(error, CommandError::detail);
            return Err(if more > 0 { error.detail(format!("… and {more} more")) } else { error });
        }
        if self.sources.is_empty() {
            return Err(CommandError::input("no objects found in the files").hint(
                "in directories, only files ending in .yaml, .yml, .json, .jsonl or .ndjson are read",
            ));
        }
        Ok(self.sources)
    }
}

fn source(
    batch: &Batch,
    object: &settled_manifest::Object<'_>,
    file: &Arc<str>,
    namespace: &str,
) -> Result<Source, String> {
    let parsed = Object::parse(object.json).map_err(|error| error.message().to_owned())?;
    let places = Places::of(batch, object, parsed.root());
    let value = serde_json::from_slice(object.json).map_err(|error| error.to_string())?;
    let manifest = Manifest::new(value, namespace);
    if manifest.kind.is_empty() || manifest.api_version.is_empty() {
        let place = places.object().map_or_else(String::new, |place| format!("line {}: ", place.line));
        return Err(format!("{place}an object needs apiVersion and kind"));
    }
    Ok(Source { manifest, file: Arc::clone(file), places })
}
