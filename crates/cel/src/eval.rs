//! Running a program, and counting what it costs: every step counts as cel-go counts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::functions;
use crate::plan::{Attr, Base, Call, Fold, Op, OpId, Program, Step};
use crate::value::{Fault, Items, Key, List, Map, Meter, Result, Val};

/// What one run of an expression may cost.
pub(crate) const PER_CALL: u64 = 1_000_000;

/// What an expression may read.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) self_: Result<Val<'a>>,
    pub(crate) old: Option<Result<Val<'a>>>,
}

/// The value, and what it cost.
pub(crate) fn run<'a>(program: &'a Program, scope: &Scope<'a>) -> (Result<Val<'a>>, u64) {
    let mut run =
        Run { program, scope, slots: vec![Slot::Unset; program.slots], cost: 0, meter: Meter::new() };
    let value = run.eval(program.root);
    (value, run.cost)
}

/// The value of what consists of constants.
pub(crate) fn constant(program: &Program, id: OpId) -> Result<Val<'static>> {
    match program.op(id) {
        Op::List(elements) => {
            let mut items = Vec::new();
            for (element, is_optional) in elements {
                let Op::Const(value) = program.op(*element) else { return Err(Fault::no_overload()) };
                push(&mut items, value.clone(), *is_optional)?;
            }
            Ok(Val::list(items))
        }
        Op::Map(entries) => {
            let mut map = BTreeMap::new();
            for (key, value, is_optional) in entries {
                let (Op::Const(key), Op::Const(value)) = (program.op(*key), program.op(*value)) else {
                    return Err(Fault::no_overload());
                };
                insert(&mut map, key.clone(), value.clone(), *is_optional)?;
            }
            Ok(Val::Map(Map::Made(Arc::new(map))))
        }
        Op::Call(call) => {
            let args: Vec<Val<'static>> = call
                .args
                .iter()
                .filter_map(|arg| match program.op(*arg) {
                    Op::Const(value) => Some(value.clone()),
                    _ => None,
                })
                .collect();
            functions::call(call.function, &args, None, &Meter::new())
        }
        _ => Err(Fault::no_overload()),
    }
}

#[derive(Clone, Debug)]
enum Slot<'a> {
    Unset,
    /// Computed when it is first read.
    Later(OpId),
    Value(Result<Val<'a>>),
}

struct Run<'a, 's> {
    program: &'a Program,
    scope: &'s Scope<'a>,
    slots: Vec<Slot<'a>>,
    cost: u64,
    meter: Meter,
}

fn push<'a>(items: &mut Vec<Val<'a>>, value: Val<'a>, is_optional: bool) -> Result<()> {
    match value {
        Val::Optional(inner) if is_optional => items.extend(inner.map(|inner| (*inner).clone())),
        other if is_optional => {
            let message = format!("cannot initialize optional list element from non-optional value {other}");
            return Err(Fault::error(message));
        }
        value => items.push(value),
    }
    Ok(())
}

type Entries<'a> = BTreeMap<Key, (Val<'a>, Val<'a>)>;

fn insert<'a>(map: &mut Entries<'a>, key: Val<'a>, value: Val<'a>, is_optional: bool) -> Result<()> {
    let Some(known) = Key::of(&key) else {
        return Err(Fault::error(format!("unsupported key type: {}", key.type_name())));
    };
    let value = match value {
        Val::Optional(None) if is_optional => {
            map.remove(&known);
            return Ok(());
        }
        Val::Optional(Some(inner)) if is_optional => (*inner).clone(),
        other if is_optional => {
            let message = format!("cannot initialize optional entry '{key}' from non-optional value {other}");
            return Err(Fault::error(message));
        }
        value => value,
    };
    map.insert(known, (key, value));
    Ok(())
}

impl<'a> Run<'a, '_> {
    fn charge(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > PER_CALL { Err(Fault::Limit) } else { Ok(()) }
    }

    fn eval(&mut self, id: OpId) -> Result<Val<'a>> {
        let program = self.program;
        match program.op(id) {
            Op::Const(value) => Ok(value.clone()),
            Op::Attr(attr) => self.attr(attr, true),
            Op::And(a, b) => self.logic(*a, *b, false),
            Op::Or(a, b) => self.logic(*a, *b, true),
            Op::Equal(a, b) => self.equal(*a, *b, true),
            Op::Unequal(a, b) => self.equal(*a, *b, false),
            Op::Among { value, keys, list } => {
                let value = self.eval(*value)?;
                let found = match keys {
                    Some(keys) => Key::of(&value).is_some_and(|key| keys.contains(&key)),
                    None => list.contains(&value, &self.meter)?,
                };
                Ok(Val::Bool(found))
            }
            Op::OptionalOr(a, b) => match self.eval(*a)? {
                Val::Optional(None) => self.eval(*b),
                other => Ok(other),
            },
            Op::OptionalOrValue(a, b) => match self.eval(*a)? {
                Val::Optional(None) => self.eval(*b),
                Val::Optional(Some(value)) => Ok((*value).clone()),
                other => Ok(other),
            },
            Op::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                let list = self.list(elements, &mut items);
                self.charge(10)?;
                list.map(|()| Val::list(items))
            }
            Op::Map(entries) => {
                let mut map = BTreeMap::new();
                let made = self.map(entries, &mut map);
                self.charge(30)?;
                made.map(|()| Val::Map(Map::Made(Arc::new(map))))
            }
            Op::Fold(fold) => self.fold(fold),
            Op::Call(call) => self.call(call),
        }
    }

    fn list(&mut self, elements: &'a [(OpId, bool)], items: &mut Vec<Val<'a>>) -> Result<()> {
        for (element, is_optional) in elements {
            let value = self.eval(*element)?;
            push(items, value, *is_optional)?;
        }
        Ok(())
    }

    fn map(&mut self, entries: &'a [(OpId, OpId, bool)], map: &mut Entries<'a>) -> Result<()> {
        for (key, value, is_optional) in entries {
            let (key, value) = (self.eval(*key)?, self.eval(*value)?);
            insert(map, key, value, *is_optional)?;
        }
        Ok(())
    }

    /// `&&` and `||`: one side is enough where it decides, whatever the other one is.
    fn logic(&mut self, a: OpId, b: OpId, decides: bool) -> Result<Val<'a>> {
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
                Ok(_) => return Err(Fault::no_overload()),
                Err(fault) => return Err(fault),
            }
        }
        Ok(Val::Bool(!decides))
    }

    /// Limits end everything; other faults are values for what comes next.
    fn keep(&mut self, id: OpId) -> Result<Result<Val<'a>>> {
        match self.eval(id) {
            Err(fault) if fault.is_final() => Err(fault),
            other => Ok(other),
        }
    }

    fn equal(&mut self, a: OpId, b: OpId, wanted: bool) -> Result<Val<'a>> {
        let args = [self.keep(a)?, self.keep(b)?];
        let name = if wanted { ("_==_", "equals") } else { ("_!=_", "not_equals") };
        let cost = functions::cost(name.0, name.1, &args, &Err(Fault::no_overload()), &self.meter)?;
        self.charge(cost)?;
        let [a, b] = args;
        match a?.equals(&b?, &self.meter) {
            Ok(is_equal) => Ok(Val::Bool(is_equal == wanted)),
            Err(Fault::Limit) => Err(Fault::Limit),
            Err(fault) => {
                if wanted {
                    Err(fault)
                } else {
                    Ok(Val::Bool(true))
                }
            }
        }
    }

    fn slot(&mut self, at: usize) -> Result<Val<'a>> {
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

    fn set(&mut self, at: usize, value: Slot<'a>) {
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = value;
        }
    }

    /// `counts`: an attribute in a branch of a choice costs nothing itself.
    fn attr(&mut self, attr: &'a Attr, counts: bool) -> Result<Val<'a>> {
        let value = self.resolve(attr);
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
        match value {
            Ok(Val::Optional(value)) if attr.is_test => Ok(Val::Bool(value.is_some())),
            value => value,
        }
    }

    fn branch(&mut self, id: OpId) -> Result<Val<'a>> {
        let program = self.program;
        match program.op(id) {
            Op::Attr(attr) => self.attr(attr, false),
            _ => self.eval(id),
        }
    }

    fn resolve(&mut self, attr: &'a Attr) -> Result<Val<'a>> {
        let mut value = match &attr.base {
            Base::Self_ => self.scope.self_.clone(),
            Base::OldSelf => {
                let old = self.scope.old.clone();
                old.unwrap_or_else(|| Err(Fault::error("no such attribute(s): oldSelf")))
            }
            Base::Slot(slot) => self.slot(*slot),
            Base::Value(id) => self.eval(*id),
            Base::Choice { condition, yes, no } => match self.eval(*condition)? {
                Val::Bool(true) => self.branch(*yes),
                Val::Bool(false) => self.branch(*no),
                _ => Err(Fault::no_overload()),
            },
        }?;
        if attr.steps.is_empty() {
            return Ok(value);
        }
        let mut is_optional = false;
        if let Val::Optional(inner) = &value {
            let Some(inner) = inner else { return Ok(value) };
            is_optional = true;
            value = (**inner).clone();
        }
        for step in &attr.steps {
            is_optional |= matches!(
                step,
                Step::Key { is_optional: true, .. } | Step::Computed { is_optional: true, .. }
            );
            let found = match step {
                Step::Key { key, .. } => {
                    let found = member(&value, key);
                    if !is_optional || matches!(found, Ok(Some(_))) {
                        self.charge(1)?;
                    }
                    found
                }
                Step::Computed { key, .. } => {
                    let program = self.program;
                    let is_attr = matches!(program.op(*key), Op::Attr(Attr { base, .. }) if !matches!(base, Base::Choice { .. }));
                    let key = self.keep(*key)?;
                    let found = key.and_then(|key| member(&value, &key).map(|found| (found, key)));
                    if !is_attr && (!is_optional || matches!(found, Ok((Some(_), _)))) {
                        self.charge(1)?;
                    }
                    match found? {
                        (None, key) if !is_optional => return Err(missing(&value, &key)),
                        (found, _) => Ok(found),
                    }
                }
                Step::Test(key) => {
                    let found = test(&value, key);
                    self.charge(1)?;
                    let found = found?;
                    if is_optional {
                        return Ok(Val::Optional(found.then(|| Arc::new(Val::Bool(true)))));
                    }
                    return Ok(Val::Bool(found));
                }
            };
            match found? {
                Some(found) => value = found,
                None if is_optional => return Ok(Val::Optional(None)),
                None => {
                    let key = match step {
                        Step::Key { key, .. } => key.clone(),
                        _ => Val::Null,
                    };
                    return Err(missing(&value, &key));
                }
            }
        }
        Ok(if is_optional { Val::some(value) } else { value })
    }

    fn fold(&mut self, fold: &'a Fold) -> Result<Val<'a>> {
        self.set(fold.accu, Slot::Later(fold.init));
        match self.eval(fold.range)? {
            Val::List(list) => {
                for at in 0..list.len() {
                    let Some(item) = list.get(at) else { break };
                    if let Some(var2) = fold.var2 {
                        self.set(fold.var, Slot::Value(Ok(Val::Int(at as i64))));
                        self.set(var2, Slot::Value(item));
                    } else {
                        self.set(fold.var, Slot::Value(item));
                    }
                    if !self.turn(fold)? {
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
                    if !self.turn(fold)? {
                        break;
                    }
                }
            }
            other => {
                return Err(Fault::error(format!("got '{}', expected iterable type", other.type_name())));
            }
        }
        self.eval(fold.result)
    }

    /// Whether to go on.
    fn turn(&mut self, fold: &'a Fold) -> Result<bool> {
        self.meter.step(1)?;
        if let Ok(Val::Bool(false)) = self.keep(fold.condition)? {
            return Ok(false);
        }
        let value = self.keep(fold.step)?;
        self.set(fold.accu, Slot::Value(value));
        Ok(true)
    }

    fn call(&mut self, call: &'a Call) -> Result<Val<'a>> {
        // A list that grows: taken out of its place, so that it is not copied each time.
        if call.function == "_+_"
            && let [accu, element] = call.args.as_slice()
            && let Op::Attr(Attr { base: Base::Slot(slot), steps, .. }) = self.program.op(*accu)
            && steps.is_empty()
            && let Op::List(_) = self.program.op(*element)
        {
            let accu_value = self.keep(*accu)?;
            let more = self.keep(*element)?;
            self.charge(1)?;
            let is_accu = matches!(self.slots.get(*slot), Some(Slot::Value(Ok(Val::List(_)))));
            if is_accu && let (Ok(Val::List(_)), Ok(Val::List(more))) = (&accu_value, &more) {
                let more: Vec<Val<'a>> = more.iter().collect::<Result<_>>()?;
                drop(accu_value);
                return Ok(self.extended(*slot, more));
            }
            let (accu_value, more) = (accu_value?, more?);
            return functions::call(call.function, &[accu_value, more], None, &self.meter);
        }
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            let value = self.keep(*arg)?;
            // With more than two, and with a pattern, the first fault ends it.
            if (call.args.len() > 2 || call.pattern.is_some())
                && value.is_err()
                && args.len() + 1 < call.args.len()
            {
                return value;
            }
            args.push(value);
        }
        if call.function == "@not_strictly_false" {
            self.charge(1)?;
            return Ok(match args.into_iter().next() {
                Some(Ok(Val::Bool(value))) => Val::Bool(value),
                _ => Val::Bool(true),
            });
        }
        let compared = match call.overload {
            "list_distinct" => args.first(),
            overload if overload.ends_with("_sort") => args.first(),
            overload if overload.ends_with("AssociatedKeys") => args.get(1),
            _ => None,
        };
        if compared.is_some_and(Result::is_err) {
            return Err(Fault::Internal);
        }
        let values: Result<Vec<Val<'a>>> = args.iter().cloned().collect();
        let result = match values {
            Ok(values)
                if call.function == "sum"
                    && matches!(values.first(), Some(Val::List(list)) if list.len() == 0) =>
            {
                // The sum of nothing is of the type that the list would have.
                Ok(match call.overload {
                    "list_uint_sum_uint" => Val::Uint(0),
                    "list_double_sum_double" => Val::Double(0.0),
                    "list_duration_sum_duration" => Val::Duration(0),
                    _ => Val::Int(0),
                })
            }
            Ok(values) => {
                let known = functions::known_cost(call.function, call.overload, &values);
                if self.cost.saturating_add(known) > PER_CALL {
                    return self.charge(known).and(Err(Fault::Limit));
                }
                let result = functions::call(call.function, &values, call.pattern.as_ref(), &self.meter);
                match result {
                    Err(Fault::Error(_)) if call.pattern.is_some() => Err(Fault::no_overload()),
                    result => result,
                }
            }
            Err(fault) => Err(fault),
        };
        if matches!(result, Err(Fault::Limit)) {
            return result;
        }
        let cost = functions::cost(call.function, call.overload, &args, &result, &self.meter)?;
        self.charge(cost)?;
        result
    }

    /// The list of a place, with more at its end; the place is left empty, since what comes of it goes there.
    fn extended(&mut self, slot: usize, more: Vec<Val<'a>>) -> Val<'a> {
        let Some(place) = self.slots.get_mut(slot) else { return Val::list(more) };
        let taken = std::mem::replace(place, Slot::Unset);
        let Slot::Value(Ok(Val::List(mut list))) = taken else { return Val::list(more) };
        if let Items::Made(items) = &mut list.items {
            Arc::make_mut(items).extend(more);
            return Val::List(list);
        }
        let mut items: Vec<Val<'a>> = list.iter().flatten().collect();
        items.extend(more);
        Val::List(List { items: Items::Made(Arc::new(items)), kind: list.kind })
    }
}

fn missing_key(key: &Val<'_>) -> Fault {
    Fault::error(format!("no such key: {key}"))
}

fn missing(of: &Val<'_>, key: &Val<'_>) -> Fault {
    match of {
        Val::List(_) => Fault::error(format!("index out of bounds: {key}")),
        _ => missing_key(key),
    }
}

fn index(key: &Val<'_>) -> Result<i64> {
    match key {
        Val::Int(at) => Ok(*at),
        Val::Uint(at) => {
            i64::try_from(*at).map_err(|_| Fault::error(format!("unsupported index value {at} in list")))
        }
        Val::Double(at) if at.fract() == 0.0 && at.abs() < 9e18 => Ok(*at as i64),
        Val::Double(_) => Err(Fault::error(format!("unsupported index value {key} in list"))),
        _ => Err(Fault::error(format!("unsupported index type '{}' in list", key.type_name()))),
    }
}

/// A member of a map, or an element of a list.
pub(crate) fn member<'a>(of: &Val<'a>, key: &Val<'_>) -> Result<Option<Val<'a>>> {
    match of {
        Val::Map(map) => map.find(key),
        Val::List(list) => {
            let at = index(key)?;
            let Some(found) = usize::try_from(at).ok().and_then(|at| list.get(at)) else { return Ok(None) };
            if matches!(list.items, Items::Raw(..)) && !matches!(key, Val::Int(_)) {
                return Err(Fault::error(format!("unsupported index: {key}")));
            }
            found.map(Some)
        }
        _ => Ok(None),
    }
}

fn test(of: &Val<'_>, key: &Val<'_>) -> Result<bool> {
    match of {
        Val::List(_) => index(key).map(|_| false),
        other => member(other, key).map(|found| found.is_some()),
    }
}
