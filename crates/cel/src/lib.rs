#![doc = include_str!("../README.md")]

mod alternatives;
mod ast;
mod automaton;
mod budget;
mod checker;
mod compile;
mod compiled;
mod cost;
mod eval;
mod expression;
mod functions;
mod lexer;
mod library;
mod macros;
mod member;
mod named_format;
mod net;
mod parser;
mod pattern;
mod plan;
mod requirements;
mod rule;
mod schema;
mod scope;
mod semver;
mod show;
mod time;
mod truth;
mod types;
mod usages;
mod validate;
mod validator;
pub mod value;

pub use crate::budget::{Budget, Fault, Place, Result};
pub use crate::eval::run;
pub use crate::expression::CompileError;
pub use crate::functions::Function;
pub use crate::plan::{Names, Program};
pub use crate::requirements::{Clause, Literal, Requirements, Rest, Subject};
pub use crate::rule::Rule;
pub use crate::scope::{Arg, Plain, Scope};
pub use crate::truth::{Truth, holds, rest_holds};
pub use crate::usages::distance;
pub use crate::validator::Validator;
pub use settled_apimachinery::field::Error as FieldError;

/// The server's additional error if schema errors prevented the evaluation of the rules.
pub const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the \
                               existing errors to complete validation";
