//! The functions of expressions: those run here, and those of the Kubernetes libraries.

use std::cell::RefCell;

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::{KubeCelExt, cel};
use settled_go::regexp;

use super::fuel::{Fault, Fuel};
use super::value::Val;

/// A function that is run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    // For rules.
    Default,
    IsTrue,
    IsFalse,
    IsUnknown,
    Condition,
    ReasonOf,
    MessageOf,
    Lags,
    Worst,
    Observed,
    AtLeast,
    Ratio,
    SecondsSince,
    // CEL's own.
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    String,
    Int,
    Double,
    Type,
    Dyn,
    OptionalOf,
    OptionalNone,
    OptionalOfNonZero,
    OrValue,
    Or,
    HasValue,
    Value,
    // Of the libraries of Kubernetes, the two that rules use most.
    LowerAscii,
    Join,
}

/// How a function is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// As `f(x)` with so many arguments at least and at most.
    global: Option<(usize, usize)>,
    /// As `x.f(y)`.
    method: Option<(usize, usize)>,
    pub(crate) usage: &'static str,
}

impl Shape {
    pub(crate) fn fits(&self, is_method: bool, args: usize) -> bool {
        let range = if is_method { self.method } else { self.global };
        range.is_some_and(|(least, most)| (least..=most).contains(&args))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Native(Native, Shape),
    Library,
}

const fn global(args: usize, usage: &'static str) -> Shape {
    Shape { global: Some((args, args)), method: None, usage }
}

const fn method(args: usize, usage: &'static str) -> Shape {
    Shape { global: None, method: Some((args, args)), usage }
}

/// A function of a condition: `f('T')`, or `list.f('T')`.
const fn condition(usage: &'static str) -> Shape {
    Shape { global: Some((1, 1)), method: Some((1, 1)), usage }
}

/// Functions run here, by name.
static NATIVE: &[(&str, Native, Shape)] = &[
    ("default", Native::Default, global(2, "default(x, y)")),
    ("isTrue", Native::IsTrue, condition("isTrue('Type') or conditions.isTrue('Type')")),
    ("isFalse", Native::IsFalse, condition("isFalse('Type') or conditions.isFalse('Type')")),
    ("isUnknown", Native::IsUnknown, condition("isUnknown('Type') or conditions.isUnknown('Type')")),
    ("condition", Native::Condition, condition("condition('Type') or conditions.condition('Type')")),
    ("reasonOf", Native::ReasonOf, condition("reasonOf('Type') or conditions.reasonOf('Type')")),
    ("messageOf", Native::MessageOf, condition("messageOf('Type') or conditions.messageOf('Type')")),
    ("lags", Native::Lags, condition("lags('Type') or conditions.lags('Type')")),
    ("worst", Native::Worst, condition("worst(['Type', 'Type']) or conditions.worst(['Type', 'Type'])")),
    ("observed", Native::Observed, global(0, "observed()")),
    ("atLeast", Native::AtLeast, global(2, "atLeast(have, want)")),
    ("ratio", Native::Ratio, global(2, "ratio(have, want)")),
    ("secondsSince", Native::SecondsSince, global(1, "secondsSince(time)")),
    (
        "size",
        Native::Size,
        Shape { global: Some((1, 1)), method: Some((0, 0)), usage: "size(x) or x.size()" },
    ),
    ("contains", Native::Contains, method(1, "text.contains(part)")),
    ("startsWith", Native::StartsWith, method(1, "text.startsWith(part)")),
    ("endsWith", Native::EndsWith, method(1, "text.endsWith(part)")),
    (
        "matches",
        Native::Matches,
        Shape { global: Some((2, 2)), method: Some((1, 1)), usage: "text.matches(pattern)" },
    ),
    ("string", Native::String, global(1, "string(x)")),
    ("int", Native::Int, global(1, "int(x)")),
    ("double", Native::Double, global(1, "double(x)")),
    ("type", Native::Type, global(1, "type(x)")),
    ("dyn", Native::Dyn, global(1, "dyn(x)")),
    ("optional.of", Native::OptionalOf, global(1, "optional.of(x)")),
    ("optional.none", Native::OptionalNone, global(0, "optional.none()")),
    ("optional.ofNonZeroValue", Native::OptionalOfNonZero, global(1, "optional.ofNonZeroValue(x)")),
    ("orValue", Native::OrValue, method(1, "optional.orValue(x)")),
    ("or", Native::Or, method(1, "optional.or(optional)")),
    ("hasValue", Native::HasValue, method(0, "optional.hasValue()")),
    ("value", Native::Value, method(0, "optional.value()")),
    ("lowerAscii", Native::LowerAscii, method(0, "text.lowerAscii()")),
    (
        "join",
        Native::Join,
        Shape { global: None, method: Some((0, 1)), usage: "list.join() or list.join(separator)" },
    ),
];

/// Functions of CEL's and Kubernetes' libraries that `kube-cel` runs.
#[rustfmt::skip]
static LIBRARY: &[&str] = &[
    "asApproximateFloat", "asInteger", "add", "base64.decode", "base64.encode", "charAt", "cidr", "compareTo",
    "containsCIDR", "containsIP", "distinct", "duration", "family", "find", "findAll", "first", "flatten", "format",
    "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getEscapedPath", "getFullYear", "getHost",
    "getHostname", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getPort", "getQuery", "getScheme",
    "getSeconds", "indexOf", "ip", "ip.isCanonical", "isCIDR", "isGlobalUnicast", "isGreaterThan", "isIP",
    "isInteger", "isLessThan", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isQuantity", "isSemver",
    "isSorted", "isURL", "isUnspecified", "last", "lastIndexOf", "lists.range", "major", "masked", "math.abs",
    "math.ceil", "math.floor", "math.greatest", "math.isFinite", "math.isInf", "math.isNaN", "math.least",
    "math.round", "math.sign", "math.sqrt", "math.trunc", "max", "min", "minor", "patch", "prefixLength", "quantity",
    "replace", "reverse", "semver", "sets.contains", "sets.equivalent", "sets.intersects", "sign", "slice", "sort",
    "split", "strings.quote", "sub", "substring", "sum", "timestamp", "trim", "uint", "upperAscii", "url",
];

impl Function {
    pub(crate) fn find(name: &str) -> Option<Self> {
        if let Some((_, function, shape)) = NATIVE.iter().find(|(known, ..)| *known == name) {
            return Some(Self::Native(*function, *shape));
        }
        LIBRARY.contains(&name).then_some(Self::Library)
    }

    /// A function whose name differs in little.
    pub(crate) fn near(name: &str) -> Option<&'static str> {
        let names = NATIVE.iter().map(|(name, ..)| *name).chain(LIBRARY.iter().copied());
        // Of a short name little is left where two letters are others.
        let most = 2.min(name.len().div_ceil(3));
        names
            .map(|known| (distance(known, name), known))
            .filter(|(d, _)| *d <= most)
            .min()
            .map(|(_, known)| known)
    }
}

impl Native {
    /// Whether it belongs to rules rather than to CEL: an explanation names what it gave.
    pub(crate) fn is_of_rules(self) -> bool {
        matches!(
            self,
            Self::IsTrue
                | Self::IsFalse
                | Self::IsUnknown
                | Self::Condition
                | Self::ReasonOf
                | Self::MessageOf
                | Self::Lags
                | Self::Worst
                | Self::Observed
                | Self::AtLeast
                | Self::Ratio
                | Self::SecondsSince
        )
    }

    pub(crate) fn name(self) -> &'static str {
        NATIVE.iter().find(|(_, function, _)| *function == self).map_or("?", |(name, ..)| name)
    }
}

/// How many letters must change to make one name of the other; case counts nothing.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let here = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], here);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// A pattern of `matches`, of bounded size.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) source: Box<str>,
    pub(crate) regex: regex::Regex,
    is_large: bool,
}

impl Pattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        const SMALL: usize = 16 * 1024;
        const LARGE: usize = 128 * 1024;
        let translated = regexp::translate(pattern).map_err(|error| error.to_string())?;
        let build = |limit| regex::RegexBuilder::new(&translated).size_limit(limit).build();
        let (built, is_large) = match build(SMALL) {
            Err(regex::Error::CompiledTooBig(_)) => (build(LARGE), true),
            built => (built, false),
        };
        // Go's syntax is valid now, but groups may nest too deeply for the engine.
        let regex = built.map_err(|_| "the pattern is too large".to_owned())?;
        Ok(Self { source: pattern.into(), regex, is_large })
    }

    /// The steps of matching a text. At worst a byte takes as long as the pattern is large.
    pub(crate) fn steps(&self, text: &str) -> usize {
        if self.is_large { text.len().saturating_mul(4) } else { text.len() / 2 }
    }
}

/// The names that a call of a library uses for what it is given.
const ARGS: [&str; 8] = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"];

/// The syntax tree of a call whose arguments are variables.
pub(crate) fn library(name: &str, space: Option<&IdedExpr>, is_method: bool, count: usize) -> IdedExpr {
    let ident = |index: usize| IdedExpr {
        id: 0,
        expr: Expr::Ident(ARGS.get(index).copied().unwrap_or("a8").to_owned()),
    };
    let target = match space {
        Some(space) => Some(Box::new(space.clone())),
        None => is_method.then(|| Box::new(ident(0))),
    };
    let args = (usize::from(is_method)..count).map(ident).collect();
    let call = CallExpr { func_name: name.strip_prefix('.').unwrap_or(name).to_owned(), target, args };
    IdedExpr { id: 0, expr: Expr::Call(call) }
}

thread_local! {
    /// Making it takes as long as some dozens of verdicts.
    static LIBRARIES: RefCell<Option<cel::Context<'static>>> = const { RefCell::new(None) };
}

/// Calls a function of a library.
pub(crate) fn call_library<'a>(
    name: &str,
    call: &IdedExpr,
    args: &[Val<'a>],
    fuel: &Fuel,
) -> Result<Val<'a>, Fault> {
    check_args(name, args, fuel)?;
    let values: Result<Vec<cel::Value>, Fault> = args.iter().map(|arg| arg.foreign(fuel)).collect();
    let mut values = values?;
    // The library compiles patterns as they are given to it.
    if let ("find" | "findAll", Some(source), Some(pattern)) =
        (name, args.get(1).and_then(Val::as_str), values.get_mut(1))
        && let Ok(translated) = regexp::translate(&source)
    {
        *pattern = cel::Value::String(translated.into());
    }
    LIBRARIES.with_borrow_mut(|context| {
        let context = context.get_or_insert_with(|| cel::Context::default().with_all());
        let mut scope = context.new_inner_scope();
        for (name, value) in ARGS.iter().zip(values) {
            scope.add_variable_from_value(*name, value);
        }
        let value = cel::Value::resolve(call, &scope).map_err(|error| {
            // Some errors print the values they are about, which may be secret or long.
            use cel::ExecutionError as E;
            let what = match error {
                E::FunctionError { message, .. } if message.len() < 200 => message,
                E::NoSuchOverload | E::UnexpectedType { .. } | E::UnsupportedTargetType { .. } => {
                    "no such function for values of these types".to_owned()
                }
                E::InvalidArgumentCount { expected, actual } => {
                    format!("expected {expected} arguments, got {actual}")
                }
                _ => "it can't be applied to these values".to_owned(),
            };
            Fault::error(format!("{name}: {what}"))
        })?;
        let value = Val::native(value).ok_or_else(|| Fault::error(format!("{name}: gave no value")))?;
        charge(&value, fuel)?;
        Ok(value)
    })
}

/// The libraries have no budget: what they are given is bounded so that a call takes a few milliseconds at most.
fn check_args(name: &str, args: &[Val<'_>], fuel: &Fuel) -> Result<(), Fault> {
    const LONGEST: usize = 256 * 1024;
    const PRODUCT: usize = 4 << 20;
    const ELEMENTS: usize = 1000;
    let too_large = |what: &str| Err(Fault::error(format!("{name}: {what}")));
    if args.len() > ARGS.len() {
        return too_large("more than 8 arguments");
    }
    let (mut longest, mut second) = (0, 0);
    for arg in args {
        fuel.steps(arg.cost())?;
        let size = match arg.as_str() {
            Some(text) => text.len(),
            None if arg.is_list() || arg.is_map() => {
                let elements = arg.iterate().into_iter().flatten().take(ELEMENTS + 1).count();
                if elements > ELEMENTS {
                    return too_large("a list or map of more than 1000 elements");
                }
                elements
            }
            None => 1,
        };
        if size > longest {
            (longest, second) = (size, longest);
        } else {
            second = second.max(size);
        }
    }
    if longest > LONGEST || longest.saturating_mul(second) > PRODUCT {
        return too_large("the texts are too long");
    }
    fuel.steps(20 + longest / 16 + longest * second / 256)?;
    match name {
        "lists.range" if args.first().and_then(Val::as_int).is_some_and(|n| n > ELEMENTS as i64) => {
            too_large("a list of more than 1000 elements")
        }
        "format" => {
            // `%.999999999f` would write as many digits.
            let text = args.first().and_then(Val::as_str).unwrap_or_default();
            let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or_default();
            if digits > 3 { too_large("a precision of more than 3 digits") } else { Ok(()) }
        }
        "quantity" | "isQuantity" => {
            let text = args.first().and_then(Val::as_str).unwrap_or_default();
            if is_in_range(&text) {
                Ok(())
            } else {
                too_large("the number is too large, or finer than a billionth")
            }
        }
        "sum" => {
            // The library wraps around, or panics in a debug build.
            let (mut ints, mut uints) = (Some(0i64), Some(0u64));
            for value in args.first().and_then(Val::iterate).into_iter().flatten() {
                match value.plain() {
                    Val::Int(value) => ints = ints.and_then(|sum| sum.checked_add(value)),
                    Val::Uint(value) => uints = uints.and_then(|sum| sum.checked_add(value)),
                    _ => {}
                }
            }
            if ints.is_none() || uints.is_none() { too_large("the sum is too large") } else { Ok(()) }
        }
        "find" | "findAll" => {
            // A pattern may take a while to compile. The library bounds it much less.
            fuel.steps(2000)?;
            let source = args.get(1).and_then(Val::as_str).unwrap_or_default();
            let pattern = Pattern::new(&source).map_err(|error| Fault::error(format!("{name}: {error}")))?;
            fuel.steps(pattern.steps(&args.first().and_then(Val::as_str).unwrap_or_default()))
        }
        _ => Ok(()),
    }
}

/// Whether the library can compare and add a quantity: in 128 bits, which it does not check.
fn is_in_range(quantity: &str) -> bool {
    const FINEST: i32 = -9;
    const LARGEST: i32 = 26;
    let number = quantity.trim_start_matches(['+', '-']);
    let (digits, suffix) =
        number.split_at(number.find(|char: char| !matches!(char, '0'..='9' | '.')).unwrap_or(number.len()));
    let count = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX / 2);
    let fraction = digits.split_once('.').map_or(0, |(_, fraction)| count(fraction));
    let (scale, more) = match suffix {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 4),
        "Mi" => (0, 7),
        "Gi" => (0, 10),
        "Ti" => (0, 13),
        "Pi" => (0, 16),
        "Ei" => (0, 19),
        suffix => match suffix.strip_prefix(['e', 'E']) {
            // What is no number is the library's to refuse.
            Some(exponent) if count(exponent) > 5 => return false,
            Some(exponent) => (exponent.parse().unwrap_or(0), 0),
            None => (0, 0),
        },
    };
    let finest = scale - fraction;
    finest >= FINEST && count(digits) + more + finest <= LARGEST
}

/// Takes what a value occupies from the room that is left.
fn charge(value: &Val<'_>, fuel: &Fuel) -> Result<(), Fault> {
    match value {
        Val::Text(text) => fuel.allocate(32 + text.len()),
        Val::List(list) => list.iter().try_for_each(|value| charge(value, fuel)),
        Val::Map(map) => map.iter().try_for_each(|(_, value)| charge(value, fuel)),
        _ => fuel.allocate(32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_function_is_there() {
        let context = cel::Context::default().with_all();
        for name in LIBRARY {
            let (space, name) =
                name.split_once('.').map_or((None, *name), |(space, name)| (Some(space), name));
            let space = space.map(|space| IdedExpr { id: 0, expr: Expr::Ident(space.to_owned()) });
            let result = cel::Value::resolve(&library(name, space.as_ref(), false, 0), &context);
            let missing = matches!(&result, Err(cel::ExecutionError::UndeclaredReference(_)));
            assert!(!missing, "{name}: {result:?}");
        }
    }
}
