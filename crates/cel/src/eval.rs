//! Evaluation of programs. With types, costs are cel-go's; without types, steps are limited.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::{Budget, Fault, Place, Result};
use crate::functions::{self, Context, Cost, Function};
use crate::member::{index, member, missing, missing_key, test};
use crate::pattern::LiteralPattern;
use crate::plan::{Among, Attr, Base, Call, Fold, Op, OpId, Program, Step};
use crate::scope::{Arg, Object, Plain, Scope};
use crate::value::{Const, Data, Entries, Items, List, Map, Never, Text, Typed, Val, insert, push};

/// Cost limits of one evaluation.
pub(crate) const PER_CALL: u64 = 1_000_000;

/// The value and its cost.
pub(crate) fn run_with_cost<'a>(
    program: &'a Program,
    scope: &Object<'a>,
) -> (Result<Val<'a, Typed<'a>>>, u64) {
    let budget = Budget::of_costs();
    let mut run = Run::new(program, scope, &budget);
    let value = run.eval(program.root);
    (value, run.cost)
}

/// Result of an evaluation over data without types.
///
/// # Errors
/// The error.
pub fn run<'a, S: Scope<'a>>(program: &'a Program, scope: &S, budget: &Budget) -> Result<Val<'a, S::Data>> {
    Run::new(program, scope, budget).eval(program.root)
}

/// An operand inspected in place, and the steps that its evaluation would take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    plain: Plain<'a>,
    steps: u64,
    /// For the fault if it is absent.
    place: Place,
}

/// Steps of reading a string, as of [`Val::steps`].
fn long(text: &[u8]) -> u64 {
    text.len() as u64 / 256
}

#[derive(Clone, Debug)]
enum Slot<'a, D> {
    Unset,
    /// A lazy value.
    Later(OpId),
    Value(Result<Val<'a, D>>),
}

pub(crate) struct Run<'a, 's, S: Scope<'a>> {
    pub(crate) program: &'a Program,
    pub(crate) scope: &'s S,
    slots: Vec<Slot<'a, S::Data>>,
    cost: u64,
    pub(crate) budget: &'s Budget,
}

impl<'a, 's, S: Scope<'a>> Run<'a, 's, S> {
    const IS_TYPED: bool = S::Data::IS_TYPED;

    pub(crate) fn new(program: &'a Program, scope: &'s S, budget: &'s Budget) -> Self {
        // Most expressions have none.
        let slots = if program.slots == 0 { Vec::new() } else { vec![Slot::Unset; program.slots] };
        Self { program, scope, slots, cost: 0, budget }
    }

    fn charge(&mut self, cost: u64) -> Result<()> {
        if !Self::IS_TYPED {
            return Ok(());
        }
        self.cost = self.cost.saturating_add(cost);
        if self.cost > PER_CALL { Err(Fault::Limit) } else { Ok(()) }
    }

    pub(crate) fn eval(&mut self, id: OpId) -> Result<Val<'a, S::Data>> {
        if !Self::IS_TYPED {
            self.budget.step(1)?;
        }
        let program = self.program;
        match program.op(id) {
            Op::Const(value) => Ok(value.lift()),
            Op::Attr(attr) => self.attr(id, attr, true),
            Op::And(a, b) => self.logic(*a, *b, false),
            Op::Or(a, b) => self.logic(*a, *b, true),
            Op::Equal(a, b) => self.equal(*a, *b, true),
            Op::Unequal(a, b) => self.equal(*a, *b, false),
            Op::Among(among) => {
                let value = self.eval(among.value)?;
                self.budget.step(value.steps())?;
                let found = match (&among.keys, among.list.lift()) {
                    (Some(keys), _) => keys.contain(&value),
                    (None, Val::List(list)) => list.contains(&value, self.budget)?,
                    _ => false,
                };
                Ok(Val::Bool(found))
            }
            Op::OptionalOr(a, b) => match self.eval(*a)? {
                Val::Optional(None) => self.eval(*b),
                value @ Val::Optional(_) => Ok(value),
                other => self.no_optional(Function::OptionalOr, other),
            },
            Op::OptionalOrValue(a, b) => match self.eval(*a)? {
                Val::Optional(None) => self.eval(*b),
                Val::Optional(Some(value)) => Ok((*value).clone()),
                other => self.no_optional(Function::OptionalOrValue, other),
            },
            Op::Default(value, fallback) => match self.eval(*value) {
                Err(Fault::Absent(_)) | Ok(Val::Optional(None) | Val::Null) => self.eval(*fallback),
                Ok(Val::Optional(Some(value))) => Ok((*value).clone()),
                value => value,
            },
            Op::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                let list = self.list(elements, &mut items);
                self.charge(10)?;
                self.budget.allocate(32 * items.len())?;
                list.map(|()| Val::list(items))
            }
            Op::Map(entries) => {
                let mut map = BTreeMap::new();
                let made = self.map(entries, &mut map);
                self.charge(30)?;
                self.budget.allocate(64 * map.len())?;
                made.map(|()| Val::Map(Map::made(map)))
            }
            Op::Fold(fold) => match fold.quantifier {
                Some(quantifier) if !Self::IS_TYPED => self.quantified(fold, quantifier).map(Val::Bool),
                _ => self.fold(fold),
            },
            Op::NotStrictlyFalse(value) => {
                let value = self.keep(*value)?;
                self.charge(1)?;
                Ok(match value {
                    Ok(Val::Bool(value)) => Val::Bool(value),
                    _ => Val::Bool(true),
                })
            }
            Op::Call(call) => self.call(id, call),
            Op::Scoped(call) => self.scoped(id, call),
        }
    }

    /// Error for an operand that is not an optional: with types, the checker has excluded this.
    fn no_optional(&self, function: Function, value: Val<'a, S::Data>) -> Result<Val<'a, S::Data>> {
        if Self::IS_TYPED { Ok(value) } else { Err(functions::no_matching_overload(function, &[value])) }
    }

    /// Arguments of a call. Most have one or two, which are not allocated.
    fn scoped(&mut self, id: OpId, call: &'a Call) -> Result<Val<'a, S::Data>> {
        match *call.args.as_slice() {
            [a] => {
                if let (false, Op::Const(Val::Text(text))) = (call.is_member, self.program.op(a))
                    && let Some(value) = self.scope.call_with_text(call.function, text, self.budget)
                {
                    self.budget.step(1)?;
                    return self.observed(id, value);
                }
                let args = [self.keep(a)?];
                self.scoped_with(id, call, &args)
            }
            [a, b] => {
                let args = [self.keep(a)?, self.keep(b)?];
                self.scoped_with(id, call, &args)
            }
            ref more => {
                let args = more.iter().map(|arg| self.keep(*arg)).collect::<Result<Vec<_>>>()?;
                self.scoped_with(id, call, &args)
            }
        }
    }

    fn scoped_with(
        &mut self,
        id: OpId,
        call: &'a Call,
        args: &[Arg<'a, S::Data>],
    ) -> Result<Val<'a, S::Data>> {
        let value = self.scope.call(call.function, call.is_member, args, self.budget);
        self.observed(id, value)
    }

    fn observed(&self, id: OpId, value: Result<Option<Val<'a, S::Data>>>) -> Result<Val<'a, S::Data>> {
        let place = Place { op: id, steps: 0 };
        let value = value.and_then(|value| value.ok_or(Fault::Absent(place)));
        self.scope.observe(self.program, place, &value);
        value
    }

    fn list(&mut self, elements: &'a [(OpId, bool)], items: &mut Vec<Val<'a, S::Data>>) -> Result<()> {
        for (element, is_optional) in elements {
            let value = self.eval(*element)?;
            push(items, value, *is_optional)?;
        }
        Ok(())
    }

    fn map(&mut self, entries: &'a [(OpId, OpId, bool)], map: &mut Entries<'a, S::Data>) -> Result<()> {
        for (key, value, is_optional) in entries {
            let (key, value) = (self.eval(*key)?, self.eval(*value)?);
            insert(map, key, value, *is_optional)?;
        }
        Ok(())
    }

    /// `&&` and `||`: a deciding side absorbs an error of the other.
    fn logic(&mut self, a: OpId, b: OpId, decides: bool) -> Result<Val<'a, S::Data>> {
        let first = match self.eval(a) {
            Ok(Val::Bool(value)) if value == decides => return Ok(Val::Bool(decides)),
            Err(fault) if fault.is_final() => return Err(fault),
            other => other,
        };
        let second = match self.eval(b) {
            Ok(Val::Bool(value)) if value == decides => return Ok(Val::Bool(decides)),
            Err(fault) if fault.is_final() => return Err(fault),
            other => other,
        };
        for side in [first, second] {
            match side {
                Ok(Val::Bool(_)) => {}
                Ok(value) => return Err(functions::no_boolean(&value)),
                Err(fault) => return Err(fault),
            }
        }
        Ok(Val::Bool(!decides))
    }

    /// Limits end the evaluation; other errors are values that the following operators may absorb.
    fn keep(&mut self, id: OpId) -> Result<Result<Val<'a, S::Data>>> {
        match self.eval(id) {
            Err(fault) if fault.is_final() => Err(fault),
            other => Ok(other),
        }
    }

    fn equal(&mut self, a: OpId, b: OpId, wanted: bool) -> Result<Val<'a, S::Data>> {
        if !Self::IS_TYPED {
            return Ok(Val::Bool(self.are_equal(a, b)? == wanted));
        }
        let args = [self.keep(a)?, self.keep(b)?];
        let formula = if wanted { Cost::Equal } else { Cost::Shorter };
        let cost = formula.charge(&args, &Err(Fault::no_overload()), self.budget)?;
        self.charge(cost)?;
        let [a, b] = args;
        match a?.equals(&b?, self.budget) {
            Ok(is_equal) => Ok(Val::Bool(is_equal == wanted)),
            Err(Fault::Error(_)) if !wanted => Ok(Val::Bool(true)),
            Err(fault) => Err(fault),
        }
    }

    /// Whether two values without types are equal.
    pub(crate) fn are_equal(&mut self, a: OpId, b: OpId) -> Result<bool> {
        if let Some(is_equal) = self.is_plainly(a, b) {
            return is_equal;
        }
        let (a, b) = (self.eval(a)?, self.eval(b)?);
        a.equals(&b, self.budget)
    }

    /// Compares an operand with a constant in place; `None` if it must be evaluated.
    fn is_plainly(&self, a: OpId, b: OpId) -> Option<Result<bool>> {
        let Op::Const(wanted) = self.program.op(b) else { return None };
        let found = self.plain(a)?;
        // Both operands, and the comparison.
        let (is_equal, steps) = match (found.plain, wanted) {
            (Plain::Text(found), Val::Text(text)) => {
                (found == text.as_bytes(), 2 + long(found) + long(text.as_bytes()))
            }
            (Plain::Bool(found), Val::Bool(wanted)) => (found == *wanted, 2),
            (Plain::Absent, _) => return Some(self.absent(found)),
            _ => return None,
        };
        Some(self.budget.step(found.steps + steps).map(|()| is_equal))
    }

    /// Fault of an absent operand, after its steps.
    fn absent<T>(&self, found: Found<'_>) -> Result<T> {
        self.budget.step(found.steps)?;
        Err(Fault::Absent(found.place))
    }

    /// Inspects an operand in place: a field, or `default` of a field and a constant. `None` if it must be evaluated.
    #[inline]
    pub(crate) fn plain(&self, id: OpId) -> Option<Found<'a>> {
        match self.program.op(id) {
            Op::Attr(attr) => self.plain_field(id, attr),
            Op::Default(value, fallback) => {
                let value = match self.program.op(*value) {
                    Op::Attr(attr) => self.plain_field(*value, attr)?,
                    _ => return None,
                };
                let Plain::Absent = value.plain else {
                    return Some(Found { steps: value.steps + 1, ..value });
                };
                let fallback = match self.program.op(*fallback) {
                    Op::Const(Val::Text(text)) => Plain::Text(text.as_bytes()),
                    Op::Const(Val::Bool(known)) => Plain::Bool(*known),
                    _ => return None,
                };
                Some(Found { plain: fallback, steps: value.steps + 2, ..value })
            }
            _ => None,
        }
    }

    #[inline]
    fn plain_field(&self, id: OpId, attr: &Attr) -> Option<Found<'a>> {
        match (&attr.base, attr.steps.as_slice()) {
            _ if attr.is_test => None,
            (Base::Variable(variable), []) => {
                let place = Place { op: id, steps: 0 };
                Some(Found { plain: self.scope.plain(*variable)?, steps: 1, place })
            }
            (Base::Slot(slot), [Step::Field { key: Val::Text(key), is_optional: false }]) => {
                let Some(Slot::Value(Ok(Val::Map(Map::Data(data))))) = self.slots.get(*slot) else {
                    return None;
                };
                let place = Place { op: id, steps: 1 };
                Some(Found { plain: self.scope.plain_member(*data, key)?, steps: 2 + data.steps(), place })
            }
            _ => None,
        }
    }

    /// Tests a boolean operand in place; `None` if it must be evaluated.
    pub(crate) fn is_true(&self, id: OpId) -> Option<Result<bool>> {
        let found = self.plain(id)?;
        match found.plain {
            Plain::Bool(is_true) => Some(self.budget.step(found.steps).map(|()| is_true)),
            Plain::Absent => Some(self.absent(found)),
            Plain::Text(_) | Plain::Other => None,
        }
    }

    /// Tests in place whether an operand is in a list of constants; `None` if it must be evaluated.
    pub(crate) fn is_among(&self, among: &Among) -> Option<Result<bool>> {
        let keys = among.keys.as_ref()?;
        let found = self.plain(among.value)?;
        // The operation itself is a step.
        let found = Found { steps: found.steps + 1, ..found };
        match found.plain {
            Plain::Text(text) => {
                Some(self.budget.step(found.steps + long(text)).map(|()| keys.contain_text(text)))
            }
            Plain::Absent => Some(self.absent(found)),
            Plain::Bool(_) | Plain::Other => None,
        }
    }

    fn slot(&mut self, at: usize) -> Result<Val<'a, S::Data>> {
        match self.slots.get(at) {
            Some(Slot::Value(value)) => value.clone(),
            Some(Slot::Later(init)) => {
                let init = *init;
                let value = self.keep(init)?;
                if let Some(slot) = self.slots.get_mut(at) {
                    *slot = Slot::Value(value.clone());
                }
                value
            }
            _ => Err(Fault::error("no such attribute(s)")),
        }
    }

    fn set(&mut self, at: usize, value: Slot<'a, S::Data>) {
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = value;
        }
    }

    /// `counts`: an attribute in a branch of a conditional has no cost of its own.
    fn attr(&mut self, id: OpId, attr: &'a Attr, counts: bool) -> Result<Val<'a, S::Data>> {
        if !Self::IS_TYPED && attr.steps.is_empty() && !attr.is_test {
            return self.base(id, attr);
        }
        let mut value = self.resolve(id, attr);
        if value.as_ref().is_err_and(Fault::is_final) {
            return value;
        }
        let is_choice = matches!(attr.base, Base::Choice { .. });
        if counts && !is_choice && !attr.is_test {
            self.charge(1)?;
        }
        if counts && is_choice && attr.is_test {
            self.cost = self.cost.saturating_sub(1);
        }
        if !attr.is_test {
            return value;
        }
        value = match value {
            Ok(Val::Optional(value)) => Ok(Val::Bool(value.is_some())),
            // A field that has its own variable.
            Ok(_) if attr.steps.is_empty() => Ok(Val::Bool(true)),
            Err(Fault::Absent(_)) => Ok(Val::Bool(false)),
            value => value,
        };
        self.scope.observe(self.program, Place { op: id, steps: attr.steps.len() }, &value);
        value
    }

    fn branch(&mut self, id: OpId) -> Result<Val<'a, S::Data>> {
        let program = self.program;
        match program.op(id) {
            Op::Attr(attr) => self.attr(id, attr, false),
            _ => self.eval(id),
        }
    }

    fn base(&mut self, id: OpId, attr: &'a Attr) -> Result<Val<'a, S::Data>> {
        match &attr.base {
            Base::Variable(variable) => {
                let place = Place { op: id, steps: 0 };
                let value = self.scope.variable(*variable).unwrap_or(Err(Fault::Absent(place)));
                if let (false, Ok(text @ Val::Text(Text::Shared(_)))) = (Self::IS_TYPED, &value) {
                    self.budget.step(text.steps())?;
                }
                if !attr.is_test || !attr.steps.is_empty() {
                    self.scope.observe(self.program, place, &value);
                }
                value
            }
            Base::Slot(slot) => self.slot(*slot),
            Base::Value(id) => self.eval(*id),
            Base::Choice { condition, yes, no } => match self.eval(*condition)? {
                Val::Bool(true) => self.branch(*yes),
                Val::Bool(false) => self.branch(*no),
                value => Err(functions::no_boolean(&value)),
            },
        }
    }

    fn resolve(&mut self, id: OpId, attr: &'a Attr) -> Result<Val<'a, S::Data>> {
        let mut value = match self.base(id, attr) {
            // Selecting from `optional.none()` yields none.
            Err(Fault::Absent(_)) if attr.steps.iter().any(Step::is_optional) => {
                return Ok(Val::Optional(None));
            }
            value => value?,
        };
        if attr.steps.is_empty() {
            return Ok(value);
        }
        let mut is_optional = false;
        if let Val::Optional(inner) = &value {
            let Some(inner) = inner else { return Ok(value) };
            is_optional = true;
            value = (**inner).clone();
        }
        for (index, step) in attr.steps.iter().enumerate() {
            is_optional |= step.is_optional();
            if !Self::IS_TYPED {
                self.budget.step(1 + value.steps())?;
            }
            let found = match step {
                Step::Field { key, .. } | Step::Key { key, .. } => {
                    let found = self.member(&value, key, matches!(step, Step::Field { .. }));
                    if !is_optional || matches!(found, Ok(Some(_))) {
                        self.charge(1)?;
                    }
                    found
                }
                Step::Computed { key, .. } => {
                    let program = self.program;
                    let is_attr = matches!(program.op(*key), Op::Attr(Attr { base, .. }) if !matches!(base, Base::Choice { .. }));
                    let key = self.keep(*key)?;
                    if let (false, Ok(key)) = (Self::IS_TYPED, &key) {
                        self.budget.step(key.steps())?;
                    }
                    let found = match key {
                        Ok(key) => self.member(&value, &key, false).map(|found| (found, key)),
                        Err(fault) => Err(fault),
                    };
                    if !is_attr && (!is_optional || matches!(found, Ok((Some(_), _)))) {
                        self.charge(1)?;
                    }
                    match found {
                        Ok((None, key)) if !is_optional && Self::IS_TYPED => {
                            return Err(missing(&value, &key));
                        }
                        Ok((found, _)) => Ok(found),
                        Err(fault) => Err(fault),
                    }
                }
                Step::Test(key) => {
                    let found = self.test(&value, key);
                    self.charge(1)?;
                    let found = found?;
                    if is_optional {
                        return Ok(Val::Optional(found.then(|| Arc::new(Val::Bool(true)))));
                    }
                    return Ok(Val::Bool(found));
                }
            };
            match found {
                Ok(Some(found)) => {
                    if let (false, Val::Text(Text::Shared(_))) = (Self::IS_TYPED, &found) {
                        self.budget.step(found.steps())?;
                    }
                    value = found;
                }
                Ok(None) if is_optional => return Ok(Val::Optional(None)),
                Err(fault) if !Self::IS_TYPED && is_optional && !fault.is_final() => {
                    return Ok(Val::Optional(None));
                }
                Err(fault) => return Err(fault),
                Ok(None) if !Self::IS_TYPED => {
                    if attr.steps.iter().skip(index + 1).any(Step::is_optional) {
                        return Ok(Val::Optional(None));
                    }
                    return Err(Fault::Absent(Place { op: id, steps: index + 1 }));
                }
                Ok(None) => {
                    return Err(match step {
                        Step::Field { key, .. } | Step::Key { key, .. } => missing(&value, key),
                        _ => missing::<S::Data, Never>(&value, &Val::Null),
                    });
                }
            }
        }
        match value {
            // Nested optionals are flattened.
            value @ Val::Optional(_) if is_optional && !Self::IS_TYPED => Ok(value),
            value if is_optional => Ok(Val::some(value)),
            value => Ok(value),
        }
    }

    /// A member of a map, or an element of a list. Without types, null is absent; other types are an error.
    fn member<'k, K: Data<'k>>(
        &self,
        of: &Val<'a, S::Data>,
        key: &Val<'k, K>,
        is_field: bool,
    ) -> Result<Option<Val<'a, S::Data>>> {
        if Self::IS_TYPED {
            return member(of, key);
        }
        match of {
            Val::Map(Map::Data(map)) if let Val::Text(key) = key => {
                Ok(self.scope.member(*map, key)?.filter(|found| !matches!(found, Val::Null)))
            }
            Val::Map(map) => Ok(map.find(key)?.filter(|found| !matches!(found, Val::Null))),
            Val::List(_) if !is_field && index(key).is_ok() => {
                Ok(member(of, key)?.filter(|found| !matches!(found, Val::Null)))
            }
            // Selecting from an absent value is absent.
            Val::Optional(None) => Ok(None),
            Val::Optional(Some(inner)) => self.member(inner, key, is_field),
            _ if is_field => Err(Fault::error(format!("no field `{key}` in {}", of.type_name()))),
            _ => Err(Fault::error(format!("no index for {} and {}", of.type_name(), key.type_name()))),
        }
    }

    fn test(&self, of: &Val<'a, S::Data>, key: &'a Const) -> Result<bool> {
        if Self::IS_TYPED {
            return test(of, key);
        }
        match self.member(of, key, true) {
            Ok(found) => Ok(found.is_some()),
            Err(fault) if fault.is_final() => Err(fault),
            Err(_) => Ok(false),
        }
    }

    fn fold(&mut self, fold: &'a Fold) -> Result<Val<'a, S::Data>> {
        self.set(fold.accu, Slot::Later(fold.init));
        self.each(fold, |run| run.turn(fold))?;
        self.eval(fold.result)
    }

    /// Sets the variables of a comprehension for each element in turn, as long as `turn` says so.
    pub(crate) fn each(
        &mut self,
        fold: &'a Fold,
        mut turn: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let range = self.eval(fold.range)?;
        if !Self::IS_TYPED {
            self.budget.step(range.steps())?;
        }
        match range {
            Val::List(list) => {
                for (at, item) in list.iter().enumerate() {
                    if let Some(var2) = fold.var2 {
                        self.set(fold.var, Slot::Value(Ok(Val::Int(at as i64))));
                        self.set(var2, Slot::Value(item));
                    } else {
                        self.set(fold.var, Slot::Value(item));
                    }
                    if !turn(self)? {
                        break;
                    }
                }
            }
            Val::Map(Map::Data(data))
                if fold.var2.is_some()
                    && let Some(members) = data.members() =>
            {
                for (key, value) in members {
                    if let Some(var2) = fold.var2 {
                        self.set(var2, Slot::Value(Ok(value)));
                    }
                    self.set(fold.var, Slot::Value(Ok(Val::Text(key))));
                    if !turn(self)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                for key in map.keys() {
                    if let Some(var2) = fold.var2 {
                        let value = map.find(&key).and_then(|value| value.ok_or_else(|| missing_key(&key)));
                        self.set(var2, Slot::Value(value));
                    }
                    self.set(fold.var, Slot::Value(Ok(key)));
                    if !turn(self)? {
                        break;
                    }
                }
            }
            other => {
                let type_ = other.type_name();
                return Err(Fault::error(if Self::IS_TYPED {
                    format!("got '{type_}', expected iterable type")
                } else {
                    format!("cannot iterate over {type_}")
                }));
            }
        }
        Ok(())
    }

    /// Whether to continue.
    fn turn(&mut self, fold: &'a Fold) -> Result<bool> {
        self.budget.step(1)?;
        if let Ok(Val::Bool(false)) = self.keep(fold.condition)? {
            return Ok(false);
        }
        let value = self.keep(fold.step)?;
        self.set(fold.accu, Slot::Value(value));
        Ok(true)
    }

    /// Appends to an accumulated list: taken out of its slot, so that it is not copied for each element.
    fn grown(&mut self, call: &'a Call) -> Option<Result<Val<'a, S::Data>>> {
        let program = self.program;
        let [accu, element] = call.args.as_slice() else { return None };
        let (Op::Attr(Attr { base: Base::Slot(slot), steps, .. }), Op::List(_)) =
            (program.op(*accu), program.op(*element))
        else {
            return None;
        };
        if call.function != Function::Add || !steps.is_empty() {
            return None;
        }
        let mut grow = || {
            let accu_value = self.keep(*accu)?;
            let more = self.keep(*element)?;
            self.charge(1)?;
            let is_accu = matches!(self.slots.get(*slot), Some(Slot::Value(Ok(Val::List(_)))));
            if is_accu && let (Ok(Val::List(_)), Ok(Val::List(more))) = (&accu_value, &more) {
                let more: Vec<Val<'a, S::Data>> = more.iter().collect::<Result<_>>()?;
                self.budget.allocate(64 * more.len())?;
                drop(accu_value);
                return Ok(self.extended(*slot, more));
            }
            functions::arithmetic(Function::Add, &accu_value?, &more?, self.budget)
        };
        Some(grow())
    }

    fn call(&mut self, id: OpId, call: &'a Call) -> Result<Val<'a, S::Data>> {
        if let Some(grown) = self.grown(call) {
            return grown;
        }
        if !Self::IS_TYPED {
            return self.call_untyped(id, call);
        }
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            let value = self.keep(*arg)?;
            // With more than two arguments, and with a pattern, the first error ends the call.
            if (call.args.len() > 2 || call.pattern.is_some())
                && value.is_err()
                && args.len() + 1 < call.args.len()
            {
                return value;
            }
            args.push(value);
        }
        if let Cost::Compared(at) = call.cost
            && args.get(at).is_some_and(Result::is_err)
        {
            return Err(Fault::Internal);
        }
        let values: Result<Vec<Val<'a, S::Data>>> = args.iter().cloned().collect();
        let result = match values {
            Ok(values) if is_empty_sum(call, &values) => Ok(call.zero.lift()),
            Ok(values) => {
                let known = functions::min_cost(call.function, call.cost, &values);
                if self.cost.saturating_add(known) > PER_CALL {
                    return self.charge(known).and(Err(Fault::Limit));
                }
                match functions::call(self.context(call), &values) {
                    Err(Fault::Error(_)) if call.pattern.is_some() => Err(Fault::no_overload()),
                    result => result,
                }
            }
            Err(fault) => Err(fault),
        };
        if matches!(result, Err(Fault::Limit)) {
            return result;
        }
        let cost = call.cost.charge(&args, &result, self.budget)?;
        self.charge(cost)?;
        result
    }

    fn context(&self, call: &'a Call) -> Context<'s>
    where
        'a: 's,
    {
        Context {
            function: call.function,
            pattern: call.pattern.as_deref().and_then(LiteralPattern::get),
            budget: self.budget,
        }
    }

    fn call_untyped(&mut self, id: OpId, call: &'a Call) -> Result<Val<'a, S::Data>> {
        match *call.args.as_slice() {
            [a] => {
                let args = [self.arg(a)?];
                self.call_with(id, call, &args)
            }
            [a, b] => {
                let args = [self.arg(a)?, self.arg(b)?];
                self.call_with(id, call, &args)
            }
            ref more => {
                let args = more.iter().map(|arg| self.arg(*arg)).collect::<Result<Vec<_>>>()?;
                self.call_with(id, call, &args)
            }
        }
    }

    fn arg(&mut self, id: OpId) -> Result<Val<'a, S::Data>> {
        let value = self.eval(id)?;
        self.budget.step(value.steps())?;
        Ok(value)
    }

    pub(crate) fn call_with(
        &mut self,
        id: OpId,
        call: &'a Call,
        args: &[Val<'a, S::Data>],
    ) -> Result<Val<'a, S::Data>> {
        self.scope.check(call.function, args, self.budget)?;
        if let (Function::Value, [Val::Optional(None)]) = (call.function, args) {
            return Err(Fault::Absent(Place { op: id, steps: 0 }));
        }
        if is_empty_sum(call, args) {
            return Ok(call.zero.lift());
        }
        let result = functions::call(self.context(call), args)?;
        if call.function != Function::Add {
            self.budget.allocate(result.room())?;
        }
        Ok(result)
    }

    /// Appends to the list of a slot. The slot is left empty, since the result is stored there.
    fn extended(&mut self, slot: usize, more: Vec<Val<'a, S::Data>>) -> Val<'a, S::Data> {
        let Some(place) = self.slots.get_mut(slot) else { return Val::list(more) };
        let taken = std::mem::replace(place, Slot::Unset);
        let Slot::Value(Ok(Val::List(mut list))) = taken else { return Val::list(more) };
        if let Items::Made(items) = &mut list.items {
            Arc::make_mut(items).extend(more);
            return Val::List(list);
        }
        let mut items: Vec<Val<'a, S::Data>> = list.iter().flatten().collect();
        items.extend(more);
        Val::List(List { items: Items::Made(Arc::new(items)), kind: list.kind })
    }
}

fn is_empty_sum<'a, D: Data<'a>>(call: &Call, args: &[Val<'a, D>]) -> bool {
    call.function == Function::Sum && matches!(args.first(), Some(Val::List(list)) if list.len() == 0)
}
