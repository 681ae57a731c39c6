//! Running a program over one object.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use jiff::Timestamp;
use kstatus::{ConditionFields, Known, Member, Node, NodeKind};
use kube_cel::cel;

use super::fuel::{Fault, Fuel};
use super::functions::{Native, Pattern, call_library};
use super::paths::{Fields, Paths};
use super::program::{Arithmetic, Compare, Id, Literal, Op, Program, Quantifier};
use super::value::{Quoted, Val};

/// One object, as the expressions of one rule see it.
pub(crate) struct Scope<'e> {
    pub(crate) fields: Fields<'e>,
    paths: &'e Paths,
    pub(crate) now: Timestamp,
    generation: Option<i64>,
    /// The steps it takes to go over the conditions.
    conditions: usize,
    pub(crate) fuel: Fuel,
    /// What expressions looked at and saw, if somebody wants to know.
    pub(crate) seen: Option<RefCell<Vec<(String, String)>>>,
}

impl<'e> Scope<'e> {
    pub(crate) fn new(fields: Fields<'e>, paths: &'e Paths, now: Timestamp) -> Self {
        let generation =
            generation(Known::find("metadata", "generation").and_then(|known| fields.object.known(known)));
        let conditions = Known::find("status", "conditions").and_then(|known| fields.object.known(known));
        let conditions = conditions.map_or(0, |node| Val::Node(node).cost());
        Self { fields, paths, now, generation, conditions, fuel: Fuel::new(), seen: None }
    }

    /// The value of an expression.
    pub(crate) fn evaluate(&'e self, program: &'e Program) -> Result<Val<'e>, Fault> {
        let mut run = Run { scope: self, program, locals: vec![Val::Null; program.locals] };
        run.eval(program.root())
    }

    /// What a condition says that speaks of an older generation, if there is one.
    pub(crate) fn lagging(&self) -> Option<String> {
        let latest = self.generation?;
        self.fields.object.conditions().find_map(|condition| {
            let observed = generation(condition.member(Member::ObservedGeneration))
                .filter(|observed| *observed < latest)?;
            let type_ = condition.member(Member::Type).and_then(Node::as_str).unwrap_or_default();
            Some(format!("condition {type_} was observed at generation {observed}, the latest is {latest}"))
        })
    }

    /// A condition of `status.conditions`.
    pub(crate) fn condition(&self, type_: &str) -> Option<ConditionFields<'e>> {
        let mut conditions = self.fields.object.conditions();
        // Most are compared without a copy.
        let is_plain = !type_.contains('\\');
        conditions.find(|condition| {
            condition.member(Member::Type).is_some_and(|node| {
                if is_plain { node.is(type_) } else { node.as_str().is_some_and(|text| text == type_) }
            })
        })
    }

    fn note(&self, program: &Program, id: Id, value: &Result<Val<'_>, Fault>) {
        const MOST: usize = 100;
        let Some(seen) = &self.seen else { return };
        let mut seen = seen.borrow_mut();
        let what = program.show(id, self.paths).to_string();
        if seen.len() < MOST && !seen.iter().any(|(known, _)| *known == what) {
            let value = match value {
                Ok(value) => Quoted(value, 0).to_string(),
                Err(Fault::Absent(_)) => "absent".to_owned(),
                Err(Fault::Error(error)) => format!("error: {error}"),
                Err(Fault::Steps | Fault::Room) => "not finished".to_owned(),
            };
            seen.push((what, value));
        }
    }
}

fn generation(node: Option<Node<'_>>) -> Option<i64> {
    let node = node?;
    Val::Node(node).as_int().or_else(|| node.as_str()?.trim().parse().ok())
}

struct Run<'e> {
    scope: &'e Scope<'e>,
    program: &'e Program,
    locals: Vec<Val<'e>>,
}

type Result<T, E = Fault> = std::result::Result<T, E>;

fn no_overload(what: &str, values: &[&Val<'_>]) -> Fault {
    let types: Vec<_> = values.iter().map(|value| value.type_name()).collect();
    Fault::error(format!("no {what} for {}", types.join(" and ")))
}

impl<'e> Run<'e> {
    fn fuel(&self) -> &'e Fuel {
        &self.scope.fuel
    }

    fn eval(&mut self, id: Id) -> Result<Val<'e>> {
        self.fuel().step()?;
        match self.program.op(id) {
            Op::Literal(literal) => Ok(match literal {
                Literal::Null => Val::Null,
                Literal::Bool(value) => Val::Bool(*value),
                Literal::Int(value) => Val::Int(*value),
                Literal::Uint(value) => Val::Uint(*value),
                Literal::Float(value) => Val::Float(*value),
                Literal::Text(text) => Val::text(text),
            }),
            Op::Root => Ok(Val::Node(self.scope.fields.object.root())),
            Op::Path(path) => {
                let value = self.scope.fields.get(*path).map(Val::Node).ok_or(Fault::Absent(id));
                self.scope.note(self.program, id, &value);
                value
            }
            Op::Local(local) => {
                let value = self.locals.get(*local).ok_or(Fault::Absent(id))?;
                if let Val::Text(Cow::Owned(_)) = value {
                    self.fuel().steps(value.cost())?;
                }
                Ok(value.clone())
            }
            Op::Select { of, key } => {
                let of = self.eval(*of)?;
                self.member(&of, key, id)
            }
            Op::HasPath(path) => {
                let value = Ok(Val::Bool(self.scope.fields.get(*path).is_some()));
                self.scope.note(self.program, id, &value);
                value
            }
            Op::Has { of, key } => {
                let value = match self.eval(*of) {
                    Ok(of) => match self.member(&of, key, id) {
                        Ok(Val::Optional(value)) => Ok(Val::Bool(value.is_some())),
                        Ok(_) => Ok(Val::Bool(true)),
                        Err(fault) if fault.is_limit() => Err(fault),
                        Err(_) => Ok(Val::Bool(false)),
                    },
                    Err(Fault::Absent(_)) => Ok(Val::Bool(false)),
                    Err(fault) => Err(fault),
                };
                self.scope.note(self.program, id, &value);
                value
            }
            Op::OptSelect { of, key } => {
                let of = match self.eval(*of) {
                    Err(Fault::Absent(_)) => return Ok(Val::Optional(None)),
                    of => of?,
                };
                self.optional(|run| run.member(&of, key, id))
            }
            Op::Index { of, key } => {
                let (of, key) = (self.eval(*of)?, self.eval(*key)?);
                self.index(&of, &key, id)
            }
            Op::OptIndex { of, key } => {
                let of = match self.eval(*of) {
                    Err(Fault::Absent(_)) => return Ok(Val::Optional(None)),
                    of => of?,
                };
                let key = self.eval(*key)?;
                self.optional(|run| run.index(&of, &key, id))
            }
            Op::Not(a) => self.boolean(*a).map(|value| Val::Bool(!value)),
            Op::Negate(a) => {
                let value = self.eval(*a)?;
                self.fuel().steps(value.cost())?;
                match value.plain() {
                    Val::Int(value) => value
                        .checked_neg()
                        .map(Val::Int)
                        .ok_or_else(|| Fault::error("the number is too large")),
                    Val::Float(value) => Ok(Val::Float(-value)),
                    value => Err(no_overload("`-`", &[&value])),
                }
            }
            Op::And(a, b) => self.either(*a, *b, false),
            Op::Or(a, b) => self.either(*a, *b, true),
            Op::If(a, b, c) => {
                if self.boolean(*a)? {
                    self.eval(*b)
                } else {
                    self.eval(*c)
                }
            }
            Op::Compare(compare, a, b) => {
                let (a, b) = (self.eval(*a)?, self.eval(*b)?);
                self.compare(*compare, &a, &b).map(Val::Bool)
            }
            Op::Arithmetic(operator, a, b) => {
                let (a, b) = (self.eval(*a)?, self.eval(*b)?);
                self.fuel().steps(a.cost() + b.cost())?;
                self.arithmetic(*operator, a.plain(), b.plain())
            }
            Op::In(a, b) => {
                let (a, b) = (self.eval(*a)?, self.eval(*b)?);
                self.contains(&a, &b).map(Val::Bool)
            }
            Op::List(elements) => {
                let mut list = Vec::with_capacity(elements.len());
                for (element, is_optional) in elements {
                    let value = self.eval(*element)?;
                    match value {
                        Val::Optional(value) if *is_optional => {
                            list.extend(value.map(|value| (*value).clone()))
                        }
                        value => list.push(value),
                    }
                }
                self.fuel().allocate(32 * list.len())?;
                Ok(Val::List(Rc::new(list)))
            }
            Op::Map(entries) => {
                let mut map: Vec<(Val<'e>, Val<'e>)> = Vec::with_capacity(entries.len());
                for (key, value, is_optional) in entries {
                    let (key, value) = (self.eval(*key)?.plain(), self.eval(*value)?);
                    match value {
                        Val::Optional(value) if *is_optional => {
                            map.extend(value.map(|value| (key, (*value).clone())));
                        }
                        value => map.push((key, value)),
                    }
                }
                self.fuel().allocate(64 * map.len())?;
                Ok(Val::Map(Rc::new(map)))
            }
            Op::Each { quantifier, range, local, filter, body } => {
                self.each(*quantifier, *range, *local, *filter, *body)
            }
            Op::Native { function, target, args } => {
                let value = self.native(id, *function, *target, args);
                if function.is_of_rules() {
                    self.scope.note(self.program, id, &value);
                }
                value
            }
            Op::Matches { of, pattern } => {
                let value = self.eval(*of)?;
                self.fuel().steps(value.cost())?;
                let text = value.as_str().ok_or_else(|| no_overload("`matches`", &[&value]))?;
                self.fuel().steps(pattern.steps(&text))?;
                Ok(Val::Bool(pattern.regex.is_match(&text)))
            }
            Op::Library { name, args, call } => {
                let args: Result<Vec<_>> = args.iter().map(|arg| self.eval(*arg)).collect();
                call_library(name, call, &args?, self.fuel())
            }
        }
    }

    fn boolean(&mut self, id: Id) -> Result<bool> {
        let value = self.eval(id)?;
        value
            .as_bool()
            .ok_or_else(|| Fault::error(format!("expected true or false, found {}", value.type_name())))
    }

    /// `&&` and `||`: one side is enough where it decides, whatever the other one is.
    fn either(&mut self, a: Id, b: Id, decides: bool) -> Result<Val<'e>> {
        let first = self.boolean(a);
        match first {
            Ok(value) if value == decides => return Ok(Val::Bool(decides)),
            Err(fault) if fault.is_limit() => return Err(fault),
            _ => {}
        }
        match (first, self.boolean(b)) {
            (_, Ok(value)) if value == decides => Ok(Val::Bool(decides)),
            (_, Err(fault)) if fault.is_limit() => Err(fault),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            _ => Ok(Val::Bool(!decides)),
        }
    }

    /// A member of a map; null is absent.
    fn member(&mut self, of: &Val<'e>, key: &str, id: Id) -> Result<Val<'e>> {
        self.fuel().steps(of.cost())?;
        let found = match of {
            Val::Node(node) if node.kind() == NodeKind::Map => node.get(key).map(Val::Node),
            Val::Map(map) => {
                let found = map.iter().find(|(known, _)| known.as_str().is_some_and(|known| known == key));
                found.map(|(_, value)| value.clone())
            }
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(value)) => {
                let value = Rc::clone(value);
                return self.optional(|run| run.member(&value, key, id));
            }
            value => return Err(Fault::error(format!("no field `{key}` in {}", value.type_name()))),
        };
        present(found).ok_or(Fault::Absent(id))
    }

    fn index(&mut self, of: &Val<'e>, key: &Val<'e>, id: Id) -> Result<Val<'e>> {
        if let Val::Optional(value) = of {
            let Some(value) = value.clone() else { return Ok(Val::Optional(None)) };
            return self.optional(|run| run.index(&value, key, id));
        }
        self.fuel().steps(of.cost() + key.cost())?;
        let found = if of.is_map() {
            of.member(&key.clone().plain())
        } else if of.is_list() {
            let Some(at) = key.as_int() else { return Err(no_overload("index", &[of, key])) };
            let Ok(at) = usize::try_from(at) else { return Err(Fault::Absent(id)) };
            of.iterate().and_then(|mut elements| elements.nth(at))
        } else {
            return Err(no_overload("index", &[of, key]));
        };
        present(found).ok_or(Fault::Absent(id))
    }

    fn optional(&mut self, look: impl FnOnce(&mut Self) -> Result<Val<'e>>) -> Result<Val<'e>> {
        match look(self) {
            Ok(Val::Optional(value)) => Ok(Val::Optional(value)),
            Ok(value) => Ok(Val::Optional(Some(Rc::new(value)))),
            Err(fault) if fault.is_limit() => Err(fault),
            Err(_) => Ok(Val::Optional(None)),
        }
    }

    fn compare(&self, compare: Compare, a: &Val<'e>, b: &Val<'e>) -> Result<bool> {
        match compare {
            Compare::Equal => return a.equals(b, self.fuel()),
            Compare::Unequal => return a.equals(b, self.fuel()).map(|equal| !equal),
            _ => {}
        }
        self.fuel().steps(a.cost() + b.cost())?;
        let Some(order) = a.compare(b) else {
            // NaN is neither less nor greater.
            let is_nan = |value: &Val<'_>| matches!(value, Val::Float(value) if value.is_nan());
            if (is_nan(a) || is_nan(b)) && a.is_number() && b.is_number() {
                return Ok(false);
            }
            return Err(no_overload("order", &[a, b]));
        };
        Ok(match compare {
            Compare::Less => order.is_lt(),
            Compare::LessOrEqual => order.is_le(),
            Compare::Greater => order.is_gt(),
            _ => order.is_ge(),
        })
    }

    fn arithmetic(&self, operator: Arithmetic, a: Val<'e>, b: Val<'e>) -> Result<Val<'e>> {
        use Arithmetic as A;
        let overflow = || Fault::error(format!("`{operator}` overflows or divides by zero"));
        match (&a, &b) {
            (Val::Int(a), Val::Int(b)) => match operator {
                A::Add => a.checked_add(*b),
                A::Subtract => a.checked_sub(*b),
                A::Multiply => a.checked_mul(*b),
                A::Divide => a.checked_div(*b),
                A::Remainder => a.checked_rem(*b),
            }
            .map(Val::Int)
            .ok_or_else(overflow),
            (Val::Uint(a), Val::Uint(b)) => match operator {
                A::Add => a.checked_add(*b),
                A::Subtract => a.checked_sub(*b),
                A::Multiply => a.checked_mul(*b),
                A::Divide => a.checked_div(*b),
                A::Remainder => a.checked_rem(*b),
            }
            .map(Val::Uint)
            .ok_or_else(overflow),
            (Val::Float(x), Val::Float(y)) if operator != A::Remainder => Ok(Val::Float(match operator {
                A::Add => x + y,
                A::Subtract => x - y,
                A::Multiply => x * y,
                _ => x / y,
            })),
            (Val::Text(x), Val::Text(y)) if operator == A::Add => {
                self.fuel().allocate(x.len() + y.len())?;
                Ok(Val::Text(Cow::Owned([&**x, &**y].concat())))
            }
            (Val::Foreign(x), Val::Foreign(y)) => {
                let (x, y) = (x.clone(), y.clone());
                let result = match operator {
                    A::Add => x + y,
                    A::Subtract => x - y,
                    _ => return Err(no_overload(&format!("`{operator}`"), &[&a, &b])),
                };
                let result = result.ok().and_then(Val::native);
                result.ok_or_else(|| no_overload(&format!("`{operator}`"), &[&a, &b]))
            }
            (x, y) if operator == A::Add && x.is_list() && y.is_list() => {
                let mut list = Vec::new();
                for value in x.iterate().into_iter().chain(y.iterate()).flatten() {
                    self.fuel().allocate(64)?;
                    list.push(value);
                }
                Ok(Val::List(Rc::new(list)))
            }
            _ => Err(no_overload(&format!("`{operator}`"), &[&a, &b])),
        }
    }

    fn contains(&self, value: &Val<'e>, container: &Val<'e>) -> Result<bool> {
        self.fuel().steps(container.cost())?;
        if container.is_map() {
            self.fuel().steps(value.cost())?;
            return Ok(container.member(&value.clone().plain()).is_some());
        }
        let Some(elements) = container.iterate() else {
            return Err(no_overload("`in`", &[value, container]));
        };
        for element in elements {
            self.fuel().step()?;
            if element.equals(value, self.fuel())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn each(
        &mut self,
        quantifier: Quantifier,
        range: Id,
        local: usize,
        filter: Option<Id>,
        body: Id,
    ) -> Result<Val<'e>> {
        let range = self.eval(range)?;
        self.fuel().steps(range.cost())?;
        let Some(elements) = range.iterate() else {
            return Err(Fault::error(format!("can't go over {}", range.type_name())));
        };
        let mut collected = Vec::new();
        let (mut fault, mut count) = (None, 0);
        for element in elements {
            self.fuel().step()?;
            if let Some(slot) = self.locals.get_mut(local) {
                *slot = element;
            }
            match quantifier {
                Quantifier::Collect => {
                    if let Some(filter) = filter
                        && !self.boolean(filter)?
                    {
                        continue;
                    }
                    self.fuel().allocate(64)?;
                    let value = self.eval(body)?;
                    collected.push(value);
                }
                Quantifier::ExistsOne => count += usize::from(self.boolean(body)?),
                Quantifier::All | Quantifier::Exists => {
                    let decides = quantifier == Quantifier::Exists;
                    match self.boolean(body) {
                        Ok(value) if value == decides => return Ok(Val::Bool(decides)),
                        Ok(_) => {}
                        Err(limit) if limit.is_limit() => return Err(limit),
                        Err(other) => fault = Some(other),
                    }
                }
            }
        }
        match (quantifier, fault) {
            (_, Some(fault)) => Err(fault),
            (Quantifier::Collect, _) => Ok(Val::List(Rc::new(collected))),
            (Quantifier::ExistsOne, _) => Ok(Val::Bool(count == 1)),
            (Quantifier::All, _) => Ok(Val::Bool(true)),
            (Quantifier::Exists, _) => Ok(Val::Bool(false)),
        }
    }

    fn native(&mut self, id: Id, function: Native, target: Option<Id>, args: &[Id]) -> Result<Val<'e>> {
        use Native as N;
        let wrong = |value: &Val<'_>| no_overload(&format!("`{}`", function.name()), &[value]);
        let first = target.or_else(|| args.first().copied());
        match function {
            N::Default => {
                let [value, fallback] = args else { return Err(Fault::Absent(id)) };
                match self.eval(*value) {
                    Err(Fault::Absent(_)) | Ok(Val::Optional(None) | Val::Null) => self.eval(*fallback),
                    Ok(Val::Optional(Some(value))) => Ok((*value).clone()),
                    value => value,
                }
            }
            N::AtLeast | N::Ratio => {
                let [have, want] = args else { return Err(Fault::Absent(id)) };
                let (have, want) = (self.count(*have, 0)?, self.count(*want, 1)?);
                if function == N::AtLeast {
                    return Ok(Val::Bool(have >= want));
                }
                self.fuel().allocate(32)?;
                Ok(Val::Text(Cow::Owned(format!("{have}/{want}"))))
            }
            N::IsTrue | N::IsFalse | N::IsUnknown | N::Condition | N::ReasonOf | N::MessageOf | N::Lags => {
                let type_ = self.argument(args)?;
                let found = self.condition(target, &type_)?;
                self.of_condition(id, function, found)
            }
            N::Worst => self.worst(target, args),
            N::Observed => {
                let observed = Known::find("status", "observedGeneration");
                let observed = observed.and_then(|known| self.scope.fields.object.known(known));
                let same = match (generation(observed), self.scope.generation) {
                    (Some(observed), Some(latest)) => observed == latest,
                    _ => false,
                };
                Ok(Val::Bool(same))
            }
            N::SecondsSince => {
                let text = self.argument(args)?;
                let time: Timestamp = text.parse().map_err(|_| {
                    Fault::error("secondsSince: expected a time such as 2026-01-31T12:00:00Z")
                })?;
                Ok(Val::Int(self.scope.now.duration_since(time).as_secs()))
            }
            N::OptionalNone => Ok(Val::Optional(None)),
            N::OrValue | N::Or => {
                let value = self.first(first, id)?;
                match value {
                    Val::Optional(Some(value)) if function == N::OrValue => Ok((*value).clone()),
                    Val::Optional(None) => match args {
                        [other] => self.eval(*other),
                        _ => Err(Fault::Absent(id)),
                    },
                    value @ Val::Optional(_) => Ok(value),
                    value => Err(wrong(&value)),
                }
            }
            _ => {
                let value = self.first(first, id)?;
                self.fuel().steps(value.cost())?;
                self.fuel().steps(value.as_str().map_or(0, |text| text.len() / 64))?;
                let args = if target.is_some() { args } else { args.get(1..).unwrap_or_default() };
                self.standard(id, function, value, args)
            }
        }
    }

    /// The functions of CEL itself.
    fn standard(&mut self, id: Id, function: Native, value: Val<'e>, args: &[Id]) -> Result<Val<'e>> {
        use Native as N;
        let wrong = |value: &Val<'_>| no_overload(&format!("`{}`", function.name()), &[value]);
        let text = |value: &Val<'e>| value.as_str().ok_or_else(|| wrong(value));
        Ok(match function {
            N::Size => {
                let size = value.size().ok_or_else(|| wrong(&value))?;
                self.fuel().steps(size / 16)?;
                Val::Int(i64::try_from(size).unwrap_or(i64::MAX))
            }
            N::Contains | N::StartsWith | N::EndsWith => {
                let (text, part) = (text(&value)?, self.argument(args)?);
                Val::Bool(match function {
                    N::Contains => text.contains(&*part),
                    N::StartsWith => text.starts_with(&*part),
                    _ => text.ends_with(&*part),
                })
            }
            N::Matches => {
                let (text, source) = (text(&value)?, self.argument(args)?);
                // It may take a while to compile.
                self.fuel().steps(2000)?;
                let pattern = Pattern::new(&source).map_err(Fault::error)?;
                self.fuel().steps(pattern.steps(&text))?;
                Val::Bool(pattern.regex.is_match(&text))
            }
            N::LowerAscii => {
                let text = text(&value)?;
                self.fuel().allocate(text.len())?;
                Val::Text(Cow::Owned(text.to_ascii_lowercase()))
            }
            N::Join => {
                let separator = if args.is_empty() { Cow::Borrowed("") } else { self.argument(args)? };
                let mut joined = String::new();
                for (index, part) in value.iterate().ok_or_else(|| wrong(&value))?.enumerate() {
                    let part = text(&part)?;
                    self.fuel().allocate(part.len() + separator.len() + 64)?;
                    if index > 0 {
                        joined.push_str(&separator);
                    }
                    joined.push_str(&part);
                }
                Val::Text(Cow::Owned(joined))
            }
            N::String => match value.plain() {
                Val::Foreign(cel::Value::Timestamp(time)) => {
                    Val::Text(Cow::Owned(time.to_utc().to_rfc3339().replace("+00:00", "Z")))
                }
                Val::Foreign(cel::Value::Duration(time)) => {
                    let seconds = time.num_seconds() as f64 + f64::from(time.subsec_nanos()) / 1e9;
                    Val::Text(Cow::Owned(format!("{seconds}s")))
                }
                Val::Foreign(value) => {
                    let call = super::functions::library("string", None, false, 1);
                    return call_library("string", &call, &[Val::Foreign(value)], self.fuel());
                }
                value @ (Val::Text(_) | Val::Bool(_) | Val::Int(_)) => {
                    let text = value.to_string();
                    self.fuel().allocate(text.len())?;
                    Val::Text(Cow::Owned(text))
                }
                Val::Uint(value) => Val::Text(Cow::Owned(value.to_string())),
                Val::Float(value) => Val::Text(Cow::Owned(value.to_string())),
                value => return Err(wrong(&value)),
            },
            N::Int => match value.plain() {
                Val::Text(text) => {
                    Val::Int(text.parse().map_err(|_| Fault::error("int: the text is no integer"))?)
                }
                // Towards zero, as in CEL.
                Val::Float(value) if value.abs() < 9_223_372_036_854_775_808.0 => Val::Int(value as i64),
                Val::Foreign(cel::Value::Timestamp(time)) => Val::Int(time.timestamp()),
                Val::Foreign(value) => {
                    let call = super::functions::library("int", None, false, 1);
                    return call_library("int", &call, &[Val::Foreign(value)], self.fuel());
                }
                value => Val::Int(value.as_int().ok_or_else(|| wrong(&value))?),
            },
            N::Double => match value.plain() {
                Val::Text(text) => {
                    Val::Float(text.parse().map_err(|_| Fault::error("double: the text is no number"))?)
                }
                Val::Int(value) => Val::Float(value as f64),
                Val::Uint(value) => Val::Float(value as f64),
                Val::Float(value) => Val::Float(value),
                value => return Err(wrong(&value)),
            },
            N::Type => Val::text(value.type_name()),
            N::Dyn => value,
            N::OptionalOf => Val::Optional(Some(Rc::new(value))),
            N::OptionalOfNonZero => {
                let zero = match value.clone().plain() {
                    Val::Null => true,
                    Val::Bool(value) => !value,
                    Val::Int(value) => value == 0,
                    Val::Uint(value) => value == 0,
                    Val::Float(value) => value == 0.0,
                    value => value.size() == Some(0),
                };
                Val::Optional((!zero).then(|| Rc::new(value)))
            }
            N::HasValue | N::Value => match (value, function) {
                (Val::Optional(value), N::HasValue) => Val::Bool(value.is_some()),
                (Val::Optional(Some(value)), _) => (*value).clone(),
                (Val::Optional(None), _) => return Err(Fault::Absent(id)),
                (value, _) => return Err(wrong(&value)),
            },
            _ => return Err(wrong(&value)),
        })
    }

    fn first(&mut self, id: Option<Id>, call: Id) -> Result<Val<'e>> {
        self.eval(id.ok_or(Fault::Absent(call))?)
    }

    /// The argument that must be text.
    fn argument(&mut self, args: &[Id]) -> Result<Cow<'e, str>> {
        let value = self.first(args.first().copied(), 0)?;
        self.fuel().steps(value.cost())?;
        value.as_str().ok_or_else(|| Fault::error(format!("expected text, found {}", value.type_name())))
    }

    /// A counter, where it is there.
    fn count(&mut self, id: Id, absent: i64) -> Result<i64> {
        match self.eval(id) {
            Err(Fault::Absent(_)) | Ok(Val::Optional(None) | Val::Null) => Ok(absent),
            Ok(Val::Optional(Some(value))) => value.as_int().ok_or_else(|| no_overload("count", &[&value])),
            Ok(value) => value.as_int().ok_or_else(|| no_overload("count", &[&value])),
            Err(fault) => Err(fault),
        }
    }

    /// The condition of a type: of `status.conditions`, or of the list that the method is called on.
    fn condition(&mut self, target: Option<Id>, type_: &str) -> Result<Option<ConditionFields<'e>>> {
        let Some(target) = target else {
            self.fuel().steps(self.scope.conditions)?;
            return Ok(self.scope.condition(type_));
        };
        let list = match self.eval(target) {
            Err(Fault::Absent(_)) | Ok(Val::Optional(None)) => return Ok(None),
            Ok(Val::Optional(Some(list))) => (*list).clone(),
            list => list?,
        };
        // To go over the list, and to look into each element.
        self.fuel().steps(2 * list.cost())?;
        let Some(elements) = list.iterate().filter(|_| list.is_list()) else {
            return Err(no_overload("conditions", &[&list]));
        };
        for element in elements {
            self.fuel().step()?;
            if let Val::Node(element) = element {
                let condition = ConditionFields::of(element);
                let found = condition.member(Member::Type).and_then(Node::as_str);
                if found.is_some_and(|found| found == type_) {
                    return Ok(Some(condition));
                }
            }
        }
        Ok(None)
    }

    /// Whether a condition speaks of an older generation.
    fn lags(&self, condition: &ConditionFields<'_>) -> bool {
        match (generation(condition.member(Member::ObservedGeneration)), self.scope.generation) {
            (Some(observed), Some(latest)) => observed < latest,
            _ => false,
        }
    }

    fn of_condition(&self, id: Id, function: Native, found: Option<ConditionFields<'e>>) -> Result<Val<'e>> {
        // Its status and its generation are looked for in it.
        self.fuel().steps(2 * found.as_ref().map_or(0, |found| Val::Node(found.element).cost()))?;
        let text = |member| {
            let text = found.as_ref().and_then(|condition| condition.member(member)).and_then(Node::as_str);
            Val::Text(text.unwrap_or_default())
        };
        let has_status = |word: &str| {
            found.as_ref().is_some_and(|condition| {
                condition.member(Member::Status).is_some_and(|status| status.is(word))
                    && !self.lags(condition)
            })
        };
        Ok(match function {
            Native::IsTrue => Val::Bool(has_status("True")),
            Native::IsFalse => Val::Bool(has_status("False")),
            Native::IsUnknown => Val::Bool(has_status("Unknown")),
            Native::Lags => Val::Bool(found.as_ref().is_some_and(|condition| self.lags(condition))),
            Native::ReasonOf => text(Member::Reason),
            Native::MessageOf => text(Member::Message),
            _ => Val::Node(found.ok_or(Fault::Absent(id))?.element),
        })
    }

    /// Of several conditions the one that is furthest from True.
    fn worst(&mut self, target: Option<Id>, args: &[Id]) -> Result<Val<'e>> {
        let types = self.first(args.first().copied(), 0)?;
        let mut worst: Option<(u8, Val<'e>)> = None;
        for type_ in types.iterate().ok_or_else(|| no_overload("`worst`", &[&types]))? {
            let type_ = type_.as_str().ok_or_else(|| no_overload("`worst`", &[&type_]))?;
            let found = self.condition(target, &type_)?;
            let is = |word: &str| {
                found.as_ref().and_then(|c| c.member(Member::Status)).is_some_and(|status| status.is(word))
            };
            let lags = found.as_ref().is_some_and(|condition| self.lags(condition));
            let (rank, value) = match &found {
                None => (1, self.missing(type_, "Missing", "there is no condition ")?),
                Some(_) if lags => {
                    (1, self.missing(type_, "Lagging", "an older generation has the condition ")?)
                }
                Some(condition) if is("False") => (0, Val::Node(condition.element)),
                Some(condition) if is("True") => (3, Val::Node(condition.element)),
                Some(condition) => (2, Val::Node(condition.element)),
            };
            if worst.as_ref().is_none_or(|(known, _)| rank < *known) {
                worst = Some((rank, value));
            }
        }
        worst.map(|(_, value)| value).ok_or_else(|| Fault::error("worst: the list of types is empty"))
    }

    /// What stands for a condition that says nothing.
    fn missing(&self, type_: Cow<'e, str>, reason: &'static str, message: &str) -> Result<Val<'e>> {
        self.fuel().allocate(256 + 2 * type_.len())?;
        let message = Val::Text(Cow::Owned([message, &type_].concat()));
        Ok(Val::Map(Rc::new(vec![
            (Val::text("type"), Val::Text(type_)),
            (Val::text("status"), Val::text("Unknown")),
            (Val::text("reason"), Val::text(reason)),
            (Val::text("message"), message),
        ])))
    }
}

/// What is there and not null.
fn present(value: Option<Val<'_>>) -> Option<Val<'_>> {
    value.filter(|value| !matches!(value, Val::Null) && !matches!(value, Val::Node(node) if node.is_null()))
}
