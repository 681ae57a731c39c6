//! A checked expression, made ready to run: variables are places, constants are computed, patterns are compiled.

use std::collections::BTreeSet;
use std::sync::Arc;

use regex::Regex;

use crate::ast::{Comprehension, Id, Kind, Literal};
use crate::checker::Checked;
use crate::eval::{Scope, constant};
use crate::library;
use crate::pattern;
use crate::types::Type;
use crate::value::{Fault, Key, List, Val};

pub(crate) type OpId = u32;

#[derive(Debug)]
pub(crate) enum Base {
    Self_,
    OldSelf,
    Slot(usize),
    /// The value of anything else.
    Value(OpId),
    Choice {
        condition: OpId,
        yes: OpId,
        no: OpId,
    },
}

#[derive(Debug)]
pub(crate) enum Step {
    Key {
        key: Val<'static>,
        is_optional: bool,
    },
    Computed {
        key: OpId,
        is_optional: bool,
    },
    /// Whether there is such a member.
    Test(Val<'static>),
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
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: &'static str,
    /// Empty where several may be meant.
    pub(crate) overload: &'static str,
    pub(crate) args: Vec<OpId>,
    pub(crate) pattern: Option<Regex>,
}

#[derive(Debug)]
pub(crate) enum Op {
    Const(Val<'static>),
    Attr(Attr),
    And(OpId, OpId),
    Or(OpId, OpId),
    Equal(OpId, OpId),
    Unequal(OpId, OpId),
    /// Whether a value is among constants.
    Among {
        value: OpId,
        keys: Option<BTreeSet<Key>>,
        list: List<'static>,
    },
    OptionalOr(OpId, OpId),
    OptionalOrValue(OpId, OpId),
    List(Vec<(OpId, bool)>),
    Map(Vec<(OpId, OpId, bool)>),
    Fold(Box<Fold>),
    Call(Box<Call>),
}

/// An expression, ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    ops: Vec<Op>,
    pub(crate) root: OpId,
    pub(crate) slots: usize,
}

impl Program {
    pub(crate) fn op(&self, id: OpId) -> &Op {
        const NULL: &Op = &Op::Const(Val::Null);
        self.ops.get(id as usize).unwrap_or(NULL)
    }
}

/// The program of an expression, or why a constant in it has no value.
pub(crate) fn plan(checked: &Checked) -> Result<Program, String> {
    let program = Program { ops: Vec::new(), root: 0, slots: 0 };
    let mut planner = Planner { checked, program, scope: Vec::new() };
    let root = planner.plan(checked.ast.root)?;
    planner.program.root = root;
    Ok(planner.program)
}

struct Planner<'c> {
    checked: &'c Checked,
    program: Program,
    scope: Vec<(Arc<str>, usize)>,
}

type Planned = Result<OpId, String>;

impl Planner<'_> {
    fn push(&mut self, op: Op) -> OpId {
        self.program.ops.push(op);
        (self.program.ops.len() - 1) as OpId
    }

    fn constant(&self, id: OpId) -> Option<&Val<'static>> {
        match self.program.op(id) {
            Op::Const(value) => Some(value),
            _ => None,
        }
    }

    fn plan(&mut self, id: Id) -> Planned {
        let op = match self.checked.ast.kind(id) {
            Kind::Unspecified => Op::Const(Val::Null),
            Kind::Literal(literal) => Op::Const(value_of(literal)),
            Kind::Ident(name) => self.ident(name),
            Kind::Select { operand, field, is_test } => {
                let operand = self.plan(*operand)?;
                let key = Val::text(Arc::clone(field));
                let step = if *is_test { Step::Test(key) } else { Step::Key { key, is_optional: false } };
                return Ok(self.step(operand, step, *is_test));
            }
            Kind::Call { function, target, args } => return self.call(id, function, *target, args),
            Kind::List { elements, optional } => {
                let mut planned = Vec::new();
                for (element, is_optional) in elements.iter().zip(optional) {
                    planned.push((self.plan(*element)?, *is_optional));
                }
                let is_constant = planned.iter().all(|(op, _)| self.constant(*op).is_some());
                return self.folded(Op::List(planned), is_constant);
            }
            Kind::Map { entries } => {
                let mut planned = Vec::new();
                for entry in entries {
                    planned.push((self.plan(entry.key)?, self.plan(entry.value)?, entry.is_optional));
                }
                let is_constant = planned
                    .iter()
                    .all(|(key, value, _)| self.constant(*key).is_some() && self.constant(*value).is_some());
                return self.folded(Op::Map(planned), is_constant);
            }
            Kind::Struct { name, .. } => return Err(format!("unknown type: {name}")),
            Kind::Comprehension(each) => self.fold(each)?,
        };
        Ok(self.push(op))
    }

    /// Computes now what only consists of constants.
    fn folded(&mut self, op: Op, is_constant: bool) -> Planned {
        let id = self.push(op);
        if is_constant {
            match constant(&self.program, id) {
                Ok(value) => {
                    if let Some(slot) = self.program.ops.get_mut(id as usize) {
                        *slot = Op::Const(value);
                    }
                }
                // A constant list or map that has no value is found out when it runs.
                Err(_) if !matches!(self.program.op(id), Op::Call(_)) => {}
                Err(Fault::Error(message)) => return Err(message.to_string()),
                Err(Fault::Limit | Fault::Internal) => {}
            }
        }
        Ok(id)
    }

    fn ident(&self, name: &Arc<str>) -> Op {
        let base = match self.scope.iter().rev().find(|(known, _)| known == name) {
            Some((_, slot)) => Base::Slot(*slot),
            None => match &**name {
                "self" => Base::Self_,
                "oldSelf" => Base::OldSelf,
                name => {
                    let shown = match library::type_named(name) {
                        Some(Type::Kind(Some(_)) | Type::Kind(None)) => name,
                        _ => "unknown",
                    };
                    return Op::Const(Val::Type(shown.into()));
                }
            },
        };
        Op::Attr(Attr { base, steps: Vec::new(), is_test: false })
    }

    /// Goes one step further: in the same attribute, where there is one.
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
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            planned.push(self.plan(*arg)?);
        }
        let overload = match self.checked.overloads(id) {
            [one] => *one,
            _ => "",
        };
        match (function, planned.as_slice()) {
            ("_&&_", [a, b]) => return Ok(self.push(Op::And(*a, *b))),
            ("_||_", [a, b]) => return Ok(self.push(Op::Or(*a, *b))),
            ("_==_", [a, b]) => return Ok(self.push(Op::Equal(*a, *b))),
            ("_!=_", [a, b]) => return Ok(self.push(Op::Unequal(*a, *b))),
            ("or", [a, b]) => return Ok(self.push(Op::OptionalOr(*a, *b))),
            ("orValue", [a, b]) => return Ok(self.push(Op::OptionalOrValue(*a, *b))),
            ("_?_:_", [condition, yes, no]) => {
                let base = Base::Choice { condition: *condition, yes: *yes, no: *no };
                return Ok(self.push(Op::Attr(Attr { base, steps: Vec::new(), is_test: false })));
            }
            ("_[_]" | "_[?_]" | "_?._", [operand, key]) => {
                let is_optional = function != "_[_]";
                let step = match self.constant(*key) {
                    Some(key) => Step::Key { key: key.clone(), is_optional },
                    None => Step::Computed { key: *key, is_optional },
                };
                return Ok(self.step(*operand, step, false));
            }
            ("@in", [value, list]) if overload == "in_list" => {
                if let Some(Val::List(list)) = self.constant(*list) {
                    let list = list.clone();
                    if list.len() == 0 {
                        return Ok(self.push(Op::Const(Val::Bool(false))));
                    }
                    let items: Vec<_> = list.iter().flatten().collect();
                    let is_primitive = |item: &Val<'_>| {
                        matches!(
                            item,
                            Val::Bool(_)
                                | Val::Int(_)
                                | Val::Uint(_)
                                | Val::Double(_)
                                | Val::Text(_)
                                | Val::Null
                        )
                    };
                    if items.iter().all(is_primitive) {
                        let keys: Option<BTreeSet<Key>> = items.iter().map(Key::of).collect();
                        return Ok(self.push(Op::Among { value: *value, keys, list }));
                    }
                }
            }
            _ => {}
        }
        let Some((function, _)) = library::function(function) else {
            return Err(format!("no such overload: {function}"));
        };
        let mut pattern = None;
        if matches!(function, "matches" | "find" | "findAll")
            && let Some(Val::Text(text)) = planned.get(1).and_then(|arg| self.constant(*arg))
        {
            pattern = Some(pattern::compile(text)?);
        }
        let is_conversion = matches!(
            function,
            "bool"
                | "bytes"
                | "double"
                | "dyn"
                | "duration"
                | "int"
                | "string"
                | "timestamp"
                | "type"
                | "uint"
        );
        let is_constant = is_conversion
            && planned.len() == 1
            && planned.first().is_some_and(|arg| self.constant(*arg).is_some());
        let call = Call { function, overload, args: planned, pattern };
        self.folded(Op::Call(Box::new(call)), is_constant)
    }

    fn slot(&mut self) -> usize {
        self.program.slots += 1;
        self.program.slots - 1
    }

    fn fold(&mut self, each: &Comprehension) -> Result<Op, String> {
        let init = self.plan(each.init)?;
        let range = self.plan(each.range)?;
        let outside = self.scope.len();
        let accu = self.slot();
        self.scope.push((Arc::clone(&each.accu), accu));
        let var = self.slot();
        self.scope.push((Arc::clone(&each.var), var));
        let var2 = each.var2.as_ref().map(|name| {
            let slot = self.slot();
            self.scope.push((Arc::clone(name), slot));
            slot
        });
        let condition = self.plan(each.condition)?;
        let step = self.plan(each.step)?;
        self.scope.truncate(outside + 1);
        let result = self.plan(each.result)?;
        self.scope.truncate(outside);
        Ok(Op::Fold(Box::new(Fold { range, var, var2, accu, init, condition, step, result })))
    }
}

fn value_of(literal: &Literal) -> Val<'static> {
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

impl Program {
    /// Runs over one value.
    pub(crate) fn run<'a>(&'a self, scope: &Scope<'a>) -> (Result<Val<'a>, Fault>, u64) {
        crate::eval::run(self, scope)
    }
}
