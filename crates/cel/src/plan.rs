//! Planner: converts an expression to a program with numbered names, resolved functions, folded constants and compiled
//! patterns.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ast::{Ast, Comprehension, Id, Issue, Kind, Literal, NOWHERE};
use crate::budget::{Budget, Fault, Result};
use crate::checker::Checked;
use crate::functions::{Context, Cost, Function, call};
use crate::library;
use crate::pattern::{Limits, LiteralPattern};
use crate::types::Type;
use crate::usages;
use crate::value::{Const, Data, Key, Map, Val, insert, push};

pub(crate) type OpId = u32;

/// Maximum depth of programs without types.
const MAX_UNTYPED_TREE: usize = 150;

#[derive(Debug)]
pub(crate) enum Base {
    /// A variable from outside of the expression, by number.
    Variable(u32),
    Slot(usize),
    /// The value of another operation.
    Value(OpId),
    Choice {
        condition: OpId,
        yes: OpId,
        no: OpId,
    },
}

#[derive(Debug)]
pub(crate) enum Step {
    /// `.name` or `.?name`
    Field {
        key: Const,
        is_optional: bool,
    },
    /// `['key']` or `[?'key']`
    Key {
        key: Const,
        is_optional: bool,
    },
    Computed {
        key: OpId,
        is_optional: bool,
    },
    /// Presence test (`has`).
    Test(Const),
}

impl Step {
    pub(crate) fn is_optional(&self) -> bool {
        match self {
            Self::Field { is_optional, .. }
            | Self::Key { is_optional, .. }
            | Self::Computed { is_optional, .. } => *is_optional,
            Self::Test(_) => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Attr {
    pub(crate) base: Base,
    pub(crate) steps: Vec<Step>,
    pub(crate) is_test: bool,
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: OpId,
    pub(crate) var: usize,
    pub(crate) var2: Option<usize>,
    pub(crate) accu: usize,
    pub(crate) init: OpId,
    pub(crate) condition: OpId,
    pub(crate) step: OpId,
    pub(crate) result: OpId,
    /// The macro that it was expanded from.
    pub(crate) name: &'static str,
    pub(crate) quantifier: Option<Quantifier>,
}

/// What `exists` and `all` ask of each element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantifier {
    pub(crate) body: OpId,
    /// The answer for an element that ends it: true for `exists`, false for `all`.
    pub(crate) decides: bool,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: Function,
    pub(crate) is_member: bool,
    pub(crate) cost: Cost,
    pub(crate) args: Vec<OpId>,
    pub(crate) pattern: Option<Box<LiteralPattern>>,
    /// The sum of an empty list.
    pub(crate) zero: Const,
}

/// Membership test in a list of constants.
#[derive(Debug)]
pub(crate) struct Among {
    pub(crate) value: OpId,
    /// `None` if some values cannot be compared by key.
    pub(crate) keys: Option<Keys>,
    pub(crate) list: Const,
}

/// Keys of constants. Strings are separate, since they can be looked up without a copy.
#[derive(Debug)]
pub(crate) struct Keys {
    /// In list order.
    texts: Vec<Arc<str>>,
    others: BTreeSet<Key>,
}

impl Keys {
    /// `None` if a value has no key.
    fn of(values: &[Const]) -> Option<Self> {
        let (mut texts, mut others) = (Vec::new(), BTreeSet::new());
        for value in values {
            match Key::of(value)? {
                Key::Text(text) => texts.push(text),
                other => drop(others.insert(other)),
            }
        }
        texts.sort_unstable();
        Some(Self { texts, others })
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }

    /// As [`contain`](Self::contain), of the bytes of a text. Lists are short: most of their texts have another length.
    pub(crate) fn contain_text(&self, text: &[u8]) -> bool {
        self.texts.iter().any(|known| known.as_bytes() == text)
    }

    pub(crate) fn contain<'a, D: Data<'a>>(&self, value: &Val<'a, D>) -> bool {
        match value {
            Val::Text(text) => self.texts.binary_search_by(|known| (**known).cmp(&**text)).is_ok(),
            other => Key::of(other).is_some_and(|key| self.others.contains(&key)),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Op {
    Const(Const),
    Attr(Attr),
    And(OpId, OpId),
    Or(OpId, OpId),
    Equal(OpId, OpId),
    Unequal(OpId, OpId),
    Among(Box<Among>),
    OptionalOr(OpId, OpId),
    OptionalOrValue(OpId, OpId),
    /// The second operand if the first is absent, null, or an empty optional.
    Default(OpId, OpId),
    List(Vec<(OpId, bool)>),
    Map(Vec<(OpId, OpId, bool)>),
    Fold(Box<Fold>),
    NotStrictlyFalse(OpId),
    Call(Box<Call>),
    /// A function of the scope, whose arguments may be absent.
    Scoped(Box<Call>),
}

/// A planned expression.
#[derive(Debug)]
pub struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) root: OpId,
    pub(crate) slots: usize,
    /// Names of comprehension variables.
    pub(crate) slot_names: Vec<Arc<str>>,
}

impl Program {
    pub(crate) fn op(&self, id: OpId) -> &Op {
        const NULL: &Op = &Op::Const(Val::Null);
        self.ops.get(id as usize).unwrap_or(NULL)
    }

    /// Value of a constant operand.
    fn constant(&self, id: OpId) -> Result<Const> {
        let known = |id: OpId| match self.op(id) {
            Op::Const(value) => Ok(value.clone()),
            _ => Err(Fault::no_overload()),
        };
        match self.op(id) {
            Op::List(elements) => {
                let mut items = Vec::new();
                for (element, is_optional) in elements {
                    push(&mut items, known(*element)?, *is_optional)?;
                }
                Ok(Val::list(items))
            }
            Op::Map(entries) => {
                let mut map = BTreeMap::new();
                for (key, value, is_optional) in entries {
                    insert(&mut map, known(*key)?, known(*value)?, *is_optional)?;
                }
                Ok(Val::Map(Map::made(map)))
            }
            Op::Call(made) => {
                let args = made.args.iter().map(|arg| known(*arg)).collect::<Result<Vec<Const>>>()?;
                let budget = Budget::of_costs();
                call(Context { function: made.function, pattern: None, budget: &budget }, &args)
            }
            _ => Err(Fault::no_overload()),
        }
    }
}

/// Resolves names of variables and functions.
pub trait Names {
    /// Number of a variable.
    fn variable(&mut self, name: &str) -> Option<u32>;

    /// Number of a field that has its own variable.
    fn field(&mut self, _variable: u32, _name: &str) -> Option<u32> {
        None
    }

    /// Error for an unknown name.
    fn unknown(&self, name: &str) -> String;
}

/// CRD rules: the checker has resolved all names.
struct OfObject;

pub(crate) const SELF: u32 = 0;

impl Names for OfObject {
    fn variable(&mut self, name: &str) -> Option<u32> {
        match name {
            "self" => Some(SELF),
            "oldSelf" => Some(SELF + 1),
            _ => None,
        }
    }

    fn unknown(&self, name: &str) -> String {
        format!("unknown name: {name}")
    }
}

/// Plans a type-checked expression. Fails if a constant cannot be evaluated.
pub(crate) fn plan(checked: &Checked) -> Result<Program, String> {
    Planner::run(&checked.ast, Some(checked), &mut OfObject, false).map_err(|issue| issue.message)
}

/// Plans an expression without types. Literal patterns are compiled now or at first use.
pub(crate) fn plan_untyped(
    ast: &Ast,
    names: &mut dyn Names,
    has_lazy_patterns: bool,
) -> Result<Program, Issue> {
    Planner::run(ast, None, names, has_lazy_patterns)
}

struct Planner<'c> {
    ast: &'c Ast,
    checked: Option<&'c Checked>,
    names: &'c mut dyn Names,
    program: Program,
    scope: Vec<(Arc<str>, usize)>,
    depth: usize,
    has_lazy_patterns: bool,
}

type Planned<T = OpId> = Result<T, Issue>;

impl<'c> Planner<'c> {
    fn run(
        ast: &'c Ast,
        checked: Option<&'c Checked>,
        names: &'c mut dyn Names,
        has_lazy_patterns: bool,
    ) -> Planned<Program> {
        let ops = Vec::with_capacity(ast.len());
        let program = Program { ops, root: 0, slots: 0, slot_names: Vec::new() };
        let scope = Vec::new();
        let mut planner = Planner { ast, checked, names, program, scope, depth: 0, has_lazy_patterns };
        let root = planner.plan(ast.root)?;
        planner.program.root = root;
        // Programs are long-lived.
        planner.program.ops.shrink_to_fit();
        Ok(planner.program)
    }

    fn push(&mut self, op: Op) -> OpId {
        self.program.ops.push(op);
        (self.program.ops.len() - 1) as OpId
    }

    fn constant(&self, id: OpId) -> Option<&Const> {
        match self.program.op(id) {
            Op::Const(value) => Some(value),
            _ => None,
        }
    }

    fn error<T>(&self, id: Id, message: impl Into<String>) -> Planned<T> {
        Err(Issue { at: self.ast.at(id), message: message.into() })
    }

    fn plan(&mut self, id: Id) -> Planned {
        self.depth += 1;
        if self.checked.is_none() && self.depth > MAX_UNTYPED_TREE {
            return Err(Issue { at: NOWHERE, message: "the expression is nested too deeply".to_owned() });
        }
        let planned = self.plan_at(id);
        self.depth -= 1;
        planned
    }

    fn plan_at(&mut self, id: Id) -> Planned {
        let op = match self.ast.kind(id) {
            Kind::Unspecified => Op::Const(Val::Null),
            Kind::Literal(literal) => Op::Const(value_of(literal)),
            Kind::Ident(name) => self.ident(id, name)?,
            Kind::Select { operand, field, is_test } => {
                let operand = self.plan(*operand)?;
                return Ok(self.select(operand, field, *is_test));
            }
            Kind::Call { function, target, args } => return self.call(id, function, *target, args),
            Kind::List { elements, optional } => {
                let mut planned = Vec::new();
                for (element, is_optional) in elements.iter().zip(optional) {
                    planned.push((self.plan(*element)?, *is_optional));
                }
                let is_constant = planned.iter().all(|(op, _)| self.constant(*op).is_some());
                return self.folded(id, Op::List(planned), is_constant);
            }
            Kind::Map { entries } => {
                let mut planned = Vec::new();
                for entry in entries {
                    planned.push((self.plan(entry.key)?, self.plan(entry.value)?, entry.is_optional));
                }
                let is_constant = planned
                    .iter()
                    .all(|(key, value, _)| self.constant(*key).is_some() && self.constant(*value).is_some());
                return self.folded(id, Op::Map(planned), is_constant);
            }
            Kind::Struct { name, .. } if self.checked.is_some() => {
                return self.error(id, format!("unknown type: {name}"));
            }
            Kind::Struct { name, .. } => {
                return self.error(id, format!("`{name}{{...}}`: there are no messages here"));
            }
            Kind::Comprehension(each) => self.fold(each)?,
        };
        Ok(self.push(op))
    }

    /// Folds constants.
    fn folded(&mut self, at: Id, op: Op, is_constant: bool) -> Planned {
        let id = self.push(op);
        if is_constant {
            match self.program.constant(id) {
                Ok(value) => {
                    if let Some(slot) = self.program.ops.get_mut(id as usize) {
                        *slot = Op::Const(value);
                    }
                }
                // Errors of constant lists and maps are reported at run time.
                Err(_) if !matches!(self.program.op(id), Op::Call(_)) => {}
                Err(Fault::Error(message)) if self.checked.is_some() => return self.error(at, &*message),
                Err(_) => {}
            }
        }
        Ok(id)
    }

    fn local(&self, name: &str) -> Option<usize> {
        self.scope.iter().rev().find(|(known, _)| **known == *name).map(|(_, slot)| *slot)
    }

    fn ident(&mut self, id: Id, name: &str) -> Planned<Op> {
        let base = if let Some(slot) = self.local(name) {
            Base::Slot(slot)
        } else if let Some(variable) = self.names.variable(name.strip_prefix('.').unwrap_or(name)) {
            Base::Variable(variable)
        } else {
            return match library::type_named(name) {
                Some(Type::Kind(_)) => Ok(Op::Const(Val::Type(name.into()))),
                _ if self.checked.is_some() => Ok(Op::Const(Val::Type("unknown".into()))),
                _ => self.error(id, self.names.unknown(name)),
            };
        };
        Ok(Op::Attr(Attr { base, steps: Vec::new(), is_test: false }))
    }

    fn select(&mut self, operand: OpId, field: &Arc<str>, is_test: bool) -> OpId {
        if let Some(Op::Attr(Attr { base: Base::Variable(variable), steps, is_test: tested })) =
            self.program.ops.get_mut(operand as usize)
            && steps.is_empty()
            && !*tested
            && let Some(found) = self.names.field(*variable, field)
        {
            (*variable, *tested) = (found, is_test);
            return operand;
        }
        let key = Val::text(Arc::clone(field));
        let step = if is_test { Step::Test(key) } else { Step::Field { key, is_optional: false } };
        self.step(operand, step, is_test)
    }

    /// Appends a step, to the same attribute if possible.
    fn step(&mut self, operand: OpId, step: Step, is_test: bool) -> OpId {
        let is_attr = matches!(self.program.op(operand), Op::Attr(Attr { is_test: false, .. }));
        if is_attr && let Some(Op::Attr(attr)) = self.program.ops.get_mut(operand as usize) {
            attr.steps.push(step);
            attr.is_test = is_test;
            return operand;
        }
        self.push(Op::Attr(Attr { base: Base::Value(operand), steps: vec![step], is_test }))
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Planned {
        let (function, target) = match self.checked {
            Some(_) => match Function::named(function) {
                Some(function) => (function, target),
                None => return self.error(id, format!("no such overload: {function}")),
            },
            None => self.resolve(id, function, target, args.len())?,
        };
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            planned.push(self.plan(*arg)?);
        }
        let overload = match self.checked.map(|checked| checked.overloads(id)) {
            Some([one]) => *one,
            _ => "",
        };
        use Function as F;
        match (function, planned.as_slice()) {
            (F::And, [a, b]) => return Ok(self.push(Op::And(*a, *b))),
            (F::Or, [a, b]) => return Ok(self.push(Op::Or(*a, *b))),
            (F::Equal, [a, b]) => return Ok(self.push(Op::Equal(*a, *b))),
            (F::Unequal, [a, b]) => return Ok(self.push(Op::Unequal(*a, *b))),
            (F::OptionalOr, [a, b]) => return Ok(self.push(Op::OptionalOr(*a, *b))),
            (F::OptionalOrValue, [a, b]) => return Ok(self.push(Op::OptionalOrValue(*a, *b))),
            (F::Default, [a, b]) => return Ok(self.push(Op::Default(*a, *b))),
            (F::NotStrictlyFalse, [a]) => return Ok(self.push(Op::NotStrictlyFalse(*a))),
            (F::Choice, [condition, yes, no]) => {
                let base = Base::Choice { condition: *condition, yes: *yes, no: *no };
                return Ok(self.push(Op::Attr(Attr { base, steps: Vec::new(), is_test: false })));
            }
            (F::Index | F::OptIndex | F::OptSelect, [operand, key]) => {
                let is_optional = function != F::Index;
                let step = match self.constant(*key).cloned() {
                    Some(key) if function == F::OptSelect => Step::Field { key, is_optional },
                    Some(key) => Step::Key { key, is_optional },
                    None => Step::Computed { key: *key, is_optional },
                };
                return Ok(self.step(*operand, step, false));
            }
            (F::In, [value, list]) if overload == "in_list" || self.checked.is_none() => {
                if let Some(op) = self.among(*value, *list) {
                    return Ok(self.push(op));
                }
            }
            _ => {}
        }
        let mut pattern = None;
        if matches!(function, F::Matches | F::Find | F::FindAll)
            && let Some(Val::Text(text)) = planned.get(1).and_then(|arg| self.constant(*arg))
        {
            let limits = if self.checked.is_some() { Limits::Costs } else { Limits::Steps };
            let literal = if self.has_lazy_patterns {
                LiteralPattern::lazy(text, limits)
            } else {
                match LiteralPattern::compile(text, limits) {
                    Ok(pattern) => pattern,
                    Err(message) => return self.error(id, message),
                }
            };
            pattern = Some(Box::new(literal));
        }
        let is_constant = function.is_conversion()
            && planned.len() == 1
            && planned.first().is_some_and(|arg| self.constant(*arg).is_some());
        let zero = match overload {
            "list_uint_sum_uint" => Val::Uint(0),
            "list_double_sum_double" => Val::Double(0.0),
            "list_duration_sum_duration" => Val::Duration(0),
            _ => Val::Int(0),
        };
        let cost = Cost::of(function, overload);
        let call =
            Box::new(Call { function, is_member: target.is_some(), cost, args: planned, pattern, zero });
        if function.is_scoped() {
            return Ok(self.push(Op::Scoped(call)));
        }
        self.folded(id, Op::Call(call), is_constant)
    }

    /// Membership test in a list of scalar constants.
    fn among(&self, value: OpId, list: OpId) -> Option<Op> {
        let constant = self.constant(list)?;
        let Val::List(list) = constant else { return None };
        if list.len() == 0 {
            return self.checked.map(|_| Op::Const(Val::Bool(false)));
        }
        let items: Vec<_> = list.iter().flatten().collect();
        let is_scalar = |item: &Const| {
            matches!(
                item,
                Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Text(_) | Val::Null
            )
        };
        let keys = Keys::of(&items);
        let among = || Op::Among(Box::new(Among { value, keys, list: constant.clone() }));
        items.iter().all(is_scalar).then(among)
    }

    /// Resolves a function without types, and its target for member functions.
    fn resolve(
        &self,
        id: Id,
        function: &str,
        target: Option<Id>,
        args: usize,
    ) -> Planned<(Function, Option<Id>)> {
        // `math.greatest(…)`: the target is the name of a library.
        let (name, target) = match target.map(|target| self.ast.kind(target)) {
            Some(Kind::Ident(space)) if self.local(space).is_none() => {
                let name = format!("{space}.{function}");
                if usages::is_known(&name) { (name.into(), None) } else { (Cow::Borrowed(function), target) }
            }
            _ => (Cow::Borrowed(function.strip_prefix('.').unwrap_or(function)), target),
        };
        match usages::find(&name, target.is_some(), args) {
            Ok(function) => Ok((function, target)),
            // The position of a call is its bracket; the error is in the name before it.
            Err(message) => {
                let length = function.len() as u32;
                Err(Issue { at: self.ast.at(id).saturating_sub(length), message })
            }
        }
    }

    fn slot(&mut self, name: &Arc<str>) -> usize {
        self.program.slots += 1;
        self.program.slot_names.push(Arc::clone(name));
        self.program.slots - 1
    }

    fn fold(&mut self, each: &Comprehension) -> Planned<Op> {
        let init = self.plan(each.init)?;
        let range = self.plan(each.range)?;
        let outside = self.scope.len();
        let accu = self.slot(&each.accu);
        self.scope.push((Arc::clone(&each.accu), accu));
        let var = self.slot(&each.var);
        self.scope.push((Arc::clone(&each.var), var));
        let var2 = each.var2.as_ref().map(|name| {
            let slot = self.slot(name);
            self.scope.push((Arc::clone(name), slot));
            slot
        });
        let condition = self.plan(each.condition)?;
        let step = self.plan(each.step)?;
        self.scope.truncate(outside + 1);
        let result = self.plan(each.result)?;
        self.scope.truncate(outside);
        let name = each.name;
        let quantifier = match (name, self.program.op(step)) {
            ("exists", Op::Or(_, body)) => Some(Quantifier { body: *body, decides: true }),
            ("all", Op::And(_, body)) => Some(Quantifier { body: *body, decides: false }),
            _ => None,
        };
        let fold = Fold { range, var, var2, accu, init, condition, step, result, name, quantifier };
        Ok(Op::Fold(Box::new(fold)))
    }
}

fn value_of(literal: &Literal) -> Const {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::Text(text) => Val::text(Arc::clone(text)),
        Literal::Bytes(bytes) => Val::Bytes(Arc::clone(bytes)),
    }
}
