//! Types of expressions, and assignability: a port of the unification of cel-go's checker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type of CEL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Result of a reported error.
    Error,
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Self>),
    Map(Arc<Self>, Arc<Self>),
    /// Type of types.
    Kind(Option<Arc<Self>>),
    /// `optional_type(T)`, `net.IP` and the like.
    Opaque(Arc<str>, Vec<Self>),
    /// An object with declared fields, or a type of a library.
    Struct(Arc<str>),
    /// Type parameter of a declaration.
    Param(Arc<str>),
    /// Type variable.
    Var(u32),
}

impl Type {
    pub(crate) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn optional(of: Self) -> Self {
        Self::Opaque("optional_type".into(), vec![of])
    }

    /// Element type of an optional.
    pub(crate) fn unwrap_optional(&self) -> (Self, bool) {
        match self {
            Self::Opaque(name, params) if &**name == "optional_type" => match params.as_slice() {
                [of] => (of.clone(), true),
                _ => (Self::Dyn, true),
            },
            other => (other.clone(), false),
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Error)
    }

    fn is_dyn_or_error(&self) -> bool {
        self.is_dyn() || self.is_error()
    }

    /// Parses a type of the function table.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim();
        if let Some((name, rest)) = text.split_once('(') {
            let inner = rest.strip_suffix(')').unwrap_or(rest);
            let params = split_types(inner);
            let mut parsed = params.iter().map(|param| Self::parse(param));
            let mut next = || parsed.next().unwrap_or(Self::Dyn);
            return match name {
                "list" => Self::list(next()),
                "map" => {
                    let key = next();
                    Self::map(key, next())
                }
                "type" => Self::Kind(Some(Arc::new(next()))),
                _ => Self::Opaque(name.into(), vec![next()]),
            };
        }
        match text {
            "dyn" => Self::Dyn,
            "null" => Self::Null,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "duration" => Self::Duration,
            "timestamp" => Self::Timestamp,
            "type" => Self::Kind(None),
            "net.IP" | "net.CIDR" => Self::Opaque(text.into(), Vec::new()),
            name if name.len() == 1 => Self::Param(name.into()),
            name => Self::Struct(name.into()),
        }
    }

    /// Type parameters of a declaration.
    pub(crate) fn params(&self, found: &mut Vec<Arc<str>>) {
        match self {
            Self::Param(name) if !found.contains(name) => found.push(Arc::clone(name)),
            Self::List(of) | Self::Kind(Some(of)) => of.params(found),
            Self::Map(key, value) => {
                key.params(found);
                value.params(found);
            }
            Self::Opaque(_, params) => params.iter().for_each(|param| param.params(found)),
            _ => {}
        }
    }

    /// Replaces type parameters by fresh variables.
    pub(crate) fn instantiate(&self, vars: &BTreeMap<Arc<str>, u32>) -> Self {
        match self {
            Self::Param(name) => vars.get(name).map_or(Self::Dyn, |var| Self::Var(*var)),
            Self::List(of) => Self::list(of.instantiate(vars)),
            Self::Map(key, value) => Self::map(key.instantiate(vars), value.instantiate(vars)),
            Self::Kind(Some(of)) => Self::Kind(Some(Arc::new(of.instantiate(vars)))),
            Self::Opaque(name, params) => {
                Self::Opaque(Arc::clone(name), params.iter().map(|param| param.instantiate(vars)).collect())
            }
            other => other.clone(),
        }
    }

    /// Whether all values of this type have the size one.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Opaque(..) => {
                let (of, is_optional) = self.unwrap_optional();
                is_optional && of.is_scalar()
            }
            _ => false,
        }
    }
}

/// Splits at commas outside of brackets.
pub(crate) fn split_types(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).filter(|last| !last.trim().is_empty()));
    parts
}

/// Formats types as in cel-go's messages.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Kind(None) => f.write_str("type"),
            Self::Kind(Some(of)) => write!(f, "type({of})"),
            Self::Opaque(name, params) => {
                f.write_str(name)?;
                for (at, param) in params.iter().enumerate() {
                    write!(f, "{}{param}", if at == 0 { "(" } else { ", " })?;
                }
                if params.is_empty() { Ok(()) } else { f.write_str(")") }
            }
            Self::Struct(name) | Self::Param(name) => f.write_str(name),
            Self::Var(number) => write!(f, "_var{number}"),
        }
    }
}

/// Substitution of type variables. Failed attempts are rolled back.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    bound: Vec<Option<Type>>,
    trail: Vec<(u32, Option<Type>)>,
    /// Types may share parts, so that traversing them takes exponential time.
    work: usize,
}

/// Limit that realistic expressions do not reach.
const MAX_WORK: usize = 1_000_000;

impl Bindings {
    pub(crate) fn fresh(&mut self) -> u32 {
        self.bound.push(None);
        (self.bound.len() - 1) as u32
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.work > MAX_WORK
    }

    fn find(&self, type_: &Type) -> Option<Type> {
        match type_ {
            Type::Var(var) => self.bound.get(*var as usize)?.clone(),
            _ => None,
        }
    }

    fn bind(&mut self, var: &Type, to: Type) {
        if let Type::Var(number) = var
            && let Some(slot) = self.bound.get_mut(*number as usize)
        {
            self.trail.push((*number, slot.replace(to)));
        }
    }

    /// Replaces bound variables; at the end, others become `dyn`.
    pub(crate) fn substitute(&mut self, type_: &Type, to_dyn: bool) -> Type {
        self.work += 1;
        if self.is_exhausted() {
            return Type::Dyn;
        }
        if let Some(bound) = self.find(type_) {
            return self.substitute(&bound, to_dyn);
        }
        match type_ {
            Type::Var(_) | Type::Param(_) if to_dyn => Type::Dyn,
            Type::List(of) => Type::list(self.substitute(of, to_dyn)),
            Type::Map(key, value) => Type::map(self.substitute(key, to_dyn), self.substitute(value, to_dyn)),
            Type::Kind(Some(of)) => Type::Kind(Some(Arc::new(self.substitute(of, to_dyn)))),
            Type::Opaque(name, params) => {
                let params = params.iter().map(|param| self.substitute(param, to_dyn)).collect();
                Type::Opaque(Arc::clone(name), params)
            }
            other => other.clone(),
        }
    }

    pub(crate) fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        self.all_assignable(std::slice::from_ref(a), std::slice::from_ref(b))
    }

    pub(crate) fn all_assignable(&mut self, a: &[Type], b: &[Type]) -> bool {
        self.trail.clear();
        let fits = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.fits(a, b));
        if !fits {
            while let Some((var, before)) = self.trail.pop() {
                if let Some(slot) = self.bound.get_mut(var as usize) {
                    *slot = before;
                }
            }
        }
        fits
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        self.work += 1;
        if self.is_exhausted() {
            return false;
        }
        if matches!(b, Type::Var(_)) {
            let (valid, has_substitution) = self.valid_substitution(a, b);
            if valid {
                return true;
            }
            if has_substitution {
                return false;
            }
        }
        if matches!(a, Type::Var(_)) {
            return self.valid_substitution(b, a).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(
                    other,
                    Type::Null | Type::Opaque(..) | Type::Struct(_) | Type::Duration | Type::Timestamp
                )
            }
            (Type::Kind(_), Type::Kind(_)) => true,
            (Type::List(a), Type::List(b)) => self.fits(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.fits(ak, bk) && self.fits(av, bv),
            (Type::Opaque(a, ap), Type::Opaque(b, bp)) => {
                a == b && ap.len() == bp.len() && ap.iter().zip(bp).all(|(a, b)| self.fits(a, b))
            }
            (a, b) => a == b,
        }
    }

    fn valid_substitution(&mut self, a: &Type, b: &Type) -> (bool, bool) {
        if a == b {
            return (true, true);
        }
        if let Some(bound) = self.find(b) {
            if *a == bound {
                return (true, true);
            }
            if self.fits(a, &bound) {
                let general = most_general(a, &bound);
                if self.not_within(b, &general) {
                    self.bind(b, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.not_within(b, a) {
            self.bind(b, a.clone());
            return (true, false);
        }
        (false, false)
    }

    fn not_within(&mut self, type_: &Type, within: &Type) -> bool {
        self.work += 1;
        if self.is_exhausted() || type_ == within {
            return false;
        }
        match within {
            Type::Var(_) => match self.find(within) {
                Some(bound) => self.not_within(type_, &bound),
                None => true,
            },
            Type::List(of) | Type::Kind(Some(of)) => self.not_within(type_, of),
            Type::Map(key, value) => self.not_within(type_, key) && self.not_within(type_, value),
            Type::Opaque(_, params) => params.iter().all(|param| self.not_within(type_, param)),
            _ => true,
        }
    }
}

pub(crate) fn most_general(a: &Type, b: &Type) -> Type {
    if equal_or_less_specific(a, b) { a.clone() } else { b.clone() }
}

fn equal_or_less_specific(a: &Type, b: &Type) -> bool {
    if matches!(a, Type::Dyn | Type::Var(_) | Type::Param(_)) {
        return true;
    }
    if matches!(b, Type::Dyn | Type::Var(_) | Type::Param(_)) {
        return false;
    }
    match (a, b) {
        (Type::Opaque(a, ap), Type::Opaque(b, bp)) => {
            a == b && ap.len() == bp.len() && ap.iter().zip(bp).all(|(a, b)| equal_or_less_specific(a, b))
        }
        (Type::List(a), Type::List(b)) => equal_or_less_specific(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => {
            equal_or_less_specific(ak, bk) && equal_or_less_specific(av, bv)
        }
        (Type::Kind(_), Type::Kind(_)) => true,
        (a, b) => a == b,
    }
}
