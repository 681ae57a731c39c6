//! Functions of CEL, of Kubernetes' libraries and of verdict rules. Calls are resolved when a program is planned.

mod cost;
mod extra;
mod format;
mod kubernetes;
mod list;
mod operator;
mod text;

use std::sync::Arc;

use crate::budget::{Budget, Fault, Result};
use crate::pattern::Pattern;
use crate::value::{Data, Val};

pub(crate) use cost::{Cost, min_cost};
pub(crate) use format::check as check_format;
pub(crate) use operator::arithmetic;

macro_rules! functions {
    ($($variant:ident $name:literal,)*) => {
        /// A function with all its overloads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Function {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Function {
            /// Name in the table of functions.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// All functions, by index.
            const ALL: &[Self] = &[$(Self::$variant),*];
        }
    };
}

/// Hash table of function names with linear probing: indexes counted from 1, 0 for an empty slot. See [`slot`].
static SLOTS: [u8; 512] = {
    let mut slots = [0u8; 512];
    let mut at = 0;
    while at < Function::COUNT {
        let mut slot = slot(Function::ALL[at].name().as_bytes());
        while slots[slot] != 0 {
            slot = (slot + 1) % slots.len();
        }
        at += 1;
        slots[slot] = at as u8;
    }
    slots
};

/// Hash of a name: its length and three bytes.
const fn slot(name: &[u8]) -> usize {
    if name.is_empty() {
        return 0;
    }
    let (first, middle, last) =
        (name[0] as usize, name[name.len() / 2] as usize, name[name.len() - 1] as usize);
    (name.len() * 67 + first * 31 + middle * 7 + last * 139) % 512
}

#[rustfmt::skip]
functions! {
    // Only in verdict rules.
    Default "default", IsTrue "isTrue", IsFalse "isFalse", IsUnknown "isUnknown", Condition "condition",
    ReasonOf "reasonOf", MessageOf "messageOf", Lags "lags", Worst "worst", Observed "observed", AtLeast "atLeast",
    Ratio "ratio", SecondsSince "secondsSince", Base64Decode "base64.decode", Base64Encode "base64.encode",
    MathAbs "math.abs", MathCeil "math.ceil", MathFloor "math.floor", MathGreatest "math.greatest",
    MathIsFinite "math.isFinite", MathIsInf "math.isInf", MathIsNan "math.isNaN", MathLeast "math.least",
    MathRound "math.round", MathSign "math.sign", MathSqrt "math.sqrt", MathTrunc "math.trunc",
    // In CRD rules and verdict rules.
    Not "!_", Negate "-_", In "@in", NotStrictlyFalse "@not_strictly_false", SortByKeys "@sortByAssociatedKeys",
    Unequal "_!=_", Remainder "_%_", And "_&&_", Multiply "_*_", Add "_+_", Subtract "_-_", Divide "_/_", LessOrEqual
    "_<=_", Less "_<_", Equal "_==_", GreaterOrEqual "_>=_", Greater "_>_", OptSelect "_?._", Choice "_?_:_", OptIndex
    "_[?_]", Index "_[_]", Or "_||_", AddQuantity "add", Allowed "allowed", AsApproximateFloat "asApproximateFloat",
    AsInteger "asInteger", Bool "bool", Bytes "bytes", MapInsert "cel.@mapInsert", CharAt "charAt", Check "check",
    Cidr "cidr", CompareTo "compareTo", Contains "contains", ContainsCidr "containsCIDR", ContainsIp "containsIP",
    Distinct "distinct", Double "double", Duration "duration", Dyn "dyn", EndsWith "endsWith", Error "error", Errored
    "errored", Family "family", FieldSelector "fieldSelector", Find "find", FindAll "findAll", First "first", Flatten
    "flatten", Format "format", FormatByte "format.byte", FormatDate "format.date", FormatDatetime "format.datetime",
    FormatDns1035Label "format.dns1035Label", FormatDns1035LabelPrefix "format.dns1035LabelPrefix", FormatDns1123Label
    "format.dns1123Label", FormatDns1123LabelPrefix "format.dns1123LabelPrefix", FormatDns1123Subdomain
    "format.dns1123Subdomain", FormatDns1123SubdomainPrefix "format.dns1123SubdomainPrefix", FormatLabelValue
    "format.labelValue", FormatNamed "format.named", FormatQualifiedName "format.qualifiedName", FormatUri
    "format.uri", FormatUuid "format.uuid", GetDate "getDate", GetDayOfMonth "getDayOfMonth", GetDayOfWeek
    "getDayOfWeek", GetDayOfYear "getDayOfYear", GetEscapedPath "getEscapedPath", GetFullYear "getFullYear", GetHost
    "getHost", GetHostname "getHostname", GetHours "getHours", GetMilliseconds "getMilliseconds", GetMinutes
    "getMinutes", GetMonth "getMonth", GetPort "getPort", GetQuery "getQuery", GetScheme "getScheme", GetSeconds
    "getSeconds", Group "group", HasValue "hasValue", IndexOf "indexOf", Int "int", Ip "ip", IpIsCanonical
    "ip.isCanonical", IsCidr "isCIDR", IsGlobalUnicast "isGlobalUnicast", IsGreaterThan "isGreaterThan", IsIp "isIP",
    IsInteger "isInteger", IsLessThan "isLessThan", IsLinkLocalMulticast "isLinkLocalMulticast", IsLinkLocalUnicast
    "isLinkLocalUnicast", IsLoopback "isLoopback", IsQuantity "isQuantity", IsSemver "isSemver", IsSorted "isSorted",
    IsUrl "isURL", IsUnspecified "isUnspecified", Join "join", LabelSelector "labelSelector", Last "last", LastIndexOf
    "lastIndexOf", ListsRange "lists.range", LowerAscii "lowerAscii", Major "major", Masked "masked", Matches
    "matches", Max "max", Min "min", Minor "minor", Name "name", Namespace "namespace", OptionalNone "optional.none",
    OptionalOf "optional.of", OptionalOfNonZeroValue "optional.ofNonZeroValue", OptionalUnwrap "optional.unwrap",
    OptionalOr "or", OptionalOrValue "orValue", Patch "patch", Path "path", PrefixLength "prefixLength", Quantity
    "quantity", Reason "reason", Replace "replace", Resource "resource", Reverse "reverse", Semver "semver",
    ServiceAccount "serviceAccount", SetsContains "sets.contains", SetsEquivalent "sets.equivalent", SetsIntersects
    "sets.intersects", Sign "sign", Size "size", Slice "slice", Sort "sort", Split "split", StartsWith "startsWith",
    String "string", StringsQuote "strings.quote", SubQuantity "sub", Subresource "subresource", Substring
    "substring", Sum "sum", Timestamp "timestamp", Trim "trim", Type "type", Uint "uint", UnwrapOpt "unwrapOpt",
    UpperAscii "upperAscii", Url "url", Validate "validate", Value "value",
}

impl Function {
    /// Number of functions, less than 256.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Looks up a function by name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut slot = slot(name.as_bytes());
        loop {
            let number = usize::from(*SLOTS.get(slot)?).checked_sub(1)?;
            let found = *Self::ALL.get(number)?;
            if found.name() == name {
                return Some(found);
            }
            slot = (slot + 1) % SLOTS.len();
        }
    }

    /// As [`named`](Self::named), for tables that the compiler computes: the name stands between two offsets of a text.
    pub(crate) const fn of_bytes(text: &[u8], start: usize, end: usize) -> Option<Self> {
        let mut index = 0;
        while index < Self::COUNT {
            let name = Self::ALL[index].name().as_bytes();
            let mut length = 0;
            while length < name.len() && start + length < end && text[start + length] == name[length] {
                length += 1;
            }
            if length == name.len() && start + length == end {
                return Some(Self::ALL[index]);
            }
            index += 1;
        }
        None
    }

    /// Whether it is a type conversion or a type name.
    pub(crate) const fn is_conversion(self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::Bytes
                | Self::Double
                | Self::Dyn
                | Self::Duration
                | Self::Int
                | Self::String
                | Self::Timestamp
                | Self::Type
                | Self::Uint
        )
    }

    /// Whether it depends on the scope: conditions and generation of the object, or the time.
    #[must_use]
    pub const fn is_scoped(self) -> bool {
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
}

/// What is known about a call before its arguments are evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'c> {
    pub(crate) function: Function,
    /// A compiled literal pattern.
    pub(crate) pattern: Option<&'c Pattern>,
    pub(crate) budget: &'c Budget,
}

fn fail<T>(text: impl Into<Arc<str>>) -> Result<T> {
    Err(Fault::error(text))
}

/// Error: no overload for these types.
pub(crate) fn no_matching_overload<'a, D: Data<'a>>(function: Function, args: &[Val<'a, D>]) -> Fault {
    if !D::IS_TYPED {
        return no_function_for(function, args);
    }
    use Function as F;
    let has_trait = |val: &Val<'a, D>| match function {
        F::Add => {
            matches!(
                val,
                Val::Bytes(_)
                    | Val::Double(_)
                    | Val::Duration(_)
                    | Val::Int(_)
                    | Val::List(_)
                    | Val::Text(_)
                    | Val::Timestamp(_)
                    | Val::Uint(_)
            )
        }
        F::Subtract => {
            matches!(val, Val::Double(_) | Val::Duration(_) | Val::Int(_) | Val::Timestamp(_) | Val::Uint(_))
        }
        F::Multiply | F::Divide => matches!(val, Val::Double(_) | Val::Int(_) | Val::Uint(_)),
        F::Remainder => matches!(val, Val::Int(_) | Val::Uint(_)),
        F::Less | F::LessOrEqual | F::Greater | F::GreaterOrEqual => val.order(val).is_ok(),
        F::In => true,
        _ => false,
    };
    let receives = |val: &Val<'a, D>| matches!(val, Val::Text(_) | Val::Duration(_) | Val::Timestamp(_));
    match function {
        F::Add
        | F::Subtract
        | F::Multiply
        | F::Divide
        | F::Remainder
        | F::Less
        | F::LessOrEqual
        | F::Greater
        | F::GreaterOrEqual
        | F::In
        | F::Not
        | F::Negate
        | F::Size => {
            if args.first().is_some_and(|first| has_trait(first) || receives(first)) {
                Fault::no_overload()
            } else {
                Fault::error(format!("no such overload: {}", function.name()))
            }
        }
        F::Contains | F::StartsWith | F::EndsWith | F::Matches => Fault::no_overload(),
        _ => {
            let types: Vec<&str> = args.iter().map(Val::type_name).collect();
            Fault::error(format!("no such overload: {}({})", function.name(), types.join(", ")))
        }
    }
}

/// The same error for expressions without type checking.
fn no_function_for<'a, D: Data<'a>>(function: Function, args: &[Val<'a, D>]) -> Fault {
    use Function as F;
    if let (F::Not, [value]) = (function, args) {
        return no_boolean(value);
    }
    let types: Vec<&str> = args.iter().map(Val::type_name).collect();
    let what = match function {
        F::Less | F::LessOrEqual | F::Greater | F::GreaterOrEqual => "order".to_owned(),
        other => format!("`{}`", other.name().trim_matches(['_', '@'])),
    };
    Fault::error(format!("no {what} for {}", types.join(" and ")))
}

/// Error: a value must be a boolean.
pub(crate) fn no_boolean<'a, D: Data<'a>>(value: &Val<'a, D>) -> Fault {
    if D::IS_TYPED {
        return Fault::no_overload();
    }
    Fault::error(format!("expected true or false, found {}", value.type_name()))
}

/// Calls the function.
pub(crate) fn call<'a, D: Data<'a>>(context: Context<'_>, args: &[Val<'a, D>]) -> Result<Val<'a, D>> {
    use Function as F;
    let found = match context.function {
        F::Add | F::Subtract | F::Multiply | F::Divide | F::Remainder => match args {
            [a, b] => Some(arithmetic(context.function, a, b, context.budget)?),
            _ => None,
        },
        F::Less | F::LessOrEqual | F::Greater | F::GreaterOrEqual | F::Not | F::Negate | F::In | F::Size => {
            operator::call(context, args)?
        }
        function if function.is_conversion() => match args {
            [value] => Some(operator::convert(context.function, value)?),
            _ => None,
        },
        F::OptionalOf
        | F::OptionalOfNonZeroValue
        | F::OptionalNone
        | F::HasValue
        | F::Value
        | F::UnwrapOpt
        | F::OptionalUnwrap => operator::optional(context.function, args)?,
        F::Contains
        | F::StartsWith
        | F::EndsWith
        | F::Matches
        | F::CharAt
        | F::LowerAscii
        | F::UpperAscii
        | F::Trim
        | F::Replace
        | F::Split
        | F::Substring
        | F::Join
        | F::StringsQuote
        | F::Format
        | F::Find
        | F::FindAll => text::call(context, args)?,
        F::Base64Decode
        | F::Base64Encode
        | F::MathAbs
        | F::MathCeil
        | F::MathFloor
        | F::MathGreatest
        | F::MathIsFinite
        | F::MathIsInf
        | F::MathIsNan
        | F::MathLeast
        | F::MathRound
        | F::MathSign
        | F::MathSqrt
        | F::MathTrunc => extra::call(context.function, args)?,
        F::Reverse if matches!(args, [Val::Text(_)]) && !D::IS_TYPED => extra::call(context.function, args)?,
        F::IndexOf | F::LastIndexOf => match args {
            [Val::Text(_), ..] => text::call(context, args)?,
            _ => list::call(context, args)?,
        },
        F::IsSorted
        | F::Sum
        | F::Min
        | F::Max
        | F::First
        | F::Last
        | F::Slice
        | F::Flatten
        | F::Reverse
        | F::Distinct
        | F::Sort
        | F::SortByKeys
        | F::ListsRange
        | F::SetsContains
        | F::SetsEquivalent
        | F::SetsIntersects
        | F::MapInsert => list::call(context, args)?,
        _ => kubernetes::call(context.function, args)?,
    };
    found.ok_or_else(|| no_matching_overload(context.function, args))
}
