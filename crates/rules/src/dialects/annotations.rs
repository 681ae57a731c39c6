//! Annotations on objects: readiness expressions, and requests not to wait.
//!
//! | annotation | of | says |
//! |---|---|---|
//! | `settled.dev/current`, `failed`, `in-progress`, `suspended` | this program | an expression in CEL each |
//! | `helm.sh/readiness-success`, `readiness-failure` | Helm | see [`helm`] |
//! | `pulumi.com/waitFor` | Pulumi | see [`pulumi`] |
//! | `kluctl.io/is-ready` | kluctl | `true` or `false` |
//!
//! Where several tools have left one, the first in this order counts. [`IGNORED`] has the annotations that ask not to be
//! waited for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kstatus::{Known, Object, Problem};

use super::{branch, cel, check, helm, pulumi};
use crate::cel::source::Names;
use crate::draft::{Draft, DraftBranch, DraftWords, Says};
use crate::matching::Match;
use crate::origin::Rule;

/// Annotations that make a rule. Those of one tool stand together.
const SAYING: [&str; 8] = [
    "settled.dev/suspended",
    "settled.dev/failed",
    "settled.dev/in-progress",
    "settled.dev/current",
    "helm.sh/readiness-failure",
    "helm.sh/readiness-success",
    "pulumi.com/waitFor",
    "kluctl.io/is-ready",
];

/// Annotations, and the value with which they ask that nobody waits for the object.
const IGNORED: [(&str, &str); 6] = [
    ("settled.dev/ignore", "true"),
    ("argocd.argoproj.io/ignore-healthcheck", "true"),
    ("pulumi.com/skipAwait", "true"),
    ("werf.io/track-termination-mode", "NonBlocking"),
    ("werf.io/fail-mode", "IgnoreAndContinueDeployProcess"),
    ("kapp.k14s.io/disable-wait", ""),
];

/// A bit for each length of such a name, modulo 64: most annotations need no comparison.
const LENGTHS: u64 = {
    let mut lengths = 0;
    let mut index = 0;
    while index < SAYING.len() {
        lengths |= 1 << (SAYING[index].len() % 64);
        index += 1;
    }
    index = 0;
    while index < IGNORED.len() {
        lengths |= 1 << (IGNORED[index].0.len() % 64);
        index += 1;
    }
    lengths
};

/// Maximum length of an annotation.
const MAX_ANNOTATION_BYTES: usize = 16 * 1024;
/// Size of the rule cache. Objects of a chart or program share a few annotations.
const MAX_CACHED_RULES: usize = 1024;

type Texts<'a> = [Option<Cow<'a, str>>; SAYING.len()];

/// Annotations of an object.
#[derive(Debug, Default)]
pub(crate) struct Found<'a> {
    /// An annotation asks not to wait for it.
    pub(crate) ignored: bool,
    texts: Option<Texts<'a>>,
}

impl<'a> Found<'a> {
    /// One pass over the annotations. Most objects have none that matter, and cost no allocation.
    pub(crate) fn on(object: &Object<'a>) -> Self {
        let mut found = Self::default();
        let Some(annotations) = object.known(Known::ANNOTATIONS) else { return found };
        for (key, value) in annotations.entries() {
            if key.plain_length().is_some_and(|length| LENGTHS & (1 << (length % 64)) == 0) {
                continue;
            }
            if let Some((_, wanted)) = IGNORED.iter().find(|(known, _)| key.is(known)) {
                found.ignored |= value.is(wanted);
            } else if let Some(at) = SAYING.iter().position(|known| key.is(known))
                && let Some(slot) = found.texts.get_or_insert_default().get_mut(at)
            {
                *slot = value.as_str();
            }
        }
        found
    }
}

impl Found<'_> {
    /// Whether an annotation makes a rule, or asks not to wait for the object.
    pub(crate) fn matters(&self) -> bool {
        self.ignored || self.texts.is_some()
    }
}

/// The rule that annotations make, and what is wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Annotated {
    pub(crate) rule: Option<Rule>,
    pub(crate) problems: Vec<Problem>,
}

/// Rules of annotations that were met, compiled once.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<HashMap<Box<str>, Arc<Annotated>>>);

impl Cache {
    pub(crate) fn get(&self, found: &Found<'_>) -> Option<Arc<Annotated>> {
        let texts = found.texts.as_ref()?;
        let mut key = String::new();
        for text in texts {
            key.push_str(text.as_deref().map_or("-", |_| "+"));
            key.push_str(text.as_deref().unwrap_or_default());
            key.push('\0');
        }
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&*key) {
            return Some(Arc::clone(known));
        }
        let new = Arc::new(Annotated::new(texts));
        if key.len() <= MAX_ANNOTATION_BYTES {
            let mut cache = lock();
            if cache.len() == MAX_CACHED_RULES {
                cache.clear();
            }
            cache.insert(key.into(), Arc::clone(&new));
        }
        Some(new)
    }
}

/// Error: index of the annotation, and message.
type Wrong = (usize, String);

impl Annotated {
    fn new(texts: &Texts<'_>) -> Self {
        let mut annotated = Self::default();
        let said = texts.each_ref().map(Option::as_deref);
        if let Some(at) =
            said.iter().position(|text| text.is_some_and(|text| text.len() > MAX_ANNOTATION_BYTES))
        {
            annotated.wrong((at, format!("longer than {MAX_ANNOTATION_BYTES} bytes")));
            return annotated;
        }
        let tools: [(_, Reader); 4] = [(0..4, own), (4..6, of_helm), (6..7, of_pulumi), (7..8, of_kluctl)];
        for (mut places, branches) in tools {
            let Some(first) = places.find(|at| said.get(*at).copied().flatten().is_some()) else { continue };
            let rule = branches(&said).and_then(|branches| {
                let draft = Draft { branches, ..Draft::new(Match::default(), 0, Names::Known) };
                let name = format!("annotation {}", SAYING.get(first).unwrap_or(&""));
                let rule = Rule::new(name.into(), "".into(), draft);
                let wrong = rule.check().err().and_then(|errors| errors.into_iter().next());
                wrong.map_or(Ok(rule), |error| Err((first, error.message)))
            });
            match rule {
                Ok(rule) => {
                    annotated.rule = Some(rule);
                    break;
                }
                Err(wrong) => annotated.wrong(wrong),
            }
        }
        annotated
    }

    fn wrong(&mut self, (at, message): Wrong) {
        let name = SAYING.get(at).unwrap_or(&"");
        self.problems.push(Problem {
            path: format!(".metadata.annotations['{name}']").into(),
            message: format!("ignored: {message}").into(),
        });
    }
}

type Said<'t> = [Option<&'t str>; SAYING.len()];
type Branches = Result<Vec<DraftBranch>, Wrong>;
type Reader = fn(&Said<'_>) -> Branches;

/// If one expression is invalid, all are ignored, because the others would have a different meaning without it.
fn own([suspended, failed, in_progress, current, ..]: &Said<'_>) -> Branches {
    let mut branches = Vec::new();
    let all = [
        (Says::Suspended, suspended),
        (Says::Failed, failed),
        (Says::InProgress, in_progress),
        (Says::Current, current),
    ];
    for (at, (says, text)) in all.into_iter().enumerate() {
        let Some(text) = text else { continue };
        let when = cel(*text);
        check(&when, Names::Known)
            .map_err(|error| (at, format!("{}, at character {}", error.message, error.column + 1)))?;
        branches.push(DraftBranch { says, when, words: DraftWords::default() });
    }
    Ok(branches)
}

fn of_helm([.., failure, success, _, _]: &Said<'_>) -> Branches {
    let (Some(failure), Some(success)) = (failure, success) else {
        let (at, other) = if failure.is_some() { (4, SAYING[5]) } else { (5, SAYING[4]) };
        return Err((at, format!("it counts only together with {other}")));
    };
    let mut branches = Vec::new();
    for (at, says, text) in [(4, Says::Failed, failure), (5, Says::Current, success)] {
        let new = helm::branches(says, text).map_err(|wrong| (at, wrong))?;
        if new.is_empty() {
            return Err((at, "the list is empty".to_owned()));
        }
        branches.extend(new);
    }
    Ok(branches)
}

fn of_pulumi([.., text, _]: &Said<'_>) -> Branches {
    pulumi::branches(text.unwrap_or_default()).map_err(|wrong| (6, wrong))
}

/// <https://kluctl.io/docs/kluctl/deployments/annotations/all-resources/#kluctliois-ready>
fn of_kluctl([.., text]: &Said<'_>) -> Branches {
    match text {
        Some("true") => Ok(vec![branch(Says::Current, "true", "kluctl.io/is-ready is true")]),
        Some("false") => Ok(vec![branch(Says::InProgress, "true", "kluctl.io/is-ready is false")]),
        _ => Err((7, "expected \"true\" or \"false\"".to_owned())),
    }
}
