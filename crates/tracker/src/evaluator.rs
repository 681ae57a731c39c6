//! Evaluates objects while they arrive: bytes in, a [`Record`] out.
//!
//! The object's bytes are read once, and dropped.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kstatus::{FailureClass, Known, Node, Object, Options, Profile, Status, Verdict};
use settled_rules::RuleSet;
use settled_watch::{Cluster, Resource};

use crate::condition::{ConditionResult, WaitCondition};
use crate::crd_rules::CrdRules;
use crate::event_note;
use crate::facts::{self, Facts, KindFacts};
use crate::id::{ObjectId, Uid};
use crate::record::{Record, not_found, owners};
use crate::shared::Pool;

/// Evaluates objects while they arrive.
#[derive(Debug)]
pub struct Evaluator {
    rules: RuleSet,
    profile: Profile,
    assume_current: bool,
    require_address: bool,
    /// What is waited for, in this order; asked of targets only.
    conditions: Vec<WaitCondition>,
    /// What the objects of a kind have in common.
    common: Mutex<Common>,
    /// Rules of custom kinds, in annotations of their CRDs.
    crd_rules: CrdRules,
}

/// What records share. Most of thousands of Pods are in the same state, and belong to a few others.
#[derive(Debug, Default)]
struct Common {
    words: Pool<str>,
    verdicts: Pool<Verdict>,
    notes: Pool<str>,
    results: Pool<[ConditionResult]>,
    owners: Pool<[Uid]>,
}

impl Common {
    fn id(&mut self, group: &str, kind: &str, namespace: &str, name: &str) -> ObjectId {
        let words = &mut self.words;
        ObjectId::new(words.share(group), words.share(kind), words.share(namespace), name)
    }
}

impl Evaluator {
    /// Evaluates by these rules, and checks targets for these conditions.
    #[must_use]
    pub fn new(rules: RuleSet, conditions: Vec<WaitCondition>) -> Self {
        Self {
            rules,
            profile: Profile::Settled,
            assume_current: false,
            require_address: true,
            conditions,
            common: Mutex::default(),
            crd_rules: CrdRules::default(),
        }
    }

    /// Reads the rule in the annotations of a custom kind's CRD, once for each kind: before the first of its
    /// objects is read.
    pub(crate) async fn learn(&self, cluster: &Cluster, resource: &Resource) {
        if self.profile == Profile::Settled && self.rules.reads_annotations() {
            self.crd_rules.learn(cluster, resource, &self.rules).await;
        }
    }

    /// Decides in another profile.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// As [`Options::assume_current`].
    #[must_use]
    pub fn assume_current(mut self, assume: bool) -> Self {
        self.assume_current = assume;
        self
    }

    /// As [`Options::require_address`].
    #[must_use]
    pub fn require_address(mut self, require: bool) -> Self {
        self.require_address = require;
        self
    }

    /// The conditions that are waited for.
    #[must_use]
    pub fn conditions(&self) -> &[WaitCondition] {
        &self.conditions
    }

    fn options(&self, now: Timestamp) -> Options {
        let mut options = Options::new(now);
        options.profile = self.profile;
        options.assume_current = self.assume_current;
        options.require_address = self.require_address;
        // How long a node may be looked for is the wait's to say, not the verdict's.
        options.schedule_grace = jiff::SignedDuration::MAX;
        // The verdict is kept, and reported much later.
        options.ages = false;
        options
    }

    /// What is kept of an object, if the bytes are one. Targets are asked whether they are what is waited for.
    #[must_use]
    pub fn record(&self, json: &[u8], now: Timestamp, target: bool) -> Option<Record> {
        self.record_of(&Object::parse(json).ok()?, now, target)
    }

    /// The same of an object that has been read.
    pub(crate) fn record_of(&self, object: &Object<'_>, now: Timestamp, target: bool) -> Option<Record> {
        let field = |key: &str| object.known(Known::find("", key)?);
        // Their places are noted: looking for them in the metadata would scan the managed fields for each.
        let meta = |key: &str| object.known(Known::find("metadata", key)?);
        field("metadata")?;
        let (group, kind) = object.type_names();
        let text = |key: &str| meta(key).and_then(|value| value.as_str());
        let options = self.options(now);
        let verdict = self.rules.verdict(object, &options);
        let results = match target {
            true => self
                .conditions
                .iter()
                .map(|condition| condition.evaluate(Some(object), &verdict, now))
                .collect(),
            false => Vec::new(),
        };
        let results_if_failed = match target && self.conditions.iter().any(WaitCondition::waits_for_failure) {
            true => {
                let (reason, message) = (verdict.reason.clone(), verdict.message.clone());
                let mut failed = Verdict::new(Status::Failed, verdict.basis, reason, message);
                failed.blocking = verdict.blocking;
                self.conditions
                    .iter()
                    .map(|condition| condition.evaluate(Some(object), &failed, now))
                    .collect()
            }
            false => Vec::new(),
        };
        let time = |key: &str| text(key).and_then(|time| time.parse().ok());
        let (namespace, name) = (text("namespace").unwrap_or_default(), text("name").unwrap_or_default());
        if group.is_empty() && &*kind == "Event" && !target {
            return event(self.id(&group, &kind, &namespace, &name), object.root());
        }
        let facts = facts::read(&group, &kind, object, verdict.status);
        let owners = owners(meta("ownerReferences"));
        let observes = verdict.observed_generation.is_some();
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, owners) = (common.id(&group, &kind, &namespace, &name), common.owners.share(owners));
        let (verdict, results) = (common.verdicts.share(verdict), common.results.share(results));
        let results_if_failed = common.results.share(results_if_failed);
        drop(common);
        Some(Record {
            uid: Uid::from(&*text("uid").unwrap_or_default()),
            resource_version: text("resourceVersion")
                .and_then(|resource_version| resource_version.parse().ok())
                .unwrap_or(0),
            generation: meta("generation").and_then(Node::as_int),
            created: time("creationTimestamp"),
            deleted: time("deletionTimestamp"),
            owners,
            observes,
            has_status: field("status").is_some_and(|s| s.members().next().is_some()),
            id,
            verdict,
            results,
            results_if_failed,
            facts: facts.map(Box::new),
        })
    }

    /// The id of these parts, which shares with others what they have in common.
    pub(crate) fn id(&self, group: &str, kind: &str, namespace: &str, name: &str) -> ObjectId {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        common.id(group, kind, namespace, name)
    }

    /// The verdict, kept once for all objects that have the same.
    pub(crate) fn share_verdict(&self, verdict: Arc<Verdict>) -> Arc<Verdict> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner).verdicts.share(verdict)
    }

    /// The note, kept once for all targets that have the same.
    pub(crate) fn share_note(&self, note: String) -> Arc<str> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner).notes.share(note)
    }

    /// Whether an object that is not there is what is waited for, one condition after another.
    #[must_use]
    pub fn absent(&self, now: Timestamp) -> Vec<ConditionResult> {
        let verdict = not_found();
        self.conditions.iter().map(|condition| condition.evaluate(None, &verdict, now)).collect()
    }
}

/// An Event as a record: a failure of its involved object, where it reports that something cannot be created.
fn event(id: ObjectId, event: Node<'_>) -> Option<Record> {
    let note = event_note::read(event)?;
    let about = event.get("involvedObject").or_else(|| event.get("regarding"))?;
    let uid = about.get("uid").and_then(|uid| uid.as_str()).unwrap_or_default();
    let metadata = event.get("metadata")?;
    let text = |key: &str| metadata.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    let refused = note.type_ == "Warning" && note.reason.starts_with("Failed");
    let (status, class) = match refused {
        false => (Status::Current, None),
        true if note.message.contains("exceeded quota") || note.message.contains("failed quota") => {
            (Status::Failed, Some(FailureClass::Quota))
        }
        true => (Status::Failed, Some(FailureClass::Configuration)),
    };
    let mut verdict = Verdict::new(status, kstatus::Basis::KindRule, note.reason, note.message);
    if let Some(class) = class {
        verdict = verdict.failure(class, false);
    }
    let of_kind = KindFacts::Event { count: note.count };
    let facts = Facts { since: note.last.or(note.first), of_kind, ..Facts::default() };
    Some(Record {
        uid: Uid::from(&*text("uid")),
        resource_version: text("resourceVersion").parse().unwrap_or(0),
        generation: None,
        created: note.first,
        deleted: None,
        owners: Arc::new([Uid::from(&*uid)]),
        observes: false,
        has_status: false,
        id,
        verdict: Arc::new(verdict),
        results: Arc::default(),
        results_if_failed: Arc::default(),
        facts: Some(Box::new(facts)),
    })
}
