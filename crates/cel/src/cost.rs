//! How much an expression may cost at most: a port of cel-go's estimate, with the library functions of Kubernetes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Ast, Comprehension, Id, Kind, Literal};
use crate::checker::Checked;
use crate::parser::ACCU;
use crate::schema::Declared;
use crate::types::Type;

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;
const NAME_FORMAT_REGEX: f64 = 128.0;
const LIST: u64 = 10;
const MAP: u64 = 30;
const STRUCT: u64 = 40;

/// From how much to how much: sizes and costs alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Range {
    const ZERO: Self = Self::fixed(0);
    const ONE: Self = Self::fixed(1);
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn factor(self, factor: f64) -> Self {
        let times = |value: u64| {
            let product = (value as f64 * factor).ceil();
            if product >= u64::MAX as f64 { u64::MAX } else { product as u64 }
        };
        Self { min: times(self.min), max: times(self.max) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

#[derive(Clone, Copy)]
struct EntrySize {
    is_list: bool,
    key: Range,
    value: Range,
}

/// The way from a variable to what a node names: persistent, since long chains share their beginnings.
type Path = Vec<Arc<str>>;

#[derive(Clone)]
struct Local {
    path: Path,
    size: Option<Range>,
    entry: Option<EntrySize>,
}

struct Coster<'c> {
    checked: &'c Checked,
    root: &'c Declared,
    paths: HashMap<Id, Path>,
    sizes: HashMap<Id, Range>,
    entries: HashMap<Id, EntrySize>,
    locals: HashMap<Arc<str>, Vec<Local>>,
}

/// The most that an expression may cost.
pub(crate) fn estimate(checked: &Checked, root: &Declared) -> Range {
    let mut coster = Coster {
        checked,
        root,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: HashMap::new(),
    };
    coster.cost(checked.ast.root)
}

struct CallCost {
    cost: Range,
    size: Option<Range>,
}

impl CallCost {
    fn of(cost: Range) -> Option<Self> {
        Some(Self { cost, size: None })
    }

    fn sized(cost: Range, size: Range) -> Option<Self> {
        Some(Self { cost, size: Some(size) })
    }
}

impl<'c> Coster<'c> {
    fn ast(&self) -> &'c Ast {
        &self.checked.ast
    }

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

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn push(&mut self, name: &Arc<str>, local: Local) {
        self.locals.entry(Arc::clone(name)).or_default().push(local);
    }

    fn pop(&mut self, name: &str) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    fn type_of(&self, id: Id) -> &'c Type {
        self.checked.type_of(id)
    }

    fn path(&self, id: Id) -> Path {
        if let Kind::Ident(name) = self.ast().kind(id)
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&id).cloned().unwrap_or_default()
    }

    fn set_size(&mut self, id: Id, size: Option<Range>) {
        if let Some(size) = size {
            self.sizes.insert(id, size);
        }
    }

    fn copy_sizes(&mut self, to: Id, from: Id) {
        let (size, entry) = (self.size(from), self.entry(from));
        self.set_size(to, size);
        if let Some(entry) = entry {
            self.entries.insert(to, entry);
        }
    }

    fn entry(&self, id: Id) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&id) {
            return Some(*entry);
        }
        match self.ast().kind(id) {
            Kind::Ident(name) => self.local(name)?.entry,
            _ => None,
        }
    }

    fn size(&mut self, id: Id) -> Option<Range> {
        if let Some(size) = self.sizes.get(&id) {
            return Some(*size);
        }
        let count = match self.ast().kind(id) {
            Kind::Literal(Literal::Text(text)) => Some(text.chars().count()),
            Kind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Kind::Literal(_) => Some(1),
            Kind::List { elements, .. } => Some(elements.len()),
            Kind::Map { entries } => Some(entries.len()),
            _ => None,
        };
        if let Some(count) = count {
            return Some(Range::fixed(count as u64));
        }
        let path = self.path(id);
        if let Some(size) = self.declared_size(&path) {
            self.sizes.insert(id, size);
            return Some(size);
        }
        if self.type_of(id).is_scalar() {
            return Some(Range::ONE);
        }
        match self.ast().kind(id) {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, id: Id) -> Range {
        self.size(id).unwrap_or(Range::UNKNOWN)
    }

    /// What the schema says about the size.
    fn declared_size(&self, path: &[Arc<str>]) -> Option<Range> {
        let (_, rest) = path.split_first()?;
        let mut declared = self.root;
        for name in rest {
            declared = match &**name {
                "@items" | "@values" => declared.element.as_deref()?,
                "@keys" => declared.key.as_deref()?,
                field => declared.fields.get(field)?,
            };
        }
        Some(Range { min: 0, max: declared.max_elements as u64 })
    }

    /// The path that an estimate may use: none through the variable that collects.
    fn visible_path(&self, id: Id) -> Path {
        let path = self.path(id);
        if path.first().is_some_and(|first| &**first == ACCU || &**first == "@result") {
            Path::new()
        } else {
            path
        }
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

    fn overload(
        &mut self,
        id: Id,
        function: &str,
        overload: &str,
        target: Option<Id>,
        args: &[Id],
        costs: &[Range],
    ) -> CallCost {
        let spent = costs.iter().copied().fold(Range::ZERO, Range::add);
        let known = self
            .extension(overload, target, args)
            .or_else(|| self.kubernetes(function, overload, target, args));
        if let Some(CallCost { cost, size }) = known {
            return CallCost { cost: cost.add(spent), size };
        }
        let found = match (overload, target, args) {
            ("string_format", Some(target), _) => {
                CallCost::of(self.size_or_unknown(target).factor(TRAVERSAL).add(spent))
            }
            ("string_to_bytes", _, [arg]) => {
                let size = self.size_or_unknown(*arg);
                // As upstream: the product may wrap around.
                let result = Range { min: size.min, max: size.max.wrapping_mul(4) };
                CallCost::sized(size.factor(TRAVERSAL).add(spent), result)
            }
            ("bytes_to_string", _, [arg]) => {
                let size = self.size_or_unknown(*arg);
                CallCost::sized(size.factor(TRAVERSAL).add(spent), Range { min: size.min / 4, max: size.max })
            }
            ("strings_quote", _, [arg]) => {
                let size = self.size_or_unknown(*arg);
                let result =
                    Range { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                CallCost::sized(size.factor(TRAVERSAL).add(spent), result)
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => {
                CallCost::of(self.size_or_unknown(*arg).factor(TRAVERSAL).add(spent))
            }
            ("in_list", _, [_, list]) => CallCost::of(self.size_or_unknown(*list).factor(1.0).add(spent)),
            ("matches_string", Some(target), [pattern]) => {
                let text = self.size_or_unknown(target).add(Range::ONE).factor(TRAVERSAL);
                let pattern = self.size_or_unknown(*pattern).factor(REGEX);
                CallCost::of(text.times(pattern).add(spent))
            }
            ("contains_string", Some(target), [part]) => {
                let text = self.size_or_unknown(target).factor(TRAVERSAL);
                let part = self.size_or_unknown(*part).factor(TRAVERSAL);
                CallCost::of(text.times(part).add(spent))
            }
            ("logical_or" | "logical_and", ..) => match costs {
                [a, b] => CallCost::of(Range { min: a.min, max: a.add(*b).max }),
                _ => CallCost::of(spent),
            },
            ("conditional", _, [_, yes, no]) => {
                let size = self.size_or_unknown(*yes).union(self.size_or_unknown(*no));
                self.union_entries(id, *yes, *no);
                match costs {
                    [condition, yes, no] => CallCost::sized(condition.add(yes.union(*no)), size),
                    _ => CallCost::of(spent),
                }
            }
            ("add_string" | "add_bytes" | "add_list", _, [a, b]) => {
                let size = self.size_or_unknown(*a).add(self.size_or_unknown(*b));
                self.union_entries(id, *a, *b);
                let cost = if overload == "add_list" { Range::ONE } else { size.factor(TRAVERSAL) };
                CallCost::sized(cost.add(spent), size)
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [a, b],
            ) => {
                let max = self.size_or_unknown(*a).max.min(self.size_or_unknown(*b).max);
                let size = Range { min: u64::from(max > 0), max };
                CallCost::of(size.factor(TRAVERSAL).add(spent))
            }
            _ => None,
        };
        found.unwrap_or_else(|| CallCost { cost: spent.add(Range::ONE), size: None })
    }

    fn union_entries(&mut self, id: Id, a: Id, b: Id) {
        if let (Some(a), Some(b)) = (self.entry(a), self.entry(b)) {
            let entry =
                EntrySize { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) };
            self.entries.insert(id, entry);
        }
    }

    fn literal_count(&self, id: Id, otherwise: u64) -> u64 {
        match self.ast().literal(id) {
            Some(Literal::Int(value)) => (*value).max(0) as u64,
            _ => otherwise,
        }
    }

    /// The libraries of cel-go's `ext`, which know their costs.
    fn extension(&mut self, overload: &str, target: Option<Id>, args: &[Id]) -> Option<CallCost> {
        let list = |factor: f64, size: Range| {
            CallCost::sized(size.factor(factor).add(Range::ONE).add(Range::fixed(LIST)), size)
        };
        match (overload, target, args) {
            ("list_slice", Some(target), [start, end]) => {
                let size = self.size_or_unknown(target);
                let (start, end) = (self.literal_count(*start, 0), self.literal_count(*end, size.max));
                list(1.0, Range::fixed(end.wrapping_sub(start)))
            }
            ("list_flatten" | "list_flatten_int", Some(target), _) => {
                let depth = args.first().map_or(1, |depth| self.literal_count(*depth, u64::MAX));
                let size = self.size_or_unknown(target);
                list(depth as f64, size)
            }
            ("lists_range", None, [count]) => list(1.0, Range::fixed(self.literal_count(*count, u64::MAX))),
            ("list_reverse", Some(target), []) => {
                let size = self.size_or_unknown(target);
                list(1.0, size)
            }
            ("list_distinct", Some(target), []) => {
                let size = self.size_or_unknown(target);
                list(2.0, size.times(size))
            }
            (overload, Some(target), _)
                if overload.ends_with("_sort") || overload.ends_with("AssociatedKeys") =>
            {
                let by = args.first().copied().unwrap_or(target);
                let is_text = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
                let size = self.size_or_unknown(by);
                list(if is_text { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size))
            }
            (
                "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list",
                None,
                [a, b],
            ) => {
                let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
                let size = self.size_or_unknown(*a).times(self.size_or_unknown(*b));
                CallCost::of(size.factor(factor).add(Range::ONE))
            }
            _ => None,
        }
    }

    /// The type and the size of a list's elements; None for what is no list.
    fn elements(&self, list: Id) -> Option<(Type, Range)> {
        let element = match self.type_of(list) {
            Type::List(of) => (**of).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Opaque(_, params) => params.first()?.clone(),
            _ => return None,
        };
        let mut path = self.visible_path(list);
        if path.is_empty() {
            return Some((element, Range::UNKNOWN));
        }
        path.push("@items".into());
        Some((element, self.declared_size(&path).unwrap_or(Range::UNKNOWN)))
    }

    /// The libraries of Kubernetes.
    fn kubernetes(
        &mut self,
        function: &str,
        overload: &str,
        target: Option<Id>,
        args: &[Id],
    ) -> Option<CallCost> {
        match (function, target, args) {
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                let size = self.size_or_unknown(target);
                match self.elements(target) {
                    Some((type_, element)) => {
                        let mut cost = Range::ONE;
                        if matches!(type_, Type::String | Type::Bytes) {
                            cost = cost.add(element.factor(TRAVERSAL));
                        }
                        CallCost::of(size.times(cost))
                    }
                    None => CallCost::of(size.factor(TRAVERSAL)),
                }
            }
            ("url", _, [arg]) => {
                let size = self.size_or_unknown(*arg);
                CallCost::sized(size.factor(TRAVERSAL), size)
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                let size = self.size_or_unknown(target);
                CallCost::sized(size.factor(TRAVERSAL), size)
            }
            ("replace", Some(target), [from, to, ..]) => {
                let size = self.size_or_unknown(target);
                let (from, to) = (self.size_or_unknown(*from), self.size_or_unknown(*to));
                CallCost::sized(size.factor(2.0 * TRAVERSAL), replaced(size, from, to))
            }
            ("split", Some(target), _) => {
                let size = self.size_or_unknown(target);
                let max = match args.get(1).and_then(|most| self.ast().literal(*most)) {
                    Some(Literal::Int(most)) => *most as u64,
                    _ => size.max,
                };
                CallCost::sized(size.factor(2.0 * TRAVERSAL), Range { min: 0, max })
            }
            ("join", Some(target), _) => {
                let count = self.size_or_unknown(target);
                let mut size = self.elements(target).map_or(Range::ZERO, |(_, element)| count.times(element));
                if let Some(separator) = args.first() {
                    let gaps = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
                    size = size.add(self.size_or_unknown(*separator).times(gaps));
                }
                CallCost::sized(size.factor(TRAVERSAL), size)
            }
            ("find" | "findAll", Some(target), [pattern, ..]) => {
                let size = self.size_or_unknown(target);
                let text = size.add(Range::ONE).factor(TRAVERSAL);
                let pattern = self.size_or_unknown(*pattern).factor(REGEX);
                CallCost::sized(text.times(pattern), Range { min: 0, max: size.max })
            }
            ("ip", _, _) if overload == "cidr_ip" => CallCost::of(Range::ONE),
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                [arg, ..],
            ) => CallCost::of(self.size_or_unknown(*arg).factor(TRAVERSAL)),
            ("ip.isCanonical", _, [arg, ..]) => {
                CallCost::of(self.size_or_unknown(*arg).factor(2.0 * TRAVERSAL))
            }
            ("containsIP" | "containsCIDR", _, [arg, ..]) => {
                let address = Range { min: 4, max: 16 };
                let mut cost = address.add(address).factor(TRAVERSAL);
                if function == "containsCIDR" {
                    cost = cost.add(address.factor(TRAVERSAL)).add(Range::ONE);
                }
                if overload.ends_with("_string") {
                    cost = cost.add(self.size_or_unknown(*arg).factor(TRAVERSAL));
                }
                CallCost::of(cost)
            }
            ("validate", _, [arg, ..]) => {
                let size = self.size_or_unknown(*arg);
                CallCost::of(size.factor(TRAVERSAL).factor(NAME_FORMAT_REGEX * REGEX))
            }
            (
                "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                ..,
            ) => CallCost::of(Range::ONE),
            ("_==_", _, [a, b]) if self.type_of(*a) == self.type_of(*b) => match self.type_of(*a) {
                Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => CallCost::of(Range::ONE),
                Type::Struct(name) => match &**name {
                    "kubernetes.Quantity" | "kubernetes.Semver" => CallCost::of(Range::ONE),
                    "kubernetes.NamedFormat" => CallCost::of(Range { min: 1, max: 64 }.factor(TRAVERSAL)),
                    "kubernetes.URL" => {
                        let max = self.size(*b).map_or(1, |size| size.max);
                        CallCost::of(Range { min: 1, max }.factor(TRAVERSAL))
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}

/// How long a text may be after replacements.
fn replaced(size: Range, from: Range, to: Range) -> Range {
    let (mut count, mut kept) = (Range::ZERO, Range::ZERO);
    if from.min == 0 {
        count.max = size.max.saturating_add(1);
        kept.max = size.max;
    } else if to.max <= from.min {
        kept.max = size.max;
    } else {
        count.max = (size.max as f64 / from.min as f64).ceil() as u64;
    }
    if from.max == 0 {
        count.min = size.min.saturating_add(1);
        kept.min = size.min;
    } else if from.max <= to.min {
        kept.min = size.min;
    } else {
        count.min = (size.min as f64 / from.max as f64).ceil() as u64;
    }
    count.times(to).add(kept)
}
