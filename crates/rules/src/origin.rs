//! Rule origins, lazy compilation, and the content of rule files.

use std::sync::{Arc, OnceLock};

use kstatus::{Basis, Confidence, Object, Options, Verdict};

use crate::cel::scope::Scope;
use crate::document::{Document, LoadError};
use crate::draft::Draft;
use crate::pack;
use crate::provenance::Provenance;
use crate::rule::{Asked, Compiled, Keep, Trace};
use crate::script::Script;

/// One rule of whatever origin. It is compiled when the first object is met that it fits.
#[derive(Debug)]
pub(crate) struct Rule {
    source: Source,
    /// Of a script only the match, the line and the checks.
    draft: Draft,
    body: Body,
}

/// File of a rule.
#[derive(Debug)]
enum Source {
    /// Number of the rule in the pack.
    Builtin(usize),
    Loaded {
        file: Arc<str>,
        text: Arc<str>,
    },
}

/// Program of a rule.
#[derive(Debug)]
enum Body {
    Cel(OnceLock<Result<Box<Compiled>, Vec<LoadError>>>),
    Lua(Script),
}

impl Rule {
    pub(crate) fn new(file: Arc<str>, text: Arc<str>, draft: Draft) -> Self {
        Self { source: Source::Loaded { file, text }, draft, body: Body::Cel(OnceLock::new()) }
    }

    /// Creates a rule of the built-in pack.
    pub(crate) fn builtin(number: usize, draft: Draft) -> Self {
        Self { source: Source::Builtin(number), draft, body: Body::Cel(OnceLock::new()) }
    }

    pub(crate) fn lua(file: Arc<str>, text: Arc<str>, draft: Draft, script: Script) -> Self {
        Self { source: Source::Loaded { file, text }, draft, body: Body::Lua(script) }
    }

    pub(crate) fn is_lua(&self) -> bool {
        matches!(self.body, Body::Lua(_))
    }

    pub(crate) fn text(&self) -> &str {
        match &self.source {
            Source::Builtin(number) => pack::text(pack::file_of(*number)),
            Source::Loaded { text, .. } => text,
        }
    }

    pub(crate) fn file(&self) -> &str {
        match &self.source {
            Source::Builtin(number) => pack::files().get(pack::file_of(*number)).copied().unwrap_or_default(),
            Source::Loaded { file, .. } => file,
        }
    }

    /// What it was checked against, if it says so.
    pub(crate) fn provenance(&self) -> Option<Provenance> {
        match &self.source {
            Source::Builtin(number) => {
                let json = pack::source(*number)?;
                Provenance::read(Document::prepared(json.as_bytes(), 0).root(), &mut Vec::new())
            }
            Source::Loaded { .. } => self.draft.provenance.clone(),
        }
    }

    /// Whether it was checked against the source of the kind's controller.
    pub(crate) fn is_verified(&self) -> bool {
        match &self.source {
            Source::Builtin(number) => pack::is_verified(*number),
            Source::Loaded { .. } => matches!(self.draft.provenance, Some(Provenance::Checked(_))),
        }
    }

    pub(crate) fn draft(&self) -> &Draft {
        &self.draft
    }

    fn compile(&self) -> Result<Box<Compiled>, Vec<LoadError>> {
        Compiled::compile(&self.draft).map(Box::new)
    }

    /// None for a script, and where an expression is wrong.
    pub(crate) fn compiled(&self) -> Option<&Compiled> {
        let Body::Cel(compiled) = &self.body else { return None };
        compiled.get_or_init(|| self.compile()).as_deref().ok()
    }

    /// Paths of the fields that it reads.
    pub(crate) fn fields(&self) -> Vec<String> {
        if self.is_lua() { Vec::new() } else { Compiled::fields(&self.draft) }
    }

    /// Errors of its expressions.
    pub(crate) fn check(&self) -> Result<(), Vec<LoadError>> {
        match &self.body {
            Body::Cel(compiled) => match compiled.get_or_init(|| self.compile()) {
                Ok(_) => Ok(()),
                Err(errors) => Err(errors.clone()),
            },
            Body::Lua(script) => script.check().map_err(|error| vec![error]),
        }
    }

    /// Whether it always has a word. A script may say nothing of an object, but whether that is suspended is its
    /// business alone.
    pub(crate) fn always_decides(&self, suspended: bool) -> bool {
        if self.is_lua() { suspended } else { self.compiled().is_some_and(Compiled::has_current) }
    }

    pub(crate) fn has_suspended(&self) -> bool {
        self.compiled().is_some_and(Compiled::has_suspended)
    }

    /// Location for messages: `rules.yaml:12 example.com/Widget`.
    pub(crate) fn name(&self) -> String {
        // An annotation has no line, and is for its object only.
        match self.draft.line {
            0 => self.file().to_owned(),
            line => format!("{}:{line} {}", self.file(), self.draft.matches),
        }
    }

    pub(crate) fn decide(
        &self,
        object: &Object<'_>,
        options: &Options,
        basis: Basis,
        suspended: bool,
        trace: Option<&mut Trace>,
    ) -> Option<Verdict> {
        self.decide_unrated(object, options, basis, suspended, trace).map(|verdict| self.rated(verdict))
    }

    /// As [`decide`](Self::decide) of a rule that is compiled, with what was read of the object before.
    pub(crate) fn decide_in<'w: 'e, 'e>(
        &self,
        (compiled, keep): (&'w Compiled, Keep<'w>),
        scope: &Scope<'e>,
        basis: Basis,
        suspended: bool,
    ) -> Option<Verdict> {
        let asked = Asked { draft: &self.draft, basis, name: &|| self.name(), suspended };
        compiled.decide_in(scope, &asked, keep, None).map(|verdict| self.rated(verdict))
    }

    fn rated(&self, mut verdict: Verdict) -> Verdict {
        if verdict.basis == Basis::RulePack && self.is_verified() {
            verdict.confidence = Confidence::VerifiedRule;
        }
        verdict
    }

    fn decide_unrated(
        &self,
        object: &Object<'_>,
        options: &Options,
        basis: Basis,
        suspended: bool,
        trace: Option<&mut Trace>,
    ) -> Option<Verdict> {
        match &self.body {
            Body::Cel(_) => {
                let asked = Asked { draft: &self.draft, basis, name: &|| self.name(), suspended };
                self.compiled()?.decide(&asked, object, options, trace)
            }
            #[cfg(feature = "lua")]
            Body::Lua(_) if suspended => None,
            #[cfg(feature = "lua")]
            Body::Lua(script) => script.verdict(object, options, basis, &|| self.name()),
            // It was refused when it was loaded.
            #[cfg(not(feature = "lua"))]
            Body::Lua(_) => None,
        }
    }
}

/// Content of rule files.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) rules: Vec<Rule>,
    /// Rules that annotations of CustomResourceDefinitions give.
    pub(crate) crd_rules: Vec<Rule>,
    pub(crate) errors: Vec<LoadError>,
    /// Warnings about skipped rules.
    pub(crate) notes: Vec<LoadError>,
}
