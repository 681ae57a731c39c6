//! A rule of whatever origin, compiled when it is needed, and what files of rules hold.

use std::sync::{Arc, OnceLock};

use kstatus::{Basis, Object, Options, Verdict};

use crate::document::LoadError;
use crate::draft::Draft;
use crate::rule::{Compiled, Trace};
use crate::script::Script;

/// One rule of whatever origin. It is compiled when the first object is met that it fits.
#[derive(Debug)]
pub(crate) struct Rule {
    file: Arc<str>,
    /// All of the file.
    text: Arc<str>,
    /// Of a script only the match, the line and the checks.
    draft: Draft,
    body: Body,
}

/// What a rule runs.
#[derive(Debug)]
enum Body {
    Cel(OnceLock<Result<Box<Compiled>, Vec<LoadError>>>),
    Lua(Script),
}

impl Rule {
    pub(crate) fn new(file: Arc<str>, text: Arc<str>, draft: Draft) -> Self {
        Self { file, text, draft, body: Body::Cel(OnceLock::new()) }
    }

    pub(crate) fn lua(file: Arc<str>, text: Arc<str>, draft: Draft, script: Script) -> Self {
        Self { file, text, draft, body: Body::Lua(script) }
    }

    pub(crate) fn is_lua(&self) -> bool {
        matches!(self.body, Body::Lua(_))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
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

    /// What is wrong with its expressions.
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

    /// Where it stands, for people: `rules.yaml:12 example.com/Widget`.
    pub(crate) fn name(&self) -> String {
        // An annotation has no line, and is for its object only.
        match self.draft.line {
            0 => self.file.to_string(),
            line => format!("{}:{line} {}", self.file, self.draft.matches),
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
        match &self.body {
            Body::Cel(_) => {
                self.compiled()?.decide(object, options, basis, &|| self.name(), suspended, trace)
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

/// What some files hold.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) rules: Vec<Rule>,
    /// Rules that annotations of CustomResourceDefinitions give.
    pub(crate) crd_rules: Vec<Rule>,
    pub(crate) errors: Vec<LoadError>,
    /// What was passed over, and why: no error, but worth a word.
    pub(crate) notes: Vec<LoadError>,
}
