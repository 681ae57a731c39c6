//! Rows: one object and the verdict on it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kstatus::{Known, Node, Object, Options, Problem, Profile, Status, Verdict};
use settled_manifest::{Batch, Item, Malformed, Scratch};
use settled_rules::RuleSet;

use crate::cli::{InputArgs, Sort};
use crate::definitions::{self, Pending};
use crate::inputs::Inputs;
use crate::pipeline::InputId;

/// Identity and creation time of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity<'a> {
    pub(crate) api_version: Option<Cow<'a, str>>,
    pub(crate) kind: Option<Cow<'a, str>>,
    pub(crate) namespace: Option<Cow<'a, str>>,
    pub(crate) name: Option<Cow<'a, str>>,
    /// `metadata.creationTimestamp`, which manifests do not have.
    pub(crate) created: Option<Cow<'a, str>>,
}

impl<'a> Identity<'a> {
    pub(crate) fn of(object: &Object<'a>) -> Self {
        Self {
            api_version: object.api_version(),
            kind: object.kind(),
            namespace: object.namespace(),
            name: object.name(),
            created: Known::find("metadata", "creationTimestamp")
                .and_then(|field| object.known(field))
                .and_then(Node::as_str),
        }
    }

    /// Age of the object; none if unknown or negative.
    pub(crate) fn age(&self, now: Timestamp) -> Option<Duration> {
        let created: Timestamp = self.created.as_deref()?.parse().ok()?;
        now.duration_since(created).as_secs().try_into().ok().map(Duration::from_secs)
    }

    /// The group, empty for the core's kinds, and the version.
    pub(crate) fn group_version(&self) -> (&str, &str) {
        let text = self.api_version.as_deref().unwrap_or_default();
        text.split_once('/').unwrap_or(("", text))
    }

    /// Not even a kind and a name could be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.kind.is_none() && self.name.is_none()
    }

    /// Appends what the row is to be sorted by, for a comparison of bytes.
    pub(crate) fn push_key(&self, sort: Sort, status: Status, source: &str, key: &mut Vec<u8>) {
        let (kind, namespace, name) = (&self.kind, &self.namespace, &self.name);
        let fields = match sort {
            Sort::None => return,
            Sort::Source => return key.extend_from_slice(source.as_bytes()),
            Sort::Status => {
                key.push(status as u8);
                [namespace, kind, name]
            }
            Sort::Namespace => [namespace, kind, name],
            Sort::Kind => [kind, namespace, name],
            Sort::Name => [name, namespace, kind],
        };
        for field in fields {
            key.extend_from_slice(field.as_deref().unwrap_or_default().as_bytes());
            key.push(0);
        }
    }
}

impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (self.kind.as_deref(), self.name.as_deref());
        write!(f, "{}/{}", kind.unwrap_or("?"), name.unwrap_or("?"))
    }
}

/// Memory for [`Reader::objects`], to be used again.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    scratch: Scratch,
    /// For a document that looks like JSON and is none.
    second_scratch: Scratch,
}

/// An object and its JSON; or why there is none, and where.
pub(crate) type Found<'a> = Result<(&'a Object<'a>, &'a [u8]), Malformed>;

impl Reader {
    /// Calls `each` for all that is in the batch, in its order.
    pub(crate) fn objects(&mut self, batch: &Batch, mut each: impl FnMut(Found<'_>)) {
        let Self { scratch, second_scratch } = self;
        batch.objects(scratch, |item| {
            let found = match item {
                Item::Malformed(malformed) => return each(Err(malformed)),
                Item::Object(found) => found,
            };
            let error = match Object::parse_with(found.json, |object| each(Ok((object, found.json)))) {
                Ok(()) => return,
                Err(error) => error,
            };
            // Go's decoder then tries YAML, which allows more. If it is no object either, JSON's error says more.
            let mut read = 0;
            batch.objects_as_yaml(&found, second_scratch, |item| {
                let Item::Object(found) = item else { return };
                if let Ok(object) = Object::parse(found.json) {
                    read += 1;
                    each(Ok((&object, found.json)));
                }
            });
            if read == 0 {
                let position = batch.position(&found, error.offset());
                each(Err(Malformed { message: error.message().to_owned(), position }));
            }
        });
    }
}

impl Reader {
    /// As [`objects`](Self::objects), where a CRD of a stream that has a rule counts for the objects after it.
    pub(crate) fn objects_with_rules(
        &mut self,
        input: &InputId,
        batch: &Batch,
        rules: &RuleSet,
        mut each: impl FnMut(Found<'_>),
    ) {
        let mut pending = match input.is_stream {
            true => Pending::of(&input.source, batch, rules),
            false => Pending::default(),
        };
        self.objects(batch, |found| {
            let json = found.as_ref().map_or(&[][..], |(_, json)| *json);
            each(found);
            pending.pass(json, rules);
        });
    }
}

/// How verdicts are given.
#[derive(Clone, Debug)]
pub(crate) struct Verdicts {
    pub(crate) options: Options,
    pub(crate) rules: Arc<RuleSet>,
}

impl Verdicts {
    /// Adds the rules of CRDs in the files of the input.
    pub(crate) fn learn(&self, args: &InputArgs) {
        if self.options.profile == Profile::Settled {
            let inputs = Inputs::of(&args.files, args.kustomize.as_deref());
            definitions::learn(inputs, &self.rules, args.max_object_size);
        }
    }
}

/// Calls `each` with a verdict on all that is in the batch, in its order.
pub(crate) fn verdicts(
    reader: &mut Reader,
    input: &InputId,
    batch: &Batch,
    how: &Verdicts,
    mut each: impl FnMut(&Identity<'_>, &dyn Fn() -> Verdict),
) {
    reader.objects_with_rules(input, batch, &how.rules, |found| match found {
        Ok((object, _)) => each(&Identity::of(object), &|| how.rules.verdict(object, &how.options)),
        Err(error) => each(&Identity::default(), &|| malformed(&error, &how.options)),
    });
}

/// The verdict on a document that is no object.
fn malformed(error: &Malformed, options: &Options) -> Verdict {
    let mut verdict = kstatus::compute(b"", options);
    verdict.message = error.to_string().into();
    verdict.problems = vec![Problem { path: "".into(), message: verdict.message.clone() }];
    verdict
}
