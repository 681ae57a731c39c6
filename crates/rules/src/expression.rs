//! Standalone expressions, for conditions such as `--for=cel=`.

use std::fmt;

use jiff::Timestamp;
use kstatus::Object;
use settled_cel::Program;

use crate::cel::paths::Paths;
use crate::cel::scope::{Run, Scope};
use crate::cel::source::{Names, compile};
use crate::rule::Outcome;

/// An expression in the language of rules, ready to be evaluated on any number of objects.
///
/// It sees the object as rules do: `metadata`, `spec`, `status`, `self` for the whole; a missing field is absent and no
/// error; every evaluation has a budget.
///
/// ```
/// use kstatus::Object;
/// use settled_rules::{Expression, Outcome};
///
/// let expression = Expression::compile("atLeast(status.readyReplicas, spec.replicas)")?;
/// let object = Object::parse(br#"{"spec":{"replicas":3},"status":{"readyReplicas":2}}"#).unwrap();
/// let evaluation = expression.evaluate(&object, "2026-11-21T12:00:00Z".parse().unwrap());
/// assert_eq!(evaluation.outcome, Outcome::False);
/// assert_eq!(evaluation.seen[0], ("status.readyReplicas".to_owned(), "2".to_owned()));
/// # Ok::<(), settled_rules::InvalidExpression>(())
/// ```
#[derive(Debug)]
pub struct Expression {
    text: Box<str>,
    paths: Paths,
    program: Program,
}

/// Result of an expression on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether it holds.
    pub outcome: Outcome,
    /// The first hundred values that it read, in order.
    pub seen: Vec<(String, String)>,
}

/// A text that is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidExpression {
    /// Message.
    pub message: String,
    /// At which byte of the text, where that is known.
    pub at: Option<usize>,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Syntax error, unknown name or function, or exceeded limit, with the position.
    pub fn compile(text: &str) -> Result<Self, InvalidExpression> {
        let mut paths = Paths::default();
        let program = compile(text, Names::Known, &mut paths)
            .map_err(|error| InvalidExpression { message: error.message, at: error.at })?;
        Ok(Self { text: text.into(), paths, program })
    }

    /// Whether it holds for an object at a time, and what it saw there.
    #[must_use]
    pub fn evaluate(&self, object: &Object<'_>, now: Timestamp) -> Evaluation {
        let run = Run::traced(object, now);
        let scope = Scope::new(&run, &self.paths);
        let outcome = Outcome::of(&scope.holds(&self.program), &self.program, &self.paths);
        Evaluation { outcome, seen: run.take_seen() }
    }
}

/// As it was written.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
