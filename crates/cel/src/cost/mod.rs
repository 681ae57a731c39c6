//! Cost estimation: a port of cel-go's, with Kubernetes' library functions.

mod calls;
mod range;
mod sizes;

use std::sync::Arc;

use crate::ast::{ACCU, Comprehension, Id, Kind, Literal};
use crate::checker::Checked;
use crate::cost::calls::{CallCost, LIST};
use crate::cost::range::Range;
use crate::cost::sizes::{Coster, EntrySize, Local};
use crate::schema::Declared;
use crate::types::Type;

const MAP: u64 = 30;
const STRUCT: u64 = 40;

/// The maximum cost of an expression.
pub(crate) fn estimate(checked: &Checked, root: &Declared) -> Range {
    Coster::new(checked, root).cost(checked.ast.root)
}

impl Coster<'_> {
    fn cost(&mut self, id: Id) -> Range {
        match self.ast().kind(id) {
            Kind::Unspecified | Kind::Literal(_) => Range::ZERO,
            Kind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![Arc::clone(name)],
                };
                self.paths.insert(id, path);
                Range::ONE
            }
            Kind::Select { operand, field, is_test } => {
                let cost = self.cost(*operand);
                if *is_test {
                    return cost;
                }
                let is_step = matches!(
                    self.type_of(*operand),
                    Type::Map(..) | Type::Struct(_) | Type::Var(_) | Type::Param(_)
                );
                let mut path = self.path(*operand);
                path.push(Arc::clone(field));
                self.paths.insert(id, path);
                if is_step { cost.add(Range::ONE) } else { cost }
            }
            Kind::Call { function, target, args } => self.call(id, function, *target, args),
            Kind::List { elements, .. } => {
                let mut cost = Range::ZERO;
                let mut size =
                    if elements.is_empty() { Range::ZERO } else { Range { min: u64::MAX, max: 0 } };
                for element in elements {
                    cost = cost.add(self.cost(*element));
                    size = size.union(self.size_or_unknown(*element));
                }
                self.entries.insert(id, EntrySize { is_list: true, key: Range::ONE, value: size });
                cost.add(Range::fixed(LIST))
            }
            Kind::Map { entries } => {
                let none = if entries.is_empty() { Range::ZERO } else { Range { min: u64::MAX, max: 0 } };
                let (mut cost, mut key, mut value) = (Range::ZERO, none, none);
                for entry in entries {
                    cost = cost.add(self.cost(entry.key));
                    cost = cost.add(self.cost(entry.value));
                    key = key.union(self.size_or_unknown(entry.key));
                    value = value.union(self.size_or_unknown(entry.value));
                }
                self.entries.insert(id, EntrySize { is_list: false, key, value });
                cost.add(Range::fixed(MAP))
            }
            Kind::Struct { fields, .. } => {
                let costs = fields.iter().map(|field| self.cost(field.value));
                costs.fold(Range::ZERO, Range::add).add(Range::fixed(STRUCT))
            }
            Kind::Comprehension(each) => self.comprehension(id, each),
        }
    }

    fn comprehension(&mut self, id: Id, each: &Comprehension) -> Range {
        let mut cost = self.cost(each.range).add(self.cost(each.init));
        let range_is_empty =
            matches!(self.ast().kind(each.range), Kind::List { elements, .. } if elements.is_empty());
        let is_bind = range_is_empty
            && self.ast().literal(each.condition) == Some(&Literal::Bool(false))
            && &*each.accu != ACCU;
        let accu =
            Local { path: self.path(each.init), size: self.size(each.init), entry: self.entry(each.init) };
        self.push(&each.accu, accu);
        if is_bind {
            cost = cost.add(self.cost(each.result));
            self.pop(&each.accu);
            self.copy_sizes(id, each.result);
            return cost;
        }

        let entry = self.entry(each.range);
        let is_list =
            entry.map_or_else(|| matches!(self.type_of(each.range), Type::List(_)), |entry| entry.is_list);
        let path = self.path(each.range);
        let local = |suffix: &str, size: Option<Range>| {
            let mut path = path.clone();
            path.push(suffix.into());
            Local { path, size, entry: None }
        };
        let (key, value) = (entry.map(|entry| entry.key), entry.map(|entry| entry.value));
        match &each.var2 {
            Some(var2) => {
                let key = local(if is_list { "@indices" } else { "@keys" }, key);
                let value = local(if is_list { "@items" } else { "@values" }, value);
                self.push(&each.var, key);
                self.push(var2, value);
            }
            None if is_list => {
                let item = local("@items", value);
                self.push(&each.var, item);
            }
            None => {
                let key = local("@keys", key);
                self.push(&each.var, key);
            }
        }
        let turn = self.cost(each.condition);
        let turn = self.cost(each.step).add(turn);
        self.pop(&each.var);
        if let Some(var2) = &each.var2 {
            self.pop(var2);
        }
        cost = cost.add(self.cost(each.result));
        self.pop(&each.accu);

        let count = self.size_or_unknown(each.range);
        cost = cost.add(count.times(turn));
        match self.ast().kind(each.init) {
            Kind::Literal(_) => {
                let size = self.size(each.init);
                self.set_size(id, size);
            }
            Kind::List { .. } | Kind::Map { .. } => {
                self.set_size(id, Some(count));
                if let Some(entry) = self.entry(each.step) {
                    self.entries.insert(id, entry);
                }
            }
            _ => {}
        }
        cost
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Range {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(*arg);
            self.copy_sizes(id, *arg);
            return cost.add(Range::ONE);
        }
        let mut costs = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(*arg));
            self.size(*arg);
        }
        let overloads = self.checked.overloads(id);
        if overloads.is_empty() {
            return Range::ZERO;
        }
        let mut total = Range::ZERO;
        if let Some(target) = target {
            total = self.cost(target);
            self.size(target);
        }
        let mut spent = Range { min: u64::MAX, max: 0 };
        let mut result: Option<Range> = None;
        for overload in overloads {
            let CallCost { cost, size } = self.overload(id, function, overload, target, args, &costs);
            spent = spent.union(cost);
            result = match (result, size) {
                (Some(known), Some(size)) => Some(known.union(size)),
                (known, size) => known.or(size),
            };
            let part = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(part), Some(first)) = (part, args.first()) {
                result = self.entry(*first).map(|entry| entry.value);
                let mut path = self.path(*first);
                path.push(part.into());
                self.paths.insert(id, path);
            }
            if result.is_none() {
                result = self.size(id);
            }
        }
        self.set_size(id, result);
        total.add(spent)
    }
}
