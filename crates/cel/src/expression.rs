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
        let program = match parser::parse_as(source, Dialect::Untyped) {
            Ok(ast) => plan::plan_untyped(&ast, names),
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

/// The byte of a character.
fn byte(source: &str, at: u32) -> Option<usize> {
    let past_end = source.chars().count() <= at as usize;
    match source.char_indices().nth(at as usize) {
        Some((byte, _)) => Some(byte),
        None if at != NOWHERE && past_end => Some(source.len()),
        None => None,
    }
}
