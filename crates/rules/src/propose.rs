//! Drafts of rules for kinds that have none, after their CRDs and what their live objects report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kstatus::{Basis, Node, Object, Options, Status, Verdict};
use serde_json::{Value, json};

use crate::cel::source::Names;
use crate::document::Sourced;
use crate::draft::{Draft, DraftBranch, DraftWords, Says};
use crate::load::API_VERSION;
use crate::matching::Match;
use crate::provenance::Provenance;
use crate::set::RuleSet;

/// Fields of the status that may hold a phase.
const PHASES: [&str; 4] = ["phase", "state", "status", "health"];
/// Words of a phase that stands still by choice.
const SUSPENDED: [&str; 7] =
    ["Paused", "Suspended", "Stopped", "Disabled", "Hibernated", "Sleeping", "Hibernating"];
/// Bounds of what is kept of one kind: further words are counted, but not named.
const MAX_WORDS: usize = 48;
const MAX_CASES: usize = 12;
const MAX_KINDS: usize = 10_000;
const MAX_CHARS: usize = 200;

/// Collects what is known of kinds without a rule.
#[derive(Debug)]
pub struct Proposals<'r> {
    rules: &'r RuleSet,
    options: Options,
    kinds: BTreeMap<(String, String), Kind>,
    /// Kinds beyond [`MAX_KINDS`].
    skipped: usize,
}

/// A kind without a rule.
#[derive(Debug)]
struct Kind {
    api_version: String,
    objects: usize,
    /// Those that are judged by nothing, or by conventions only.
    doubtful: usize,
    /// By type: how often with which status. With zero where the schema names the type, and no object has it.
    conditions: BTreeMap<String, BTreeMap<String, usize>>,
    phases: BTreeMap<&'static str, BTreeMap<String, usize>>,
    has_status: bool,
    /// Reduced objects by what they report.
    examples: BTreeMap<String, Value>,
}

/// A draft for one kind.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Number of objects that were seen.
    pub objects: usize,
    /// Those whose verdict has less confidence than that of a standard condition.
    pub doubtful: usize,
    /// What CRD and objects say, one line each.
    pub findings: Vec<String>,
    /// The rule as an item of the list `rules`. None where nothing says when an object is done.
    pub rule: Option<String>,
    /// Its cases as items of the list `cases`.
    pub cases: String,
}

/// What a word or a condition means by convention.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Suspended,
    Current,
    Failed,
    InProgress,
    Unclear,
}

impl<'r> Proposals<'r> {
    /// Nothing yet. `options` are those of verdicts.
    #[must_use]
    pub fn new(rules: &'r RuleSet, options: Options) -> Self {
        Self { rules, options, kinds: BTreeMap::new(), skipped: 0 }
    }

    /// Number of kinds that were left out, because there are too many.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Adds an object: a CustomResourceDefinition, or any other one. Those whose kind has a rule are ignored.
    pub fn add(&mut self, object: &Object<'_>) {
        let (group, kind) = object.type_names();
        if group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition" {
            self.add_definition(object.root());
            return;
        }
        let has_rule = self.rules.decider(object).first().is_some();
        let verdict = self.rules.verdict(object, &self.options);
        // A kind of Kubernetes itself, or an object that says nothing of its kind.
        if has_rule || matches!(verdict.basis, Basis::KindRule | Basis::NoStatusKind | Basis::Deletion) {
            return;
        }
        let root = object.root();
        let api_version = text(root.get("apiVersion")).unwrap_or_default();
        let Some(known) = self.kind(&group, &kind, &api_version) else { return };
        known.objects += 1;
        known.doubtful += usize::from(verdict.confidence < Basis::Ready.confidence());
        known.learn(root, &api_version, &kind);
    }

    fn kind(&mut self, group: &str, kind: &str, api_version: &str) -> Option<&mut Kind> {
        let key = (group.to_owned(), kind.to_owned());
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&key) {
            self.skipped += 1;
            return None;
        }
        Some(self.kinds.entry(key).or_insert_with(|| Kind {
            api_version: api_version.to_owned(),
            objects: 0,
            doubtful: 0,
            conditions: BTreeMap::new(),
            phases: BTreeMap::new(),
            has_status: false,
            examples: BTreeMap::new(),
        }))
    }

    /// Takes the schema of the status of the version that is stored.
    fn add_definition(&mut self, root: Node<'_>) {
        let Some(spec) = root.get("spec") else { return };
        let (Some(group), Some(kind)) =
            (text(spec.get("group")), text(spec.get("names").and_then(|names| names.get("kind"))))
        else {
            return;
        };
        let versions: Vec<Node<'_>> = spec.get("versions").into_iter().flat_map(Node::elements).collect();
        let is_stored = |version: &&Node<'_>| version.get("storage").and_then(Node::as_bool) == Some(true);
        let Some(version) = versions.iter().find(is_stored).or_else(|| versions.first()) else { return };
        let api_version = format!("{group}/{}", text(version.get("name")).unwrap_or_default());
        // One that has a rule has it without a status, too.
        let example =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "example"}}).to_string();
        let has_rule = Object::parse(example.as_bytes())
            .is_ok_and(|object| self.rules.decider(&object).first().is_some());
        if has_rule {
            return;
        }
        let schema = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
        let status = schema.and_then(|schema| property(schema, "status"));
        let Some(known) = self.kind(&group, &kind, &api_version) else { return };
        let Some(status) = status else { return };
        known.has_status = true;
        for field in PHASES {
            let values = property(status, field).and_then(|phase| phase.get("enum"));
            for word in values.into_iter().flat_map(Node::elements).filter_map(|word| text(Some(word))) {
                if !word.is_empty() {
                    count(known.phases.entry(field).or_default(), word, 0);
                }
            }
        }
        let conditions = property(status, "conditions").and_then(|conditions| conditions.get("items"));
        let types = conditions.and_then(|items| property(items, "type")).and_then(|types| types.get("enum"));
        for word in types.into_iter().flat_map(Node::elements).filter_map(|word| text(Some(word))) {
            if known.conditions.len() < MAX_WORDS {
                known.conditions.entry(word).or_default();
            }
        }
    }

    /// The drafts, by group and kind. A kind that has no status needs no rule.
    #[must_use]
    pub fn finish(self) -> Vec<Proposal> {
        let options = &self.options;
        let kinds = self.kinds.into_iter().filter(|(_, known)| known.has_status);
        kinds.map(|((group, kind), known)| known.propose(group, kind, options)).collect()
    }
}

/// The schema of a property.
fn property<'a>(schema: Node<'a>, name: &str) -> Option<Node<'a>> {
    schema.get("properties")?.get(name)
}

fn text(node: Option<Node<'_>>) -> Option<String> {
    node?.as_str().map(|text| text.chars().take(MAX_CHARS).collect())
}

fn count(words: &mut BTreeMap<String, usize>, word: String, by: usize) {
    if words.len() < MAX_WORDS || words.contains_key(&word) {
        *words.entry(word).or_default() += by;
    }
}

impl Kind {
    /// Takes what an object reports.
    fn learn(&mut self, root: Node<'_>, api_version: &str, kind: &str) {
        let Some(status) = root.get("status").filter(|status| status.members().next().is_some()) else {
            return;
        };
        self.has_status = true;
        let mut reduced = serde_json::Map::new();
        let mut shown = String::new();
        for field in PHASES {
            if let Some(word) = text(status.get(field)) {
                let _ = write!(shown, "{field}={word} ");
                reduced.insert(field.to_owned(), json!(word));
                count(self.phases.entry(field).or_default(), word, 1);
            }
        }
        let mut conditions = Vec::new();
        for condition in status.get("conditions").into_iter().flat_map(Node::elements).take(MAX_WORDS) {
            let (Some(type_), Some(state)) = (text(condition.get("type")), text(condition.get("status")))
            else {
                continue;
            };
            let _ = write!(shown, "{type_}={state} ");
            let mut one = json!({"type": type_, "status": state});
            if let Some(reason) = text(condition.get("reason")) {
                one["reason"] = json!(reason);
            }
            conditions.push(one);
            if self.conditions.len() < MAX_WORDS || self.conditions.contains_key(&type_) {
                count(self.conditions.entry(type_).or_default(), state, 1);
            }
        }
        if !conditions.is_empty() {
            reduced.insert("conditions".to_owned(), Value::Array(conditions));
        }
        if !shown.is_empty() && (self.examples.len() < MAX_CASES || self.examples.contains_key(&shown)) {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "example"}, "status": reduced});
            self.examples.entry(shown.trim_end().to_owned()).or_insert(object);
        }
    }

    fn propose(self, group: String, kind: String, options: &Options) -> Proposal {
        let phase = self.phases.iter().max_by_key(|(_, words)| words.len());
        let words: Vec<(&str, Meaning)> = phase
            .map(|(field, words)| {
                words.keys().map(|word| (word.as_str(), of_word(field, word, options))).collect()
            })
            .unwrap_or_default();
        let conditions: Vec<(&str, Meaning, bool)> = self
            .conditions
            .keys()
            .map(|type_| {
                let (meaning, is_positive) = of_condition(type_, options);
                (type_.as_str(), meaning, is_positive)
            })
            .collect();
        let draft = draft(&group, &kind, phase.map(|(field, _)| *field), &words, &conditions);
        let rule = draft.as_ref().and_then(|draft| draft.to_yaml().ok());
        let mut findings = Vec::new();
        let count = |(word, count): (&String, &usize)| match count {
            0 => format!("{word} (schema)"),
            count => format!("{word} {count}"),
        };
        for (field, words) in &self.phases {
            findings
                .push(format!("status.{field}: {}", words.iter().map(count).collect::<Vec<_>>().join(", ")));
        }
        for (type_, states) in &self.conditions {
            let states: Vec<String> = states.iter().map(count).collect();
            let states = if states.is_empty() { "schema".to_owned() } else { states.join(", ") };
            findings.push(format!("condition {type_}: {states}"));
        }
        let is_unclear = |meaning: Meaning| meaning == Meaning::Unclear;
        let unclear = words.iter().filter(|(_, meaning)| is_unclear(*meaning)).map(|(word, _)| *word);
        let unclear = unclear.chain(
            conditions.iter().filter(|(_, meaning, _)| is_unclear(*meaning)).map(|(type_, ..)| *type_),
        );
        let unclear: BTreeSet<&str> = unclear.collect();
        if !unclear.is_empty() {
            findings
                .push(format!("not used, the meaning is not known: {}", Vec::from_iter(unclear).join(", ")));
        }
        if rule.is_none() {
            findings.push("no draft: nothing says by its name when an object is done".to_owned());
        }
        let cases = rule.as_deref().map(|rule| self.cases(&kind, rule, options)).unwrap_or_default();
        Proposal { group, kind, objects: self.objects, doubtful: self.doubtful, findings, rule, cases }
    }

    /// What the draft says of each state that was seen, of each word of a phase alone, of an older generation, and of an object
    /// without a status.
    fn cases(&self, kind: &str, rule: &str, options: &Options) -> String {
        let text = format!("apiVersion: {API_VERSION}\nkind: RulePack\nrules:\n{rule}");
        let Ok(builder) = RuleSet::builder().builtin(false).add("draft", &text) else { return String::new() };
        let rules = builder.build();
        let object = |status: Option<Value>| {
            let mut object =
                json!({"apiVersion": self.api_version, "kind": kind, "metadata": {"name": "example"}});
            if let Some(status) = status {
                object["status"] = status;
            }
            object
        };
        let mut examples: Vec<(String, Value)> =
            self.examples.iter().map(|(shown, object)| (shown.clone(), object.clone())).collect();
        for (field, words) in &self.phases {
            let every = words.keys().take(MAX_WORDS);
            examples
                .extend(every.map(|word| (format!("{field}={word}"), object(Some(json!({*field: word}))))));
        }
        examples.dedup_by(|a, b| a.0 == b.0);
        let verdict = |object: &Value| -> Verdict { rules.compute(object.to_string().as_bytes(), options) };
        let is_done = |object: &Value| {
            let verdict = verdict(object);
            verdict.status == Status::Current && &*verdict.reason != Says::Suspended.word()
        };
        if let Some((_, done)) = examples.iter().find(|(_, object)| is_done(object)) {
            let mut older = done.clone();
            older["metadata"]["generation"] = json!(2);
            older["status"]["observedGeneration"] = json!(1);
            examples.push(("older generation".to_owned(), older));
        }
        examples.push(("new".to_owned(), object(None)));
        let mut cases = String::new();
        for (shown, object) in &examples {
            let verdict = verdict(object);
            let name = Value::from(format!("{kind}: {shown}"));
            let _ = writeln!(
                cases,
                "  - name: {name}\n    object: {object}\n    expect: {{status: {}}}",
                verdict.status
            );
        }
        cases
    }
}

/// What a phase means by convention.
fn of_word(field: &str, word: &str, options: &Options) -> Meaning {
    if SUSPENDED.iter().any(|known| known.eq_ignore_ascii_case(word)) {
        return Meaning::Suspended;
    }
    of_status(&json!({field: word}), options)
}

/// What a condition means by convention while it is True, or while it is False; and whether True is the good one.
fn of_condition(type_: &str, options: &Options) -> (Meaning, bool) {
    if ["Paused", "Suspended"].contains(&type_) {
        return (Meaning::Suspended, false);
    }
    let given =
        |status: &str| of_status(&json!({"conditions": [{"type": type_, "status": status}]}), options);
    match given("True") {
        Meaning::Current => (Meaning::Current, true),
        meaning => (meaning, false),
    }
}

fn of_status(status: &Value, options: &Options) -> Meaning {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Example", "metadata": {"name": "example"}, "status": status});
    let verdict = kstatus::compute(object.to_string().as_bytes(), options);
    match verdict.status {
        Status::Current => Meaning::Current,
        Status::Failed => Meaning::Failed,
        Status::InProgress => Meaning::InProgress,
        _ => Meaning::Unclear,
    }
}

fn draft(
    group: &str,
    kind: &str,
    field: Option<&str>,
    words: &[(&str, Meaning)],
    conditions: &[(&str, Meaning, bool)],
) -> Option<Draft> {
    let mut draft = Draft::new(Match::exact(group, Some(kind)), 0, Names::Known);
    draft.provenance = Some(Provenance::Unverified(
        "drafted from the CRD and live objects, not checked against the controller's source".to_owned(),
    ));
    let mut branch = |says: Says, when: String, from: Option<&str>, reason: Option<String>| {
        let words = DraftWords {
            from: from.map(|from| Sourced::made(from.to_owned())),
            reason: reason.map(Sourced::made),
            ..DraftWords::default()
        };
        draft.branches.push(DraftBranch { says, when: Sourced::made(when), words });
    };
    let phase = |meaning: Meaning| {
        let field = field?;
        let quoted = words.iter().filter(|(_, known)| *known == meaning);
        let quoted: Vec<String> = quoted.map(|(word, _)| literal(word)).collect();
        (!quoted.is_empty()).then(|| format!("status.{field} in [{}]", quoted.join(", ")))
    };
    let reason = || field.map(|field| format!("${{status.{field}}}"));
    let negative =
        |meaning: Meaning| conditions.iter().filter(move |(_, known, good)| *known == meaning && !good);
    for (says, meaning) in [
        (Says::Suspended, Meaning::Suspended),
        (Says::Failed, Meaning::Failed),
        (Says::InProgress, Meaning::InProgress),
    ] {
        for (type_, ..) in negative(meaning) {
            branch(says, format!("isTrue({})", literal(type_)), Some(type_), None);
        }
        if let Some(when) = phase(meaning) {
            branch(says, when, None, if says == Says::Suspended { None } else { reason() });
        }
    }
    // The controller's summary, else its phase, else all conditions that are good when they are True.
    let good: Vec<&str> = conditions.iter().filter(|(.., good)| *good).map(|(type_, ..)| *type_).collect();
    match (good.contains(&"Ready"), phase(Meaning::Current), good.as_slice()) {
        (true, ..) => branch(Says::Current, "isTrue('Ready')".to_owned(), Some("Ready"), None),
        (false, Some(when), _) => branch(Says::Current, when, None, reason()),
        (false, None, []) => return None,
        (false, None, several) => {
            let all: Vec<String> =
                several.iter().map(|type_| format!("isTrue({})", literal(type_))).collect();
            branch(Says::Current, all.join(" && "), several.first().copied(), None);
        }
    }
    Some(draft)
}

/// A text in CEL.
fn literal(text: &str) -> String {
    let mut literal = String::from("'");
    for char in text.chars() {
        match char {
            '\'' | '\\' => literal.extend(['\\', char]),
            char if char.is_control() => {}
            char => literal.push(char),
        }
    }
    literal.push('\'');
    literal
}
