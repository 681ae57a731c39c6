//! Type checker: assigns a type to each node of an expression. A port of cel-go's checker.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Ast, Comprehension, Id, Issue, Kind, Literal, NOWHERE, Name};
use crate::functions::check_format;
use crate::library::{self, Overload};
use crate::parser;
use crate::pattern::{Limits, Pattern};
use crate::schema::{Declared, escape};
use crate::time;
use crate::types::{Bindings, Type, most_general};

/// A type-checked expression.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) ast: Ast,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    pub(crate) uses_old_self: bool,
}

impl Checked {
    pub(crate) fn type_of(&self, id: Id) -> &Type {
        self.types.get(id as usize).unwrap_or(&Type::Dyn)
    }

    /// Possible overloads of a call.
    pub(crate) fn overloads(&self, id: Id) -> &[&'static str] {
        self.overloads.get(id as usize).map_or(&[], Vec::as_slice)
    }
}

/// Declarations available to an expression.
pub(crate) struct Scope<'d> {
    pub(crate) self_: &'d Declared,
    /// `oldSelf` is optional.
    pub(crate) optional_old: bool,
}

pub(crate) fn check(source: &str, scope: &Scope<'_>) -> Result<Checked, Vec<Issue>> {
    let ast = parser::parse(source)?;
    let mut objects = BTreeMap::new();
    scope.self_.collect(&mut objects);
    let nodes = ast.len();
    let self_ = scope.self_.type_.clone();
    let old = if scope.optional_old { Type::optional(self_.clone()) } else { self_.clone() };
    let mut checker = Checker {
        root: ast.root,
        ast,
        types: vec![None; nodes],
        overloads: vec![Vec::new(); nodes],
        bindings: Bindings::default(),
        issues: Vec::new(),
        objects,
        variables: vec![("self".into(), self_), ("oldSelf".into(), old)],
        uses_old_self: false,
    };
    checker.check(checker.root);
    if checker.bindings.is_exhausted() {
        checker.issues.push(Issue { at: NOWHERE, message: "the types are too complex".to_owned() });
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let Checker { ast, types, overloads, mut bindings, uses_old_self, .. } = checker;
    let types = types.into_iter();
    let types =
        types.map(|type_| type_.map_or(Type::Dyn, |type_| bindings.substitute(&type_, true))).collect();
    if bindings.is_exhausted() {
        return Err(vec![Issue { at: NOWHERE, message: "the types are too complex".to_owned() }]);
    }
    let checked = Checked { ast, types, overloads, uses_old_self };
    let issues = validate(&checked);
    if issues.is_empty() { Ok(checked) } else { Err(issues) }
}

struct Checker<'d> {
    ast: Ast,
    root: Id,
    types: Vec<Option<Type>>,
    overloads: Vec<Vec<&'static str>>,
    bindings: Bindings,
    issues: Vec<Issue>,
    objects: BTreeMap<&'d str, &'d Declared>,
    /// Innermost scope last.
    variables: Vec<(Arc<str>, Type)>,
    uses_old_self: bool,
}

impl Checker<'_> {
    fn issue(&mut self, id: Id, message: String) {
        self.issues.push(Issue { at: self.ast.at(id), message });
    }

    fn set(&mut self, id: Id, type_: Type) {
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = Some(type_);
        }
    }

    fn get(&self, id: Id) -> Type {
        self.types.get(id as usize).cloned().flatten().unwrap_or(Type::Error)
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.issue(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn check(&mut self, id: Id) {
        match self.ast.kind(id).clone() {
            Kind::Unspecified => self.set(id, Type::Error),
            Kind::Literal(literal) => self.set(
                id,
                match literal {
                    Literal::Null => Type::Null,
                    Literal::Bool(_) => Type::Bool,
                    Literal::Int(_) => Type::Int,
                    Literal::Uint(_) => Type::Uint,
                    Literal::Double(_) => Type::Double,
                    Literal::Text(_) => Type::String,
                    Literal::Bytes(_) => Type::Bytes,
                },
            ),
            Kind::Ident(name) => match self.lookup(&name) {
                Some((name, type_)) => {
                    self.ast.set(id, Kind::Ident(name));
                    self.set(id, type_);
                }
                None => self.undeclared(id, &name),
            },
            Kind::Select { operand, field, is_test } => {
                if !is_test
                    && let Some(name) = self.ast.qualified_name(id)
                    && let Some((name, type_)) = self.lookup(&name)
                {
                    self.ast.set(id, Kind::Ident(name));
                    self.set(id, type_);
                    return;
                }
                let found = self.select(id, operand, &field, false);
                let found = if is_test { Type::Bool } else { found };
                let found = self.bindings.substitute(&found, false);
                self.set(id, found);
            }
            Kind::Call { function, target, args } => self.call(id, &function, target, &args),
            Kind::List { elements, optional } => {
                let mut joined = None;
                for (element, is_optional) in elements.iter().zip(optional) {
                    self.check(*element);
                    let type_ = self.get(*element);
                    let type_ = self.unwrapped(*element, type_, is_optional);
                    joined = Some(self.join(joined, &type_));
                }
                let joined = joined.unwrap_or_else(|| Type::Var(self.bindings.fresh()));
                self.set(id, Type::list(joined));
            }
            Kind::Map { entries } => {
                let (mut keys, mut values) = (None, None);
                for entry in &entries {
                    self.check(entry.key);
                    let key = self.get(entry.key);
                    keys = Some(self.join(keys, &key));
                    self.check(entry.value);
                    let value = self.get(entry.value);
                    let value = self.unwrapped(entry.value, value, entry.is_optional);
                    values = Some(self.join(values, &value));
                }
                let key = keys.unwrap_or_else(|| Type::Var(self.bindings.fresh()));
                let value = values.unwrap_or_else(|| Type::Var(self.bindings.fresh()));
                self.set(id, Type::map(key, value));
            }
            Kind::Struct { name, fields } => {
                // No message types exist.
                match self.lookup(&name) {
                    None => self.undeclared(id, &name),
                    Some((name, Type::Kind(_))) => {
                        self.issue(id, format!("'{name}' is not a message type"));
                        self.set(id, Type::Error);
                    }
                    Some((_, other)) => {
                        self.issue(id, format!("'{other}' is not a type"));
                        self.set(id, Type::Error);
                    }
                }
                fields.iter().for_each(|field| self.check(field.value));
            }
            Kind::Comprehension(each) => self.comprehension(id, &each),
        }
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.issue(id, format!("undeclared reference to '{name}' (in container '')"));
        self.set(id, Type::Error);
    }

    fn lookup(&mut self, name: &str) -> Option<(Arc<str>, Type)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((at, (known, type_))) =
            self.variables.iter().enumerate().rev().find(|(_, (known, _))| &**known == name)
        {
            self.uses_old_self |= at == 1;
            return Some((Arc::clone(known), type_.clone()));
        }
        library::type_named(name).map(|type_| (name.into(), type_))
    }

    fn unwrapped(&mut self, id: Id, type_: Type, is_optional: bool) -> Type {
        if !is_optional {
            return type_;
        }
        let (inner, was_optional) = type_.unwrap_optional();
        if !was_optional && !type_.is_dyn() {
            self.mismatch(id, &Type::optional(inner.clone()), &inner);
        }
        inner
    }

    fn join(&mut self, previous: Option<Type>, current: &Type) -> Type {
        let Some(previous) = previous else { return current.clone() };
        if self.bindings.assignable(&previous, current) {
            return most_general(&previous, current);
        }
        // Differing types are reported at the end, except in format strings.
        Type::Dyn
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, is_optional: bool) -> Type {
        self.check(operand);
        let type_ = self.get(operand);
        let type_ = self.bindings.substitute(&type_, false);
        let (target, was_optional) = type_.unwrap_optional();
        let found = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Struct(name) => match self.objects.get(&**name) {
                None => {
                    self.issue(id, format!("unexpected failed resolution of '{name}'"));
                    Type::Error
                }
                Some(object) => match field_of(object, field) {
                    Some(field) => field.type_.clone(),
                    None => {
                        self.issue(id, format!("undefined field '{field}'"));
                        Type::Error
                    }
                },
            },
            Type::Var(_) => {
                self.bindings.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.issue(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if was_optional || is_optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) {
        if let ("_?._", [operand, key]) = (function, args) {
            let field = match self.ast.literal(*key) {
                Some(Literal::Text(text)) => Arc::clone(text),
                _ => return,
            };
            self.set(*key, Type::String);
            let found = self.select(id, *operand, &field, true);
            let found = self.bindings.substitute(&found, false);
            self.set(id, found);
            if let Some(overloads) = self.overloads.get_mut(id as usize) {
                *overloads = vec!["select_optional_field"];
            }
            return;
        }
        args.iter().for_each(|arg| self.check(*arg));
        let Some(receiver) = target else {
            let plain = function.strip_prefix('.').unwrap_or(function);
            let Some((name, overloads)) = library::function(plain) else {
                return self.undeclared(id, function);
            };
            self.ast.set(id, Kind::Call { function: Name::Known(name), target: None, args: args.to_vec() });
            return self.resolve(id, name, overloads, None, args);
        };
        if let Some(prefix) = self.ast.qualified_name(receiver) {
            let full = format!("{prefix}.{function}");
            if let Some((name, overloads)) = library::function(full.strip_prefix('.').unwrap_or(&full)) {
                self.ast
                    .set(id, Kind::Call { function: Name::Known(name), target: None, args: args.to_vec() });
                return self.resolve(id, name, overloads, None, args);
            }
        }
        self.check(receiver);
        match library::function(function) {
            Some((name, overloads)) => self.resolve(id, name, overloads, target, args),
            None => self.undeclared(id, function),
        }
    }

    fn resolve(
        &mut self,
        id: Id,
        name: &'static str,
        overloads: &'static [Overload],
        target: Option<Id>,
        args: &[Id],
    ) {
        let given: Vec<Type> = target.iter().chain(args).map(|arg| self.get(*arg)).collect();
        if matches!(name, "_&&_" | "_||_") {
            let mut fits = true;
            for (arg, type_) in args.iter().zip(&given) {
                if !self.bindings.assignable(type_, &Type::Bool) {
                    self.mismatch(*arg, &Type::Bool, type_);
                    fits = false;
                }
            }
            self.found(
                id,
                if fits { Type::Bool } else { Type::Error },
                overloads.iter().map(|o| o.id).collect(),
            );
            return;
        }
        let (mut result, mut matching) = (None, Vec::new());
        for overload in overloads {
            if overload.is_member != target.is_some() || overload.args.len() != given.len() {
                continue;
            }
            let mut params = Vec::new();
            overload.args.iter().chain([&overload.result]).for_each(|type_| type_.params(&mut params));
            let vars: BTreeMap<_, _> =
                params.into_iter().map(|param| (param, self.bindings.fresh())).collect();
            let wanted: Vec<Type> = overload.args.iter().map(|type_| type_.instantiate(&vars)).collect();
            if !self.bindings.all_assignable(&given, &wanted) {
                continue;
            }
            matching.push(overload.id);
            let found = self.bindings.substitute(&overload.result.instantiate(&vars), false);
            result = match result {
                None => Some(found),
                Some(known) if known == Type::Dyn || known == found => Some(known),
                Some(_) => Some(Type::Dyn),
            };
        }
        match result {
            Some(result) => self.found(id, result, matching),
            None => {
                let shown: Vec<String> =
                    given.iter().map(|type_| self.bindings.substitute(type_, true).to_string()).collect();
                let signature = match (target, shown.split_first()) {
                    (Some(_), Some((target, args))) => format!("{target}.({})", args.join(", ")),
                    _ => format!("({})", shown.join(", ")),
                };
                self.issue(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
                self.set(id, Type::Error);
            }
        }
    }

    fn found(&mut self, id: Id, type_: Type, overloads: Vec<&'static str>) {
        self.set(id, type_);
        if let Some(slot) = self.overloads.get_mut(id as usize) {
            *slot = overloads;
        }
    }

    fn comprehension(&mut self, id: Id, each: &Comprehension) {
        self.check(each.range);
        self.check(each.init);
        let range = self.get(each.range);
        let range = self.bindings.substitute(&range, false);
        let accu = self.get(each.init);
        let outside = self.variables.len();
        self.variables.push((Arc::clone(&each.accu), accu.clone()));
        let (var, var2) = match &range {
            Type::List(of) if each.var2.is_some() => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issue(each.range, message);
                (Type::Error, Type::Error)
            }
        };
        self.variables.push((Arc::clone(&each.var), var));
        if let Some(name) = &each.var2 {
            self.variables.push((Arc::clone(name), var2));
        }
        self.check(each.condition);
        self.assert(each.condition, &Type::Bool);
        self.check(each.step);
        self.assert(each.step, &accu);
        self.variables.truncate(outside + 1);
        self.check(each.result);
        self.variables.truncate(outside);
        let result = self.get(each.result);
        let result = self.bindings.substitute(&result, false);
        self.set(id, result);
    }

    fn assert(&mut self, id: Id, wanted: &Type) {
        let found = self.get(id);
        if !self.bindings.assignable(wanted, &found) {
            self.mismatch(id, wanted, &found);
        }
    }
}

/// Type of a field, by its name in rules: reserved words need no escape.
fn field_of<'d>(object: &'d Declared, name: &str) -> Option<&'d Arc<Declared>> {
    let is_word =
        || escape(name).is_some_and(|escaped| escaped.len() == name.len() + 4 && escaped.starts_with("__"));
    object.fields.get(name).or_else(|| object.fields.get(&format!("__{name}__")).filter(|_| is_word()))
}

/// Checks beyond types: literals that no function can parse, and heterogeneous lists.
fn validate(checked: &Checked) -> Vec<Issue> {
    let ast = &checked.ast;
    let mut nodes = vec![(ast.root, false)];
    let (mut found, mut literals) = (Vec::new(), Vec::new());
    while let Some((id, in_format)) = nodes.pop() {
        found.push(id);
        if !in_format {
            literals.push(id);
        }
        let in_format =
            in_format || matches!(ast.kind(id), Kind::Call { function, .. } if &**function == "format");
        nodes.extend(ast.children(id).into_iter().rev().map(|child| (child, in_format)));
    }
    let mut issues = Vec::new();
    for id in &found {
        if let Kind::Call { function, args, .. } = ast.kind(*id)
            && let Some(arg) = args.first()
            && let Some(literal) = ast.literal(*arg)
        {
            let is_bad = match (&**function, literal) {
                ("duration", Literal::Text(text)) => settled_go::duration::parse(text).is_err(),
                ("timestamp", Literal::Text(text)) => time::parse_timestamp(text).is_none(),
                ("timestamp", Literal::Int(seconds)) => !time::in_range(*seconds),
                ("matches", Literal::Text(text)) => Pattern::new(text, Limits::Costs).is_err(),
                _ => false,
            };
            if is_bad {
                issues.push(Issue { at: ast.at(*arg), message: format!("invalid {} argument", &**function) });
            }
        }
    }
    for id in &found {
        if let Kind::Call { function, target: Some(target), args } = ast.kind(*id)
            && &**function == "format"
            && let (Some(Literal::Text(template)), [list]) = (ast.literal(*target), args.as_slice())
            && let Kind::List { elements, .. } = ast.kind(*list)
        {
            let types: Vec<&Type> = elements.iter().map(|element| checked.type_of(*element)).collect();
            if let Err((at, message)) = check_format(template, &types) {
                let place = at.and_then(|at| elements.get(at)).unwrap_or(id);
                issues.push(Issue { at: ast.at(*place), message });
            }
        }
    }
    for id in &literals {
        if let Kind::List { elements, optional } = ast.kind(*id) {
            let mut known: Option<Type> = None;
            for (element, is_optional) in elements.iter().zip(optional) {
                let mut type_ = checked.type_of(*element).clone();
                if *is_optional {
                    type_ = type_.unwrap_optional().0;
                }
                match &known {
                    None => known = Some(type_),
                    Some(known) if *known == type_ => {}
                    Some(known) => {
                        let message = format!("expected type '{known}' but found '{type_}'");
                        issues.push(Issue { at: ast.at(*element), message });
                        break;
                    }
                }
            }
        }
    }
    for id in &literals {
        if let Kind::Map { entries } = ast.kind(*id) {
            let mut known: Option<(Type, Type)> = None;
            for entry in entries {
                let key = checked.type_of(entry.key).clone();
                let mut value = checked.type_of(entry.value).clone();
                if entry.is_optional {
                    value = value.unwrap_optional().0;
                }
                let Some((keys, values)) = &known else {
                    known = Some((key, value));
                    continue;
                };
                for (id, known, type_) in [(entry.key, keys, key), (entry.value, values, value)] {
                    if *known != type_ {
                        let message = format!("expected type '{known}' but found '{type_}'");
                        issues.push(Issue { at: ast.at(id), message });
                    }
                }
            }
        }
    }
    issues
}
