//! What an expression may read.

use crate::budget::{Budget, Fault, Place, Result};
use crate::functions::Function;
use crate::plan::{Program, SELF};
use crate::value::{Data, Typed, Val};

/// A value, or the fault of an argument.
pub type Arg<'a, D> = Result<Val<'a, D>>;

/// What an expression may read, and the functions that ask for more than their arguments.
pub trait Scope<'a> {
    /// Where the values of variables lie.
    type Data: Data<'a>;

    /// The value of a variable; none where it is absent.
    fn variable(&self, variable: u32) -> Option<Result<Val<'a, Self::Data>>>;

    /// Whether a function may be called with these arguments.
    ///
    /// # Errors
    /// If not, or if the budget is used up.
    fn check(&self, _function: Function, _args: &[Val<'a, Self::Data>], _budget: &Budget) -> Result<()> {
        Ok(())
    }

    /// Calls one of the functions for which [`Function::is_scoped`] holds; none where the result is absent.
    ///
    /// # Errors
    /// If it cannot be called with these arguments, or if the budget is used up.
    fn call(
        &self,
        _function: Function,
        _is_member: bool,
        _args: &[Arg<'a, Self::Data>],
        _budget: &Budget,
    ) -> Result<Option<Val<'a, Self::Data>>> {
        Err(Fault::no_overload())
    }

    /// Takes note of what a part of the expression gave.
    fn observe(&self, _program: &Program, _place: Place, _value: &Result<Val<'a, Self::Data>>) {}
}

/// What the rule of a CRD may read.
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
