//! Policies of files, and the objects there that they select.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kstatus::Object;
use serde_json::Value;
use settled_manifest::{Batch, Item, Scratch};
use settled_netpol::cluster::Cluster;
use settled_netpol::parse::{ParseError, Parsed, kind_of, parse_policy};
use settled_netpol::profile::{OwnKinds, Profiles};

use super::row::{NotEvaluated, Spot, Unread};
use super::snapshot::{Collected, Snapshot};
use crate::cli::netpol::PolicyArgs;
use crate::error::CommandError;
use crate::inputs::Inputs;
use crate::pipeline::{self, Event, InputId, Settings, Work};
use crate::places::Places;
use crate::stderr;

/// The namespace of objects of files that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// How many threads read files unless the user says otherwise.
const THREADS_MAX: usize = 16;

/// A policy, and where it was found.
#[derive(Debug)]
pub(super) struct Entry {
    /// Boxed: the list of entries grows by copies.
    pub(super) parsed: Box<Parsed>,
    /// The file; None in a cluster.
    pub(super) source: Option<Arc<str>>,
    places: Places,
}

impl Entry {
    /// A policy of a cluster.
    pub(super) fn of_cluster(parsed: Parsed) -> Self {
        Self { parsed: Box::new(parsed), source: None, places: Places::default() }
    }

    /// Where a field stands in the file.
    pub(super) fn spot(&self, path: &str) -> Option<Spot> {
        self.places.find(path).map(|place| Spot { line: place.line, column: place.column })
    }

    /// Where the policy begins in the file.
    pub(super) fn begin(&self) -> Option<Spot> {
        self.places.object().map(|place| Spot { line: place.line, column: place.column })
    }
}

/// Policies of a kind that is not evaluated.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    pub(super) count: u64,
    /// The providers whose kind it is; none if its API version is not known.
    pub(super) providers: Vec<String>,
}

impl Others {
    /// Those of a kind, if it is a provider's own.
    pub(super) fn of(own_kinds: &OwnKinds, api_version: &str, kind: &str) -> Option<Self> {
        let providers: Vec<String> = own_kinds.providers(api_version, kind).map(str::to_owned).collect();
        (!providers.is_empty()).then_some(Self { count: 1, providers })
    }
}

/// All that was read.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) policies: Vec<Entry>,
    pub(super) snapshot: Snapshot,
    /// Kinds that could not be read.
    pub(super) unread: Vec<Unread>,
    /// Policies of kinds that are not evaluated, by API version and kind.
    pub(super) others: BTreeMap<(String, String), Others>,
    /// How many files were read.
    pub(super) inputs: u64,
    /// How many files or documents could not be read; each was reported.
    pub(super) unreadable: u64,
    /// How many objects there were, of all kinds.
    pub(super) objects: u64,
}

impl Contents {
    /// What the policies select, taken out of the contents; None if the files say nothing of it.
    pub(super) fn cluster(&mut self, of_files: bool) -> Option<Cluster> {
        let snapshot = std::mem::take(&mut self.snapshot);
        if !of_files {
            return Some(snapshot.cluster(&self.unread));
        }
        if snapshot.is_empty() {
            return None;
        }
        let (snapshot, unread) = snapshot.of_files();
        self.unread.extend(unread);
        Some(snapshot.cluster(&self.unread))
    }

    /// Adds policies of a cluster. Those of versions that are not known are not evaluated.
    pub(super) fn add(&mut self, entries: Vec<Result<Entry, ParseError>>) {
        for entry in entries {
            match entry {
                Ok(entry) => self.policies.push(entry),
                Err(ParseError::UnsupportedVersion { api_version, kind, .. }) => {
                    self.other(api_version, kind.as_str())
                }
                Err(ParseError::UnsupportedKind { api_version, kind }) => self.other(api_version, &kind),
                Err(ParseError::NotAnObject { .. }) => {}
            }
        }
    }

    fn other(&mut self, api_version: String, kind: &str) {
        self.others.entry((api_version, kind.to_owned())).or_default().count += 1;
    }

    /// Kinds of policies that are not evaluated.
    pub(super) fn not_evaluated(&self) -> Vec<NotEvaluated> {
        let others = self.others.iter();
        others
            .map(|((api_version, kind), others)| NotEvaluated {
                api_version: api_version.clone(),
                kind: kind.clone(),
                count: others.count,
                providers: others.providers.clone(),
            })
            .collect()
    }

    fn take(&mut self, input: &InputId, found: Found) {
        match found {
            Found::Policy(parsed, places) => {
                self.objects += 1;
                let source = Some(Arc::clone(&input.source));
                self.policies.push(Entry { parsed, source, places });
            }
            Found::Selected(collected) => {
                self.objects += 1;
                self.snapshot.add(*collected);
            }
            Found::Other => self.objects += 1,
            Found::OwnKind(api_version, kind, others) => {
                self.objects += 1;
                let known = self.others.entry((api_version, kind)).or_default();
                *known = Others { count: known.count + others.count, ..others };
            }
            Found::Malformed(error) => {
                self.unreadable += 1;
                stderr::unreadable_document(&input.source, &error);
            }
        }
    }
}

/// What a document turned out to be.
enum Found {
    Policy(Box<Parsed>, Places),
    /// An object that policies select.
    Selected(Box<Collected>),
    /// A policy of a kind that is a provider's own: its API version, its kind and whose it is.
    OwnKind(String, String, Others),
    /// Another object.
    Other,
    Malformed(String),
}

/// Reads what the arguments name. What cannot be read is reported and counted; the rest goes on.
pub(super) fn read(args: &PolicyArgs, profiles: &Profiles) -> Result<Contents, CommandError> {
    let contents = read_paths(&args.files, args.kustomize.as_deref(), args, profiles)?;
    if contents.objects == 0 && contents.unreadable == 0 {
        return Err(nothing_found(&args.files, args.kustomize.as_deref()));
    }
    Ok(contents)
}

/// Reads files, directories, patterns and URLs, and a kustomization.
pub(super) fn read_paths(
    files: &[PathBuf],
    kustomization: Option<&Path>,
    args: &PolicyArgs,
    profiles: &Profiles,
) -> Result<Contents, CommandError> {
    let namespace = args.namespace.as_deref().and_then(|list| list.split(',').next());
    let own_kinds = Arc::new(OwnKinds::new(profiles));
    let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE).into();
    let work = Policies { namespace, own_kinds, scratch: scratch() };
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    };
    let settings = Settings { threads, object_bytes: args.max_object_size };
    let mut contents = Contents::default();
    let inputs = Inputs::of(files, kustomization);
    let done: Result<(), std::convert::Infallible> = pipeline::run(inputs, settings, &work, |event| {
        match event {
            Event::Output(input, found) => found.drain(..).for_each(|found| contents.take(input, found)),
            Event::Unreadable(input, error) => {
                contents.unreadable += 1;
                stderr::unreadable(&input.source, error);
            }
            Event::End => contents.inputs += 1,
            Event::Idle => {}
        }
        Ok(())
    })?;
    match done {
        Ok(()) => Ok(contents),
        Err(never) => match never {},
    }
}

/// The error of files that hold nothing.
fn nothing_found(files: &[PathBuf], kustomization: Option<&Path>) -> CommandError {
    let name = |path: &Path| match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    };
    let names: Vec<String> = files.iter().map(PathBuf::as_path).chain(kustomization).map(name).collect();
    let error = CommandError::input(format!("no objects found in {}", names.join(", ")));
    match files.iter().any(|path| path.is_dir()) {
        true => {
            error.hint("in directories, only files ending in .yaml, .yml, .json, .jsonl or .ndjson are read")
        }
        false => error,
    }
}

fn scratch() -> [Scratch; 2] {
    [Scratch::with_places(), Scratch::with_places()]
}

/// Reads policies, on any thread.
#[derive(Debug)]
struct Policies {
    /// The namespace of objects without one.
    namespace: Arc<str>,
    own_kinds: Arc<OwnKinds>,
    /// The second is for documents that look like JSON and are YAML.
    scratch: [Scratch; 2],
}

impl Clone for Policies {
    fn clone(&self) -> Self {
        Self {
            namespace: Arc::clone(&self.namespace),
            own_kinds: Arc::clone(&self.own_kinds),
            scratch: scratch(),
        }
    }
}

impl Work for Policies {
    type Output = Vec<Found>;

    fn size(found: &Vec<Found>) -> usize {
        // They are moved out of it.
        found.capacity() * size_of::<Found>()
    }

    fn work(&mut self, _: &InputId, batch: &Batch, out: &mut Vec<Found>) {
        let Self { namespace, own_kinds, scratch: [first, second] } = self;
        let how = (&**namespace, &**own_kinds);
        out.clear();
        batch.objects(first, |item| {
            let found = match item {
                Item::Malformed(malformed) => return out.push(Found::Malformed(malformed.to_string())),
                Item::Object(found) => found,
            };
            let error = match Object::parse(found.json) {
                Ok(object) => return out.push(classify(batch, &found, &object, how)),
                Err(error) => error,
            };
            // Go's decoder then tries YAML, which allows more. If it is no object either, JSON's error says more.
            let before = out.len();
            batch.objects_as_yaml(&found, second, |item| {
                if let Item::Object(found) = item
                    && let Ok(object) = Object::parse(found.json)
                {
                    out.push(classify(batch, &found, &object, how));
                }
            });
            if out.len() == before {
                let position = batch.position(&found, error.offset());
                out.push(Found::Malformed(format!("{position}: {}", error.message())));
            }
        });
    }
}

fn classify(
    batch: &Batch,
    found: &settled_manifest::Object<'_>,
    object: &Object<'_>,
    (namespace, own_kinds): (&str, &OwnKinds),
) -> Found {
    let (Some(api_version), Some(kind)) = (object.api_version(), object.kind()) else {
        return Found::Other;
    };
    let value = || serde_json::from_slice::<Value>(found.json);
    if kind_of(&api_version, &kind).is_some() {
        let malformed =
            |message: String| Found::Malformed(format!("{}: {message}", batch.position(found, 0)));
        let value = match value() {
            Ok(value) => value,
            Err(error) => return malformed(error.to_string()),
        };
        return match parse_policy(&value, namespace) {
            Ok(parsed) => Found::Policy(Box::new(parsed), Places::of(batch, found, object.root())),
            Err(error) => malformed(error.to_string()),
        };
    }
    if Collected::is_kind(&api_version, &kind) {
        let collected = value().ok().and_then(|value| Collected::read(&kind, &value, namespace));
        return collected.map_or(Found::Other, |collected| Found::Selected(Box::new(collected)));
    }
    match Others::of(own_kinds, &api_version, &kind) {
        Some(others) => Found::OwnKind(api_version.into_owned(), kind.into_owned(), others),
        None => Found::Other,
    }
}
