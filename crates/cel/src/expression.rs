//! Expressions over data without types and schema, as verdict rules use them.

use crate::ast::NOWHERE;
use crate::parser::{self, Dialect};
use crate::plan::{self, Names, Program};

/// Compile error and its byte offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// The message.
    pub message: String,
    /// The offset, if known.
    pub at: Option<usize>,
}

impl Program {
    /// Compiles an expression over data without types.
    ///
    /// # Errors
    /// The first error.
    pub fn compile(source: &str, names: &mut dyn Names) -> Result<Self, CompileError> {
        Self::compile_untyped(source, names, false)
    }

    /// Compiles an expression that is known to be valid: literal patterns are compiled at first use.
    ///
    /// # Errors
    /// The first error, except for patterns.
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

/// Offset of an issue, if known, at most the length of the text.
fn byte(source: &str, at: u32) -> Option<usize> {
    (at != NOWHERE).then(|| source.len().min(at as usize))
}
