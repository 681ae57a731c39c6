//! Scope of an evaluation: variables and contextual functions.

use crate::budget::{Budget, Fault, Place, Result};
use crate::functions::Function;
use crate::plan::{Program, SELF};
use crate::value::{Data, Typed, Val};

/// An argument, possibly an error.
pub type Arg<'a, D> = Result<Val<'a, D>>;

/// A field inspected in place, without building a [`Val`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain<'a> {
    /// Missing, or null.
    Absent,
    /// A boolean.
    Bool(bool),
    /// A string without escapes.
    Text(&'a [u8]),
    /// Any other value, which must be evaluated.
    Other,
}

/// Variables and contextual functions of an evaluation.
pub trait Scope<'a> {
    /// Storage of the variables' values.
    type Data: Data<'a>;

    /// Value of a variable; `None` if absent.
    fn variable(&self, variable: u32) -> Option<Result<Val<'a, Self::Data>>>;

    /// Inspects a variable in place; `None` if it must be evaluated.
    fn plain(&self, _variable: u32) -> Option<Plain<'a>> {
        None
    }

    /// A member of a map, as [`Data::get`] gives it.
    ///
    /// # Errors
    /// The same.
    fn member(&self, map: Self::Data, key: &str) -> Result<Option<Val<'a, Self::Data>>> {
        map.get(key)
    }

    /// Inspects a member of a map in place; `None` if it must be evaluated.
    fn plain_member(&self, _map: Self::Data, _key: &str) -> Option<Plain<'a>> {
        None
    }

    /// As [`call_with_text`](Self::call_with_text) of a function that says true or false; `None` if that must be called.
    fn holds(&self, _function: Function, _text: &str, _budget: &Budget) -> Option<Result<bool>> {
        None
    }

    /// Checks the arguments of a function.
    ///
    /// # Errors
    /// The arguments are invalid, or the budget is exceeded.
    fn check(&self, _function: Function, _args: &[Val<'a, Self::Data>], _budget: &Budget) -> Result<()> {
        Ok(())
    }

    /// Calls a function for which [`Function::is_scoped`] holds; `None` if the result is absent.
    ///
    /// # Errors
    /// The arguments are invalid, or the budget is exceeded.
    fn call(
        &self,
        _function: Function,
        _is_member: bool,
        _args: &[Arg<'a, Self::Data>],
        _budget: &Budget,
    ) -> Result<Option<Val<'a, Self::Data>>> {
        Err(Fault::no_overload())
    }

    /// As [`call`](Self::call) of a function with one constant text; `None` if it must be called with its arguments.
    fn call_with_text(
        &self,
        _function: Function,
        _text: &str,
        _budget: &Budget,
    ) -> Option<Result<Option<Val<'a, Self::Data>>>> {
        None
    }

    /// Records the result of a part of the expression.
    fn observe(&self, _program: &Program, _place: Place, _value: &Result<Val<'a, Self::Data>>) {}
}

/// Scope of CRD rules.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    pub(crate) self_: Result<Val<'a, Typed<'a>>>,
    pub(crate) old: Option<Result<Val<'a, Typed<'a>>>>,
}

impl<'a> Scope<'a> for Object<'a> {
    type Data = Typed<'a>;

    fn variable(&self, variable: u32) -> Option<Result<Val<'a, Typed<'a>>>> {
        if variable == SELF {
            return Some(self.self_.clone());
        }
        let missing = || Err(Fault::error("no such attribute(s): oldSelf"));
        Some(self.old.clone().unwrap_or_else(missing))
    }
}
