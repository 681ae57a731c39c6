//! Evaluation of conditions over data without types: true and false are not wrapped in values on the way. Results, and the steps that they
//! take, are those of `eval`.

use crate::budget::{Budget, Fault, Result};
use crate::eval::Run;
use crate::functions::{self, Function};
use crate::plan::{Attr, Base, Call, Fold, Op, OpId, Program, Quantifier};
use crate::requirements::Rest;
use crate::scope::{Plain, Scope};
use crate::value::{Data, Val};

/// Result of a condition.
#[derive(Clone, Debug)]
pub enum Truth<'a, D> {
    /// True or false.
    Is(bool),
    /// The evaluation failed.
    Fault(Fault),
    /// Another value, which is rare.
    Other(Box<Val<'a, D>>),
}

/// Result of an evaluation over data without types, of an expression that should be true or false.
pub fn holds<'a, S: Scope<'a>>(program: &'a Program, scope: &S, budget: &Budget) -> Truth<'a, S::Data> {
    Run::new(program, scope, budget).truth(program.root)
}

/// As [`holds`], of a condition whose requirements are fulfilled.
pub fn rest_holds<'a, S: Scope<'a>>(
    program: &'a Program,
    rest: &Rest,
    scope: &S,
    budget: &Budget,
) -> Truth<'a, S::Data> {
    let mut run = Run::new(program, scope, budget);
    if let [one] = *rest.0 {
        let truth = run.truth(one);
        return if one == program.root {
            truth
        } else {
            truth.operand().map_or_else(Truth::Fault, Truth::Is)
        };
    }
    // What is false absorbs errors on both sides.
    let mut fault = None;
    for id in &rest.0 {
        match run.truth(*id).operand() {
            Ok(false) => return Truth::Is(false),
            Err(found) if found.is_final() => return Truth::Fault(found),
            Err(found) if fault.is_none() => fault = Some(found),
            _ => {}
        }
    }
    fault.map_or(Truth::Is(true), Truth::Fault)
}

impl<'a, D> From<Result<Val<'a, D>>> for Truth<'a, D> {
    fn from(result: Result<Val<'a, D>>) -> Self {
        match result {
            Ok(Val::Bool(value)) => Self::Is(value),
            Ok(value) => Self::Other(Box::new(value)),
            Err(fault) => Self::Fault(fault),
        }
    }
}

impl<'a, D: Data<'a>> Truth<'a, D> {
    /// As an operand of a logical operator.
    fn operand(self) -> Result<bool> {
        match self {
            Self::Is(value) => Ok(value),
            Self::Fault(fault) => Err(fault),
            Self::Other(value) => Err(functions::no_boolean(&value)),
        }
    }
}

impl<'a, S: Scope<'a>> Run<'a, '_, S> {
    /// As `eval`.
    fn truth(&mut self, id: OpId) -> Truth<'a, S::Data> {
        let known = match self.program.op(id) {
            Op::And(a, b) => return self.decided(*a, *b, false),
            Op::Or(a, b) => return self.decided(*a, *b, true),
            Op::Equal(a, b) => Some(self.counted(|run| run.are_equal(*a, *b))),
            Op::Unequal(a, b) => Some(self.counted(|run| run.are_equal(*a, *b).map(|is_equal| !is_equal))),
            Op::Fold(fold) => {
                fold.quantifier.map(|quantifier| self.counted(|run| run.quantified(fold, quantifier)))
            }
            Op::Among(among) => self.is_among(among),
            Op::Attr(attr) if attr.is_test => {
                self.is_there(attr).map(|is_there| self.counted(|_| Ok(is_there)))
            }
            Op::Attr(_) | Op::Default(..) => self.is_true(id),
            Op::Scoped(call) => self.condition_holds(call),
            Op::Call(call) if call.function == Function::Not => match call.args.as_slice() {
                [arg] => return self.not(id, call, *arg),
                _ => None,
            },
            _ => None,
        };
        match known {
            Some(Ok(value)) => Truth::Is(value),
            Some(Err(fault)) => Truth::Fault(fault),
            None => self.other_truth(id),
        }
    }

    /// Apart, since a value is much larger than a truth.
    #[inline(never)]
    fn other_truth(&mut self, id: OpId) -> Truth<'a, S::Data> {
        self.eval(id).into()
    }

    /// The operation itself is a step.
    #[inline(always)]
    fn counted(&mut self, operation: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        self.budget.step(1)?;
        operation(self)
    }

    /// `has` of a field that has its own variable, if the scope can tell.
    fn is_there(&self, attr: &Attr) -> Option<bool> {
        match attr.base {
            Base::Variable(variable) if attr.is_test && attr.steps.is_empty() => {
                self.scope.plain(variable).map(|plain| plain != Plain::Absent)
            }
            _ => None,
        }
    }

    /// A function of the scope with a constant text, if the scope can tell.
    fn condition_holds(&self, call: &Call) -> Option<Result<bool>> {
        let (false, [arg]) = (call.is_member, call.args.as_slice()) else { return None };
        let Op::Const(Val::Text(text)) = self.program.op(*arg) else { return None };
        let holds = self.scope.holds(call.function, text, self.budget)?;
        // The call, and its argument.
        Some(self.budget.step(2).and(holds))
    }

    fn not(&mut self, id: OpId, call: &'a Call, arg: OpId) -> Truth<'a, S::Data> {
        if let Err(fault) = self.budget.step(1) {
            return Truth::Fault(fault);
        }
        match self.truth(arg) {
            Truth::Is(value) => Truth::Is(!value),
            Truth::Other(value) => self.call_with(id, call, &[*value]).into(),
            fault @ Truth::Fault(_) => fault,
        }
    }

    /// `&&` and `||`: a deciding side absorbs an error of the other.
    fn decided(&mut self, a: OpId, b: OpId, decides: bool) -> Truth<'a, S::Data> {
        if let Err(fault) = self.budget.step(1) {
            return Truth::Fault(fault);
        }
        let first = match self.truth(a) {
            Truth::Is(value) if value == decides => return Truth::Is(decides),
            Truth::Is(_) => None,
            Truth::Fault(fault) if fault.is_final() => return Truth::Fault(fault),
            fault => fault.operand().err(),
        };
        match (self.truth(b), first) {
            (Truth::Is(value), _) if value == decides => Truth::Is(decides),
            (Truth::Is(value), None) => Truth::Is(value),
            (Truth::Fault(fault), _) if fault.is_final() => Truth::Fault(fault),
            (_, Some(fault)) => Truth::Fault(fault),
            (second, None) => match second.operand() {
                Ok(value) => Truth::Is(value),
                Err(fault) => Truth::Fault(fault),
            },
        }
    }

    /// `exists` and `all`. An element that ends it absorbs the errors of those before it.
    pub(crate) fn quantified(&mut self, fold: &'a Fold, quantifier: Quantifier) -> Result<bool> {
        let Quantifier { body, decides } = quantifier;
        let mut so_far = Ok(!decides);
        // What the expansion of the macro evaluates for each element besides the body: the turn, whether it goes on, and the operator with
        // what is known so far.
        let condition = if decides { 4 } else { 3 };
        self.each(fold, |run| {
            run.budget.step(condition)?;
            if matches!(so_far, Ok(value) if value == decides) {
                return Ok(false);
            }
            run.budget.step(2)?;
            match run.truth(body).operand() {
                Ok(value) if value == decides => so_far = Ok(decides),
                Err(fault) if fault.is_final() => return Err(fault),
                Err(fault) if so_far.is_ok() => so_far = Err(fault),
                _ => {}
            }
            Ok(true)
        })?;
        // The result, and what is known at the beginning.
        self.budget.step(2)?;
        so_far
    }
}
