//! Expressions over data without types: what has no schema.

use crate::ast::NOWHERE;
use crate::parser::{self, Dialect};
use crate::plan::{self, Names, Program};

/// What is wrong with an expression, and at which byte of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// What is wrong.
    pub message: String,
    /// Where, if that is known.
    pub at: Option<usize>,
}

impl Program {
    /// Compiles an expression that is run over data without types.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn compile(source: &str, names: &mut dyn Names) -> Result<Self, CompileError> {
        Self::compile_untyped(source, names, false)
    }

    /// The same for an expression that is known to compile: its literal patterns are compiled when they are first used.
    ///
    /// # Errors
    /// The first thing that is wrong with it, patterns apart.
    pub fn compile_known(source: &str, names: &mut dyn Names) -> Result<Self, CompileError> {
        Self::compile_untyped(source, names, true)
    }

    fn compile_untyped(
        source: &str,
        names: &mut dyn Names,
        has_lazy_patterns: bool,
    ) -> Result<Self, CompileError> {
        let program = match parser::parse_as(source, Dialect::Untyped) {
            Ok(ast) => plan::plan_untyped(&ast, names, has_lazy_patterns),
            Err(issues) => {
                let first = issues.into_iter().min_by_key(|issue| issue.at);
                return Err(first.map_or_else(
                    || CompileError { message: "not an expression".to_owned(), at: None },
                    |issue| CompileError { message: issue.message, at: byte(source, issue.at) },
                ));
            }
        };
        program.map_err(|issue| CompileError { message: issue.message, at: byte(source, issue.at) })
    }
}

/// Where an issue stands, if that is known: not past the end.
fn byte(source: &str, at: u32) -> Option<usize> {
    (at != NOWHERE).then(|| source.len().min(at as usize))
}
