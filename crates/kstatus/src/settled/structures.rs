//! Generic evidence in common structures of a status: further words, booleans, members with a state of their own, conditions per
//! parent, counters, an error text.

use std::borrow::Cow;
use std::fmt;

use super::context::{Condition, Context, Truth, whole_number};
use super::lexicon::Role;
use super::meanings::{self, Report};
use super::phases::{Detail, Phases, is_text, sense_of, summary};
use super::vocabulary::{Phrase, Sense};
use crate::fields::{Field, Parent};
use crate::node::{Key, Node, Shown};
use crate::text::text;
use crate::verdict::{Basis, FailureClass, Status, Verdict};

/// What a status holds beside its conditions and its phase, found in one pass.
#[derive(Default)]
pub(super) struct Structures<'a> {
    /// Words of fields such as `syncStatus` and `upgrade.state`.
    pub(super) words: Phases<'a>,
    /// Whether one of them is not understood.
    has_strange_word: bool,
    booleans: Booleans<'a>,
    versions: Versions<'a>,
    counts: Counts<'a>,
    ratio: Option<Node<'a>>,
    members: Option<Member<'a>>,
    parents: Option<Node<'a>>,
    ancestors: Option<Node<'a>>,
    /// A text that a controller writes when it gives up, as in Cluster API.
    failure: Option<Node<'a>>,
    error: Option<Node<'a>>,
}

/// Keys of booleans that sum up, with the value that decides.
#[derive(Default)]
struct Booleans<'a> {
    bad: Option<Key<'a>>,
    still: Option<Key<'a>>,
    missing: Option<Key<'a>>,
    good: Option<Key<'a>>,
}

/// The versions that a status names.
#[derive(Default)]
struct Versions<'a> {
    current: Option<Node<'a>>,
    desired: Option<Node<'a>>,
}

/// The first numbers of what is ready, and of what the status wants, with their keys.
#[derive(Default)]
struct Counts<'a> {
    ready: Option<(Cow<'a, str>, i64)>,
    desired: Option<(Cow<'a, str>, i64)>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, key: Key<'a>, value: i64) {
        let name = key.bytes();
        let is_compound = |start: &[u8]| name.len() > start.len() && name.starts_with(start);
        let slot = if is_compound(b"desired") {
            &mut self.desired
        } else if is_compound(b"ready") {
            &mut self.ready
        } else {
            return;
        };
        slot.get_or_insert_with(|| (key.text(), value));
    }
}

/// Fields of a status that are read apart, whatever their type is.
const READ_APART: u128 = Field::Conditions.bit()
    | Field::ObservedGeneration.bit()
    | Field::Phase.bit()
    | Field::State.bit()
    | Field::StatusWord.bit()
    | Field::Health.bit();

/// What a part of a status says.
enum Reported<'a> {
    /// A string.
    Word(Node<'a>),
    Says(&'static str),
    By(Condition<'a>),
}

/// The predicate of a message whose subject is the part.
impl fmt::Display for Reported<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, " is {}", Shown(*word)),
            Self::Says(text) => write!(f, " is {text}"),
            Self::By(condition) => write!(f, ": {}", condition.describe()),
        }
    }
}

/// The worst of the members of an object.
struct Member<'a> {
    sense: Sense,
    reported: Reported<'a>,
    /// The member, as it is written.
    part: Node<'a>,
    /// The field that holds the members.
    key: Key<'a>,
    name: Option<Cow<'a, str>>,
}

/// What an element of a list of errors says: itself, or its message.
fn error_text(element: Node<'_>) -> Option<Node<'_>> {
    let text =
        if element.is_map() { element.get("message").or_else(|| element.get("error"))? } else { element };
    (text.is_filled() && is_text(text)).then_some(text)
}

impl<'a> Structures<'a> {
    pub(super) fn read(&mut self, context: &Context<'_, 'a>, kind: &[u8]) {
        for (key, value) in context.object.members(Parent::Status, !READ_APART) {
            if value.is_string() {
                self.add_text(key, value, kind);
            } else if value.is_map() || value.is_list() {
                self.add_structure(context, key, value, kind);
            } else if let Some(value) = value.as_bool() {
                self.booleans.add(key, value);
            } else if matches!(key.first_byte(), Some(b'd' | b'r'))
                && let Some(value) = value.as_int()
            {
                self.counts.add(key, value);
            }
        }
    }

    fn add_text(&mut self, key: Key<'a>, value: Node<'a>, kind: &[u8]) {
        match &*key.bytes() {
            _ if !value.is_filled() => {}
            // The message says more than the reason.
            b"failureReason" if self.failure.is_some() => {}
            b"failureMessage" | b"failureReason" => self.failure = Some(value),
            b"error" | b"errorMessage" if is_text(value) => {
                self.error.get_or_insert(value);
            }
            b"ready" => self.ratio = Some(value),
            b"currentVersion" => self.versions.current = Some(value),
            b"desiredVersion" | b"targetVersion" => self.versions.desired = Some(value),
            name if may_be_state(name) && is_state(name) => self.add_word(key, value, kind),
            _ => {}
        }
    }

    fn add_word(&mut self, key: Key<'a>, value: Node<'a>, kind: &[u8]) {
        if let Some(text) = summary(value) {
            self.has_strange_word |= !self.words.add(key, text, kind);
        }
    }

    fn add_structure(&mut self, context: &Context<'_, 'a>, key: Key<'a>, value: Node<'a>, kind: &[u8]) {
        let is_list = value.is_list();
        let name = key.bytes();
        match &*name {
            b"conditions" | b"phase" | b"state" | b"status" | b"health" => return,
            b"parents" if is_list => {
                self.parents = Some(value);
                return;
            }
            b"ancestors" if is_list => {
                self.ancestors = Some(value);
                return;
            }
            b"errors" | b"problems" if is_list => {
                if let Some(text) = value.elements().find_map(error_text) {
                    self.error.get_or_insert(text);
                }
                return;
            }
            _ => {}
        }
        let (is_of_now, has_states) =
            Phrase::with(&name, |phrase| (is_of_now(&name, phrase), has_members(phrase)));
        if !is_of_now && (is_list || !has_states) {
            return;
        }
        if is_list {
            for element in value.elements().filter(|element| element.is_map()) {
                let part = Part::of(element);
                let reported =
                    if has_states { part.report(context) } else { part.conditions_report(context) };
                if let Some((sense, reported)) = reported {
                    let name = part.name.and_then(Node::as_str).filter(|name| !name.is_empty());
                    self.add_member(Member { sense, reported, part: element, key, name });
                }
            }
            return;
        }
        let part = Part::of(value);
        if has_states && part.word().is_none() && part.conditions.is_none() {
            for (name, member) in value.members() {
                if let Some((sense, reported)) = Part::of(member).report(context) {
                    self.add_member(Member { sense, reported, part: member, key, name: Some(name) });
                }
            }
        } else if is_of_now {
            // `jobStatus: {state: FAILING}`, `conditionStatus: {conditions: []}`
            if let Some((sense, reported)) = part.conditions_report(context) {
                self.add_member(Member { sense, reported, part: value, key, name: None });
            } else if let Some(text) = part.word() {
                self.has_strange_word |= !self.words.add(key, text, kind);
            }
        }
    }

    fn add_member(&mut self, member: Member<'a>) {
        if self.members.as_ref().is_none_or(|known| rank(member.sense) > rank(known.sense)) {
            self.members = Some(member);
        }
    }

    /// A failure that outranks a summary which is not that of a condition.
    pub(super) fn failure(&self, context: &Context<'_, '_>) -> Option<Verdict> {
        if let Some(message) = self.failure.and_then(Node::as_str) {
            let verdict = Verdict::new(Status::Failed, Basis::PhaseWord, "Failure", message.into_owned());
            return Some(verdict.failure(FailureClass::Other, false));
        }
        if let Some(verdict) = self.of_parents(context, Status::Failed) {
            return Some(verdict);
        }
        if let Some(word) = &self.words.wrong {
            return Some(word.verdict(context, Status::Failed));
        }
        if let Some(member) = self.members.as_ref().filter(|member| member.sense == Sense::Wrong) {
            return Some(member.verdict(Status::Failed).failure(FailureClass::Other, false));
        }
        let key = &*self.booleans.bad?.text();
        let verdict = if key == "valid" || key == "accepted" {
            let reason = capitalized("Not", key);
            boolean(Status::Failed, reason, key, "false").failure(FailureClass::Configuration, false)
        } else {
            boolean(Status::Failed, capitalized("", key), key, "true").failure(FailureClass::Other, false)
        };
        Some(verdict)
    }

    /// `status.error` and its relatives: some controllers leave it there.
    pub(super) fn error(&self) -> Option<Verdict> {
        let message = self.error?.as_str()?;
        let verdict = Verdict::new(Status::Failed, Basis::PhaseWord, "Error", message.into_owned());
        Some(verdict.failure(FailureClass::Other, false))
    }

    pub(super) fn standstill(&self) -> Option<Verdict> {
        let key = self.booleans.still?.text();
        let message = ["status.", &key, " is true"].concat();
        Some(Verdict::new(Status::Current, Basis::PhaseWord, crate::reason::SUSPENDED, message))
    }

    /// What a parent or an ancestor has not done yet.
    pub(super) fn progress_of_parents(&self, context: &Context<'_, '_>) -> Option<Verdict> {
        self.of_parents(context, Status::InProgress)
    }

    /// What else is not done yet, beside a summary that says no more than `Running`.
    /// Members count only with `with_members`: a summary knows which of them are needed.
    pub(super) fn progress(&self, with_members: bool) -> Option<Verdict> {
        let missing = self.booleans.missing.map(Key::text);
        missing
            .map(|key| boolean(Status::InProgress, capitalized("Not", &key), &key, "false"))
            .or_else(|| self.of_ratio(Status::InProgress))
            .or_else(|| {
                let is_working = |member: &&Member<'_>| with_members && member.sense == Sense::Working;
                let member = self.members.as_ref().filter(is_working)?;
                Some(member.verdict(Status::InProgress))
            })
    }

    /// What is on its way while a summary says that all is well: replicas of an older revision, another version, fewer
    /// ready than the status itself wants.
    pub(super) fn differences(&self, context: &Context<'_, '_>) -> Option<Verdict> {
        if let Some(updated) = count(context, Field::UpdatedReplicas)
            && let Some(wanted) =
                count(context, Field::SpecReplicas).or_else(|| count(context, Field::Replicas))
            && updated < wanted
        {
            return Some(outstanding("LessUpdated", "Updated", updated, wanted));
        }
        let version = |node: Option<Node<'a>>| node.and_then(Node::as_str).filter(|text| !text.is_empty());
        if let (Some(current), Some(desired)) =
            (version(self.versions.current), version(self.versions.desired))
            && current != desired
        {
            let message = ["version ", &current, " is to become ", &desired].concat();
            return Some(Verdict::new(Status::InProgress, Basis::PhaseWord, "VersionDiffers", message));
        }
        let (have, wanted) = (self.counts.ready.as_ref()?, self.counts.desired.as_ref()?);
        // `readyWorkerReplicas` of `desiredWorkerReplicas`
        let is_pair = have.0.strip_prefix("ready") == wanted.0.strip_prefix("desired");
        (is_pair && have.1 < wanted.1).then(|| outstanding("LessReady", &have.0, have.1, wanted.1))
    }

    /// What says that the object is done, without a summary.
    pub(super) fn success(&self, context: &Context<'_, '_>) -> Option<Verdict> {
        self.of_parents(context, Status::Current)
            .or_else(|| {
                let key = self.booleans.good?.text();
                Some(boolean(Status::Current, capitalized("", &key), &key, "true"))
            })
            .or_else(|| self.of_ratio(Status::Current))
            .or_else(|| {
                let word = self.words.done.as_ref().or(self.words.running.as_ref());
                let word = word.filter(|_| !self.has_strange_word && self.words.unknown.is_none())?;
                Some(word.verdict(context, Status::Current))
            })
            .or_else(|| {
                let is_done = |member: &&Member<'_>| matches!(member.sense, Sense::Done | Sense::Running);
                Some(self.members.as_ref().filter(is_done)?.verdict(Status::Current))
            })
    }

    /// `ready: 2/3`
    fn of_ratio(&self, status: Status) -> Option<Verdict> {
        let text = self.ratio?.as_str()?;
        let (is_complete, reason) = match text.split_once('/') {
            Some((have, want)) => {
                let (have, want): (u64, u64) = (have.trim().parse().ok()?, want.trim().parse().ok()?);
                if have >= want { (true, "AllReady") } else { (false, "LessReady") }
            }
            None if text.eq_ignore_ascii_case("true") => (true, "Ready"),
            None if text.eq_ignore_ascii_case("false") => (false, "NotReady"),
            None => return None,
        };
        (is_complete == (status == Status::Current))
            .then(|| Verdict::new(status, Basis::PhaseWord, reason, ["status.ready is ", &text].concat()))
    }

    /// The worst entry of `status.parents` or `status.ancestors`, as the Gateway API defines them for routes and policies: what
    /// one of them refuses has not happened. The verdict only where it is `status`.
    fn of_parents(&self, context: &Context<'_, '_>, status: Status) -> Option<Verdict> {
        let list = self.parents.or(self.ancestors)?;
        let conditions = || {
            let lists = list.elements().filter_map(|entry| entry.get("conditions"));
            lists.flat_map(Node::elements).filter_map(Condition::elsewhere)
        };
        // An entry of an older generation is left by a parent that is no longer one, where others are up to date.
        let is_any_latest = conditions().any(|condition| context.is_latest(&condition));
        let (mut refused, mut working, mut done) = (None, None, None);
        for condition in conditions() {
            let is_lagging = context.is_lagging(&condition);
            if is_lagging && is_any_latest {
                continue;
            }
            let report = if is_lagging { Some(Report::Working) } else { meanings::of(&condition) };
            let slot = match report {
                Some(Report::Over(_) | Report::Wrong(_)) => &mut refused,
                Some(Report::Working | Report::Waiting | Report::Lacking) => &mut working,
                Some(Report::Done | Report::Ended) => &mut done,
                _ => continue,
            };
            slot.get_or_insert(condition);
        }
        let (found, worst) = refused
            .map(|found| (found, Status::Failed))
            .or_else(|| working.map(|found| (found, Status::InProgress)))
            .or_else(|| done.map(|found| (found, Status::Current)))?;
        if worst != status {
            return None;
        }
        let verdict = meanings::verdict(status, &found);
        Some(if status == Status::Failed {
            verdict.failure(FailureClass::Configuration, false)
        } else {
            verdict
        })
    }
}

impl<'a> Booleans<'a> {
    fn add(&mut self, key: Key<'a>, value: bool) {
        const GOOD: &[&str] = &[
            "applied",
            "available",
            "complete",
            "completed",
            "deployed",
            "done",
            "finished",
            "healthy",
            "installed",
            "provisioned",
            "ready",
            "successful",
            "synced",
            "valid",
        ];
        const BAD: &[&str] = &["degraded", "error", "failed"];
        const STILL: &[&str] = &["hibernated", "paused", "suspended"];
        let is_one_of = |words: &[&str]| words.iter().any(|word| key.is(word));
        let slot = match value {
            false if is_one_of(&["accepted", "valid"]) => &mut self.bad,
            true if is_one_of(BAD) => &mut self.bad,
            true if is_one_of(STILL) => &mut self.still,
            false if is_one_of(GOOD) => &mut self.missing,
            true if is_one_of(GOOD) => &mut self.good,
            _ => return,
        };
        slot.get_or_insert(key);
    }
}

fn boolean(status: Status, reason: String, key: &str, is: &str) -> Verdict {
    Verdict::new(status, Basis::PhaseWord, reason, ["status.", key, " is ", is].concat())
}

fn capitalized(before: &str, key: &str) -> String {
    let mut text = [before, key].concat();
    if let Some(first) = text.get_mut(before.len()..=before.len()) {
        first.make_ascii_uppercase();
    }
    text
}

impl Member<'_> {
    fn verdict(&self, status: Status) -> Verdict {
        let (key, reported) = (self.key.text(), &self.reported);
        let name = self.name.as_deref().map(Cow::Borrowed).or_else(|| {
            let names = ["clusterName", "hostname", "nodeName", "podName"].iter();
            names.filter_map(|name| self.part.get(name).filter(|name| name.is_filled())?.as_str()).next()
        });
        let (colon, name) = match (name, reported) {
            (Some(name), _) => (": ", name),
            (None, Reported::By(_)) => ("", "".into()),
            (None, _) => (": ", "one".into()),
        };
        let detail = match (self.sense, reported) {
            (Sense::Wrong | Sense::Working, Reported::Word(word)) => Detail::of(self.part).text(Some(*word)),
            (Sense::Wrong | Sense::Working, Reported::Says(_)) => Detail::of(self.part).text(None),
            _ => None,
        };
        let message = match detail {
            Some(detail) => text!("status.{key}{colon}{name}{reported}: {}", Shown(detail)),
            None => text!("status.{key}{colon}{name}{reported}"),
        };
        let reason = match self.sense {
            Sense::Wrong => "MemberFailed",
            Sense::Working => "MemberNotReady",
            _ => "MembersReady",
        };
        Verdict::new(status, Basis::PhaseWord, reason, message)
    }
}

/// The order in which the senses of members decide.
fn rank(sense: Sense) -> u8 {
    match sense {
        Sense::Wrong => 5,
        Sense::Working => 4,
        Sense::Unknown => 3,
        Sense::Still => 2,
        Sense::Running => 1,
        Sense::Done => 0,
    }
}

/// What is read of a part of a status, in one pass.
#[derive(Default)]
struct Part<'a> {
    name: Option<Node<'a>>,
    conditions: Option<Node<'a>>,
    phase: Option<Node<'a>>,
    state: Option<Node<'a>>,
    status: Option<Node<'a>>,
    health: Option<Node<'a>>,
    healthy: Option<Node<'a>>,
    ready: Option<Node<'a>>,
}

impl<'a> Part<'a> {
    fn of(node: Node<'a>) -> Self {
        let mut part = Self::default();
        for (key, value) in node.entries() {
            let slot = match &*key.bytes() {
                b"name" => &mut part.name,
                b"conditions" => &mut part.conditions,
                b"phase" => &mut part.phase,
                b"state" => &mut part.state,
                b"status" => &mut part.status,
                b"health" => &mut part.health,
                b"healthy" => &mut part.healthy,
                b"ready" => &mut part.ready,
                _ => continue,
            };
            *slot = Some(value);
        }
        part
    }

    /// The word of the first field that sums up, as [`summary`] reads it.
    fn word(&self) -> Option<Node<'a>> {
        texts([self.status, self.state, self.phase]).next()
    }

    /// What it reports of itself: conditions, a word, or whether it is healthy.
    fn report(&self, context: &Context<'_, 'a>) -> Option<(Sense, Reported<'a>)> {
        if let Some(reported) = self.conditions_report(context) {
            return Some(reported);
        }
        let mut words = texts([self.phase, self.state, self.status, self.health]);
        let word = words.find_map(|word| sense_of(word).map(|(_, sense)| (sense, Reported::Word(word))));
        word.or_else(|| match self.healthy.or(self.ready)?.as_bool()? {
            true => Some((Sense::Done, Reported::Says("ready"))),
            false if self.healthy.is_some() => Some((Sense::Wrong, Reported::Says("not healthy"))),
            false => Some((Sense::Working, Reported::Says("not ready"))),
        })
    }

    /// The worst that its conditions report.
    fn conditions_report(&self, context: &Context<'_, 'a>) -> Option<(Sense, Reported<'a>)> {
        let conditions = self.conditions.filter(|list| list.is_list())?;
        let mut worst: Option<(Sense, Condition<'a>)> = None;
        for condition in conditions.elements().filter_map(Condition::elsewhere) {
            if context.is_lagging(&condition) {
                continue;
            }
            let report = match condition.truth {
                Truth::True if condition.is_type("Ready") => Some(Report::Done),
                _ if condition.is_type("Ready") && condition.is_false() && condition.reports_failure() => {
                    Some(Report::Wrong(FailureClass::Other))
                }
                _ if condition.is_type("Ready") => Some(Report::Waiting),
                _ => meanings::of(&condition),
            };
            let sense = match report {
                Some(Report::Over(_) | Report::Wrong(_)) => Sense::Wrong,
                Some(Report::Working | Report::Waiting | Report::Lacking) => Sense::Working,
                Some(Report::Done | Report::Ended) => Sense::Done,
                Some(Report::Still) => Sense::Still,
                _ => continue,
            };
            if worst.as_ref().is_none_or(|(known, _)| rank(sense) > rank(*known)) {
                worst = Some((sense, condition));
            }
        }
        worst.map(|(sense, condition)| (sense, Reported::By(condition)))
    }
}

/// The texts among some values.
fn texts<'a, const N: usize>(nodes: [Option<Node<'a>>; N]) -> impl Iterator<Item = Node<'a>> {
    nodes.into_iter().flatten().filter(|node| node.is_filled())
}

/// Whether the elements of a list or map have a state of their own: `nodes`, `aggregatedStatus`.
fn has_members(phrase: &Phrase<'_>) -> bool {
    phrase.single().is_some_and(|word| word.is(Role::Members))
        || phrase.words().last().is_some_and(|last| last.is(Role::Statuses))
}

/// Whether the last word of a key may name a state; most keys end otherwise.
fn may_be_state(key: &[u8]) -> bool {
    matches!(key, [.., b'h' | b'e' | b't' | b's'])
        && !matches!(key, b"phase" | b"state" | b"status" | b"health")
}

/// Whether a key names a state of now: `syncStatus`, `upgradeState`, but not `lastBackupStatus` and `desiredState`.
fn is_state(key: &[u8]) -> bool {
    if !["ealth", "hase", "esult", "tate", "tatus"].iter().any(|end| key.ends_with(end.as_bytes())) {
        return false;
    }
    Phrase::with(key, |phrase| {
        phrase.words().last().is_some_and(|last| last.is(Role::State)) && is_of_now(key, phrase)
    })
}

/// Whether a key is of the object as it is, and not as it was or is to be.
fn is_of_now(key: &[u8], phrase: &Phrase<'_>) -> bool {
    // `lastOperation` is what goes on.
    !phrase.is_cut() && (!phrase.has(Role::OtherTime) || key.starts_with(b"lastOperation"))
}

/// Fewer ready replicas than wanted, where both are reported.
pub(super) fn less_ready(context: &Context<'_, '_>) -> Option<Verdict> {
    let ready = count(context, Field::ReadyReplicas)?;
    let wanted = count(context, Field::SpecReplicas)?;
    (ready < wanted).then(|| outstanding("LessReady", "Ready", ready, wanted))
}

/// Counters as those of a Deployment or of a DaemonSet. Done only if each that is reported is complete.
/// Without `may_be_done`, it is never Current.
pub(super) fn of_counters(context: &Context<'_, '_>, may_be_done: bool) -> Option<Verdict> {
    let nodes = count(context, Field::DesiredNumberScheduled);
    let (wanted, ready, what) = match nodes {
        Some(nodes) => (nodes, count(context, Field::NumberReady).unwrap_or(0), "Ready"),
        None => {
            // Where the spec names no number, those that there are have to be ready.
            let wanted = count(context, Field::SpecReplicas).or_else(|| count(context, Field::Replicas))?;
            match count(context, Field::ReadyReplicas) {
                Some(ready) => (wanted, ready, "Ready"),
                None => (wanted, count(context, Field::AvailableReplicas)?, "Available"),
            }
        }
    };
    let (updated, available) = if nodes.is_some() {
        (Field::UpdatedNumberScheduled, Field::NumberAvailable)
    } else {
        (Field::UpdatedReplicas, Field::AvailableReplicas)
    };
    if let Some(updated) = count(context, updated).filter(|updated| *updated < wanted) {
        return Some(outstanding("LessUpdated", "Updated", updated, wanted));
    }
    if ready < wanted {
        let reason = if what == "Ready" { "LessReady" } else { "LessAvailable" };
        return Some(outstanding(reason, what, ready, wanted));
    }
    if let Some(available) = count(context, available).filter(|available| *available < wanted) {
        return Some(outstanding("LessAvailable", "Available", available, wanted));
    }
    if let Some(extra) = count(context, Field::Replicas).filter(|replicas| *replicas > wanted) {
        return Some(outstanding("ExtraReplicas", "Replicas", extra, wanted));
    }
    // Without a wanted number, only a controller that has observed the latest spec has made all of them.
    let is_observed = context.generation.is_some() && context.generation == context.observed;
    let has_wanted = nodes.is_some() || count(context, Field::SpecReplicas).is_some();
    if !may_be_done || !has_wanted && !is_observed {
        return None;
    }
    let reason = if what == "Ready" { "AllReady" } else { "AllAvailable" };
    Some(Verdict::new(Status::Current, Basis::PhaseWord, reason, text!("{what}: {ready}/{wanted}")))
}

fn outstanding(reason: &'static str, what: &str, have: i64, wanted: i64) -> Verdict {
    Verdict::new(Status::InProgress, Basis::PhaseWord, reason, text!("{what}: {have}/{wanted}"))
}

fn count(context: &Context<'_, '_>, field: Field) -> Option<i64> {
    context.object.get(field).and_then(whole_number)
}
