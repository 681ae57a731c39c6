//! Rule set: rules in order of precedence, and the resulting verdict.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use kstatus::{Basis, Confidence, CustomRule, Object, Options, Profile, Verdict};

use crate::builtin;
use crate::cel::scope::{Run, Scope};
use crate::dialects::annotations::{Annotated, Cache, Found};
use crate::document::{LoadError, LoadErrors};
use crate::load::{check_duplicates, load};
use crate::matching::Group;
use crate::origin::{Loaded, Rule};
use crate::rule::{Compiled, Keep, Trace, copied};

/// Rules of one precedence.
#[derive(Debug, Default)]
struct Layer {
    rules: Vec<Rule>,
    exact: HashMap<Box<[u8]>, Vec<usize>>,
    suffixes: Vec<usize>,
}

impl Layer {
    fn new(rules: Vec<Rule>) -> Self {
        let mut layer = Self { rules, ..Self::default() };
        for (index, rule) in layer.rules.iter().enumerate() {
            match &rule.draft().matches.group {
                Group::Exact(group) => {
                    layer.exact.entry(group.as_bytes().into()).or_default().push(index);
                }
                Group::Suffix(_) => layer.suffixes.push(index),
            }
        }
        layer
    }

    fn find(&self, group: &[u8], kind: &[u8], object: &Object<'_>) -> Option<&Rule> {
        if self.rules.is_empty() {
            return None;
        }
        let exact = self.exact.get(group).into_iter().flatten();
        closest(exact.chain(&self.suffixes).filter_map(|index| self.rules.get(*index)), group, kind, object)
    }
}

/// Of the rules that fit an object the one that describes it most closely.
fn closest<'r>(
    rules: impl Iterator<Item = &'r Rule>,
    group: &[u8],
    kind: &[u8],
    object: &Object<'_>,
) -> Option<&'r Rule> {
    let fitting = rules.filter(|rule| {
        let matches = &rule.draft().matches;
        matches.fits_type(group, kind) && matches.fits_rest(object)
    });
    // Of equals the first: `max_by_key` would take the last.
    fitting.fold(None, |best: Option<&Rule>, rule| match best {
        Some(best) if best.draft().matches.closeness() >= rule.draft().matches.closeness() => Some(best),
        _ => Some(rule),
    })
}

/// Rules, and the verdicts they give.
///
/// The first source decides: an annotation on the object, the user's rules, an annotation on the kind's
/// CustomResourceDefinition, the built-in pack, and then what [`kstatus`] knows about the kind, or finds in the object.
///
/// ```
/// use kstatus::{Options, Status};
/// use settled_rules::RuleSet;
/// let rules = RuleSet::builder()
///     .add("widgets.yaml", "
/// apiVersion: settled.dev/v1alpha1
/// kind: RulePack
/// rules:
///   - match: {group: example.com, kind: Widget}
///     failed: {when: status.phase == 'Broken', reason: Broken, message: '${status.message}'}
///     current: status.phase == 'Up'
/// ")?
///     .build();
/// let options = Options::new("2026-11-21T12:00:00Z".parse().unwrap());
/// let verdict = rules.compute(br#"{"apiVersion":"example.com/v1","kind":"Widget",
///     "status":{"phase":"Broken","message":"no disk"}}"#, &options);
/// assert_eq!((verdict.status, &*verdict.message), (Status::Failed, "no disk"));
/// # Ok::<(), settled_rules::LoadErrors>(())
/// ```
#[derive(Debug)]
pub struct RuleSet {
    user: Layer,
    crd: Layer,
    /// Rules of definitions that were added after it was built.
    learned: RwLock<Vec<Arc<Rule>>>,
    /// Whether there are some: most sets have none, and then the lock is not taken for each object.
    has_learned: AtomicBool,
    builtin: bool,
    /// None where annotations of objects are no rules.
    annotations: Option<Cache>,
    notes: Vec<LoadError>,
    /// Below it, nothing is Current.
    confidence: Confidence,
}

impl Default for RuleSet {
    fn default() -> Self {
        Self::builder().build()
    }
}

/// Collects rules for a [`RuleSet`].
#[derive(Debug)]
pub struct Builder {
    loaded: Loaded,
    builtin: bool,
    annotations: bool,
    confidence: Confidence,
}

impl Builder {
    /// Whether the built-in pack is used; true by default.
    #[must_use]
    pub fn builtin(mut self, builtin: bool) -> Self {
        self.builtin = builtin;
        self
    }

    /// Whether annotations of objects are rules; true by default.
    #[must_use]
    pub fn annotations(mut self, annotations: bool) -> Self {
        self.annotations = annotations;
        self
    }

    /// The confidence that a Current verdict needs; see [`Verdict::require`]. `None` by default.
    #[must_use]
    pub fn require(mut self, confidence: Confidence) -> Self {
        self.confidence = confidence;
        self
    }

    /// Adds the rules of a file, of whatever dialect. All expressions are checked.
    ///
    /// # Errors
    /// When something in it cannot be read, with the place of each error.
    pub fn add(mut self, file: &str, text: &str) -> Result<Self, LoadErrors> {
        load(&file.into(), text, &mut self.loaded);
        let Loaded { rules, crd_rules, errors, .. } = &mut self.loaded;
        for rule in rules.iter().chain(&*crd_rules) {
            if let Err(wrong) = rule.check() {
                errors.extend(wrong);
            }
        }
        check_duplicates(rules.iter(), errors);
        check_duplicates(crd_rules.iter(), errors);
        errors.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        errors.dedup();
        if errors.is_empty() { Ok(self) } else { Err(LoadErrors(std::mem::take(errors))) }
    }

    /// The rules that were added.
    #[must_use]
    pub fn build(self) -> RuleSet {
        let Loaded { rules, crd_rules, notes, .. } = self.loaded;
        RuleSet {
            user: Layer::new(rules),
            crd: Layer::new(crd_rules),
            learned: RwLock::default(),
            has_learned: AtomicBool::new(false),
            builtin: self.builtin,
            annotations: self.annotations.then(Cache::default),
            notes,
            confidence: self.confidence,
        }
    }
}

/// The rule that the annotations of a CustomResourceDefinition give.
#[derive(Debug)]
pub struct Definition(Vec<Arc<Rule>>);

impl Definition {
    /// Reads a definition, as [`RuleSet::add_definition`] does; none where no annotation is a rule.
    ///
    /// # Errors
    /// When the rule cannot be read, with lines and columns of `json`; `name` is their file.
    pub fn read(name: &str, json: &str) -> Result<Option<Self>, LoadErrors> {
        let mut loaded = Loaded::default();
        load(&name.into(), json, &mut loaded);
        for rule in &loaded.crd_rules {
            if let Err(wrong) = rule.check() {
                loaded.errors.extend(wrong);
            }
        }
        if !loaded.errors.is_empty() {
            return Err(LoadErrors(loaded.errors));
        }
        let rules: Vec<Arc<Rule>> = loaded.crd_rules.into_iter().map(Arc::new).collect();
        Ok(if rules.is_empty() { None } else { Some(Self(rules)) })
    }
}

impl RuleSet {
    /// The built-in pack and annotations, to which rules may be added.
    #[must_use]
    pub fn builder() -> Builder {
        Builder { loaded: Loaded::default(), builtin: true, annotations: true, confidence: Confidence::None }
    }

    /// Whether annotations are rules.
    #[must_use]
    pub fn reads_annotations(&self) -> bool {
        self.annotations.is_some()
    }

    /// Adds the rule that the annotations of a CustomResourceDefinition give, which was read from a cluster: JSON, of which
    /// `metadata`, `spec.group` and `spec.names.kind` are enough. One that was loaded from a file goes before it. Says whether there
    /// is one.
    ///
    /// # Errors
    /// When it cannot be read; then there is none.
    pub fn add_definition(&self, name: &str, json: &str) -> Result<bool, LoadErrors> {
        let definition = Definition::read(name, json)?;
        let is_some = definition.is_some();
        definition.into_iter().for_each(|definition| self.learn(definition));
        Ok(is_some)
    }

    /// Adds the rule of a definition for the objects that are evaluated from now on.
    pub fn learn(&self, definition: Definition) {
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        learned.extend(definition.0);
        self.has_learned.store(true, Ordering::Release);
    }

    /// The rule of a definition that was added, for a kind.
    fn learned(&self, group: &[u8], kind: &[u8]) -> Option<Arc<Rule>> {
        if !self.has_learned.load(Ordering::Acquire) {
            return None;
        }
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        // The last one is the newest.
        learned.iter().rev().find(|rule| rule.draft().matches.fits_type(group, kind)).cloned()
    }

    /// Warnings about skipped rules.
    #[must_use]
    pub fn notes(&self) -> &[LoadError] {
        &self.notes
    }

    /// The verdict on the bytes of one JSON object; as [`kstatus::compute`], with these rules.
    #[must_use]
    pub fn compute(&self, json: &[u8], options: &Options) -> Verdict {
        kstatus::compute_with(json, |object| self.verdict(object, options))
    }

    /// The verdict on an object. In the profile `kstatus` there are no rules.
    #[must_use]
    pub fn verdict(&self, object: &Object<'_>, options: &Options) -> Verdict {
        if options.profile == Profile::Kstatus {
            return self.required(object.verdict(options));
        }
        if let Some((rule, compiled)) = self.only_builtin(object) {
            // The pack's rules are never dropped.
            let verdict = verdict_by_only(object, options, Basis::RulePack, rule, (compiled, |text| text));
            return self.required(verdict);
        }
        let decider = self.decider(object);
        let verdict = match decider.only() {
            Some((basis, rule, compiled)) => {
                verdict_by_only(object, options, basis, rule, (compiled, copied))
            }
            None => object.verdict_by(options, &decider),
        };
        self.required(decider.finish(verdict))
    }

    /// The rule of the pack for an object, if no other rule is possible: nearly always, and found without looking for others.
    fn only_builtin(&self, object: &Object<'_>) -> Option<(&'static Rule, &'static Compiled)> {
        let has_others = !self.user.rules.is_empty()
            || !self.crd.rules.is_empty()
            || self.has_learned.load(Ordering::Acquire)
            || (self.annotations.is_some() && Found::on(object).matters());
        if has_others || !self.builtin {
            return None;
        }
        let (group, kind) = object.group_kind();
        let rule = closest(builtin::rules(&group, &kind), &group, &kind, object)?;
        Some((rule, rule.compiled()?))
    }

    /// The rules that were added, in their order of precedence.
    pub(crate) fn own_rules(&self) -> impl Iterator<Item = (Basis, &Rule)> {
        let user = self.user.rules.iter().map(|rule| (Basis::CustomRule, rule));
        user.chain(self.crd.rules.iter().map(|rule| (Basis::CrdAnnotation, rule)))
    }

    pub(crate) fn has_builtin(&self) -> bool {
        self.builtin
    }

    /// As [`verdict`](Self::verdict); `seen` gets each rule that was asked and how it came to its word.
    pub(crate) fn verdict_traced(
        &self,
        object: &Object<'_>,
        options: &Options,
        seen: &mut dyn FnMut(&Rule, &Trace),
    ) -> Verdict {
        let decider = self.decider(object);
        let traced = Traced { decider: &decider, traces: RefCell::default() };
        let verdict = object.verdict_by(options, &traced);
        for (rule, trace) in traced.traces.into_inner() {
            seen(rule, &trace);
        }
        self.required(decider.finish(verdict))
    }

    fn required(&self, verdict: Verdict) -> Verdict {
        // Any verdict has it.
        if self.confidence == Confidence::None { verdict } else { verdict.require(self.confidence) }
    }

    /// The rules that fit an object, for [`kstatus::augment_by`] and [`Object::verdict_by`].
    #[must_use]
    pub fn decider<'r>(&'r self, object: &Object<'_>) -> Decider<'r> {
        let (group, kind) = object.group_kind();
        let user = self.user.find(&group, &kind, object);
        let crd = self.crd.find(&group, &kind, object);
        let learned = if crd.is_none() { self.learned(&group, &kind) } else { None };
        let builtin =
            if self.builtin { closest(builtin::rules(&group, &kind), &group, &kind, object) } else { None };
        let (mut annotated, mut ignored) = (None, false);
        if let Some(cache) = &self.annotations {
            let found = Found::on(object);
            (annotated, ignored) = (cache.get(&found), found.ignored);
        }
        Decider { annotated, ignored, user, crd, learned, builtin }
    }
}

fn verdict_by_only<'r>(
    object: &Object<'_>,
    options: &Options,
    basis: Basis,
    rule: &Rule,
    (compiled, keep): (&'r Compiled, Keep<'r>),
) -> Verdict {
    let run = Run::new(object, options.now);
    let scope = Scope::new(&run, compiled.paths());
    object.verdict_by(options, &Only { basis, rule, compiled, keep, scope })
}

/// The rules that fit one object, in their order of precedence.
#[derive(Debug)]
pub struct Decider<'r> {
    annotated: Option<Arc<Annotated>>,
    /// An annotation asks that nobody waits for the object.
    ignored: bool,
    user: Option<&'r Rule>,
    crd: Option<&'r Rule>,
    learned: Option<Arc<Rule>>,
    builtin: Option<&'r Rule>,
}

impl Decider<'_> {
    fn annotation(&self) -> Option<&Rule> {
        self.annotated.as_ref()?.rule.as_ref()
    }

    /// The first rule that fits, other than an annotation of the object.
    pub(crate) fn first(&self) -> Option<&Rule> {
        self.rules().map(|(_, rule)| rule).next()
    }

    /// The rule where it is the only one, and in CEL.
    fn only(&self) -> Option<(Basis, &Rule, &Compiled)> {
        let mut rules = self.rules();
        let (basis, rule) = rules.next()?;
        if self.annotation().is_some() || rules.next().is_some() {
            return None;
        }
        Some((basis, rule, rule.compiled()?))
    }

    /// All but the annotation of the object.
    fn rules(&self) -> impl Iterator<Item = (Basis, &Rule)> {
        let user = self.user.map(|rule| (Basis::CustomRule, rule));
        let crd = self.crd.or(self.learned.as_deref()).map(|rule| (Basis::CrdAnnotation, rule));
        let builtin = self.builtin.map(|rule| (Basis::RulePack, rule));
        user.into_iter().chain(crd).chain(builtin)
    }

    /// The rule whose checks count. An annotation has none, so those of its kind hold; a script's are only its own.
    fn checks(&self) -> Option<&Compiled> {
        let is_annotated = self.annotation().is_some();
        let mut rules = self.rules().filter(|(_, rule)| !(is_annotated && rule.is_lua()));
        rules.next().and_then(|(_, rule)| rule.compiled())
    }

    /// Up to and with the first rule that always has a word: those behind it are never asked.
    fn deciding(&self, suspended: bool) -> impl Iterator<Item = (Basis, &Rule)> {
        let annotation = self.annotation().map(|rule| (Basis::ObjectAnnotation, rule));
        let mut over = false;
        annotation
            .into_iter()
            .chain(self.rules())
            .take_while(move |(_, rule)| !std::mem::replace(&mut over, rule.always_decides(suspended)))
    }

    /// Effects of annotations on a verdict.
    fn finish(&self, mut verdict: Verdict) -> Verdict {
        verdict.blocking &= !self.ignored;
        if let Some(annotated) = &self.annotated {
            verdict.problems.extend_from_slice(&annotated.problems);
        }
        verdict
    }
}

impl CustomRule for Decider<'_> {
    fn has_rule(&self) -> bool {
        self.annotation().is_some() || self.first().is_some()
    }

    fn checks_deletion(&self, object: &Object<'_>, options: &Options) -> bool {
        self.checks().is_none_or(|rule| rule.checks_deletion(object, options))
    }

    fn checks_generation(&self, object: &Object<'_>, options: &Options) -> bool {
        match self.checks() {
            Some(rule) => rule.checks_generation(object, options),
            // Scripts compare generations themselves.
            None => self.annotation().is_some() || !self.rules().any(|(_, rule)| rule.is_lua()),
        }
    }

    fn suspended(&self, object: &Object<'_>, options: &Options) -> Option<Verdict> {
        let mut rules = self.deciding(true).filter(|(_, rule)| rule.has_suspended());
        rules.find_map(|(basis, rule)| rule.decide(object, options, basis, true, None))
    }

    fn decide(&self, object: &Object<'_>, options: &Options) -> Option<Verdict> {
        self.deciding(false).find_map(|(basis, rule)| rule.decide(object, options, basis, false, None))
    }
}

/// The only rule that fits an object, with what it has read of the object so far. It answers as its [`Decider`] would.
struct Only<'r, 'e> {
    basis: Basis,
    rule: &'e Rule,
    compiled: &'r Compiled,
    keep: Keep<'r>,
    scope: Scope<'e>,
}

impl<'e> Only<'_, 'e> {
    /// Each answer has the whole budget.
    fn scope(&self) -> &Scope<'e> {
        self.scope.run.restart();
        &self.scope
    }
}

impl<'r: 'e, 'e> CustomRule for Only<'r, 'e> {
    fn checks_deletion(&self, _: &Object<'_>, _: &Options) -> bool {
        self.compiled.checks_deletion_in(self.scope())
    }

    fn checks_generation(&self, _: &Object<'_>, _: &Options) -> bool {
        self.compiled.checks_generation_in(self.scope())
    }

    fn suspended(&self, _: &Object<'_>, _: &Options) -> Option<Verdict> {
        if !self.compiled.has_suspended() {
            return None;
        }
        self.rule.decide_in((self.compiled, self.keep), self.scope(), self.basis, true)
    }

    fn decide(&self, _: &Object<'_>, _: &Options) -> Option<Verdict> {
        self.rule.decide_in((self.compiled, self.keep), self.scope(), self.basis, false)
    }
}

/// A [`Decider`] that writes down what happens.
struct Traced<'d> {
    decider: &'d Decider<'d>,
    traces: RefCell<Vec<(&'d Rule, Trace)>>,
}

impl Traced<'_> {
    fn ask(&self, object: &Object<'_>, options: &Options, suspended: bool) -> Option<Verdict> {
        self.decider.deciding(suspended).find_map(|(basis, rule)| {
            let mut trace = Trace::default();
            let verdict = rule.decide(object, options, basis, suspended, Some(&mut trace));
            self.traces.borrow_mut().push((rule, trace));
            verdict
        })
    }
}

impl CustomRule for Traced<'_> {
    fn has_rule(&self) -> bool {
        self.decider.has_rule()
    }

    fn checks_deletion(&self, object: &Object<'_>, options: &Options) -> bool {
        self.decider.checks_deletion(object, options)
    }

    fn checks_generation(&self, object: &Object<'_>, options: &Options) -> bool {
        self.decider.checks_generation(object, options)
    }

    fn suspended(&self, object: &Object<'_>, options: &Options) -> Option<Verdict> {
        self.ask(object, options, true)
    }

    fn decide(&self, object: &Object<'_>, options: &Options) -> Option<Verdict> {
        self.ask(object, options, false)
    }
}
