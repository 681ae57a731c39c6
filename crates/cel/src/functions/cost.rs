//! Runtime costs of calls: the formula is selected by function and overload when a program is planned.

use super::Function;
use crate::budget::{Budget, Result};
use crate::value::{Data, Val};

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;

/// Cost formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cost {
    One,
    /// For a list as long as the result.
    ResultingList,
    Flatten,
    /// A depth below zero wraps around, as upstream.
    FlattenTo,
    /// Each element of this argument is compared with all others.
    Compared(usize),
    Sets(u64),
    /// Traverses the first argument.
    Traversal,
    First(f64),
    Joined,
    Pattern,
    ContainsIp {
        is_text: bool,
    },
    ContainsCidr {
        is_text: bool,
    },
    Validate,
    Equal,
    /// The shorter of two strings.
    Shorter,
    Concatenated,
    Contains,
    Second,
}

impl Cost {
    /// Formula of a call; the overload is empty if several are possible.
    pub(crate) fn of(function: Function, overload: &str) -> Self {
        use Function as F;
        match overload {
            "list_slice" | "lists_range" | "list_reverse" => return Self::ResultingList,
            "list_flatten" => return Self::Flatten,
            "list_flatten_int" => return Self::FlattenTo,
            "list_distinct" => return Self::Compared(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => return Self::Sets(1),
            "list_sets_equivalent_list" => return Self::Sets(2),
            overload if overload.ends_with("_sort") => return Self::Compared(0),
            overload if overload.ends_with("AssociatedKeys") => return Self::Compared(1),
            _ => {}
        }
        let is_text = overload.ends_with("_string");
        match function {
            F::IsSorted | F::Sum | F::Max | F::Min | F::IndexOf | F::LastIndexOf => Self::Traversal,
            F::Url
            | F::LowerAscii
            | F::UpperAscii
            | F::Substring
            | F::Trim
            | F::Cidr
            | F::IsIp
            | F::IsCidr
            | F::Quantity
            | F::IsQuantity
            | F::Semver
            | F::IsSemver => Self::First(TRAVERSAL),
            F::Replace | F::Split | F::IpIsCanonical => Self::First(2.0 * TRAVERSAL),
            F::Join => Self::Joined,
            F::Find | F::FindAll => Self::Pattern,
            F::Ip if overload == "cidr_ip" => Self::One,
            F::Ip => Self::First(TRAVERSAL),
            F::ContainsIp => Self::ContainsIp { is_text },
            F::ContainsCidr => Self::ContainsCidr { is_text },
            F::Validate => Self::Validate,
            F::Equal => Self::Equal,
            _ => match overload {
                "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
                | "strings_quote" | "string_format" => Self::First(TRAVERSAL),
                "in_list" => Self::Second,
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "not_equals" => Self::Shorter,
                "add_string" | "add_bytes" => Self::Concatenated,
                "matches_string" => Self::Pattern,
                "contains_string" => Self::Contains,
                _ => Self::One,
            },
        }
    }

    /// Cost of a call.
    pub(crate) fn charge<'a, D: Data<'a>>(
        self,
        args: &[Result<Val<'a, D>>],
        result: &Result<Val<'a, D>>,
        budget: &Budget,
    ) -> Result<u64> {
        let of = |at: usize| args.get(at).map_or(1, size);
        let list_call = |factor: f64, size: u64| ((size as f64 * factor) as i64 as u64).wrapping_add(11);
        let is_error = args.iter().any(Result::is_err);
        Ok(match self {
            Self::ResultingList => list_call(1.0, size(result)),
            Self::Flatten => list_call(1.0, of(0)),
            Self::FlattenTo => {
                let depth = match args.get(1) {
                    Some(Ok(Val::Int(depth))) => *depth as f64,
                    _ => 1.0,
                };
                list_call(depth, of(0))
            }
            Self::Compared(_) if is_error => 1,
            Self::Compared(at) => {
                let first = match args.get(at) {
                    Some(Ok(Val::List(list))) => list.get(0).and_then(Result::ok),
                    _ => None,
                };
                let is_text = matches!(first, Some(Val::Text(_) | Val::Bytes(_)));
                let size = of(at);
                list_call(if is_text { 2.0 + TRAVERSAL } else { 2.0 }, size.saturating_mul(size))
            }
            Self::Sets(factor) => 1 + of(0).saturating_mul(of(1)).saturating_mul(factor),
            Self::Traversal => match args.first() {
                Some(Ok(value)) => value.traversal(budget)?,
                _ => 1,
            },
            Self::First(factor) => scaled(of(0), factor),
            Self::Joined => scaled(size(result), 2.0 * TRAVERSAL),
            Self::Pattern => matched(of(0)).saturating_mul(scaled(of(1), REGEX)),
            Self::ContainsIp { is_text } => {
                scaled(2 * of(0), TRAVERSAL) + if is_text { scaled(of(1), TRAVERSAL) } else { 0 }
            }
            Self::ContainsCidr { is_text } => {
                let cost = scaled(2 * of(0), TRAVERSAL) + scaled(of(0), TRAVERSAL) + 1;
                cost + if is_text { scaled(of(1), TRAVERSAL) } else { 0 }
            }
            Self::Validate => match args.first() {
                Some(Ok(Val::Format(format))) => matched(of(1)).saturating_mul(scaled(format.pattern, REGEX)),
                _ => 1,
            },
            Self::Equal
                if matches!(
                    args.first(),
                    Some(Ok(Val::Quantity(_)
                        | Val::Ip(_)
                        | Val::Cidr(..)
                        | Val::Format(_)
                        | Val::Url(_)
                        | Val::Semver(_)))
                ) =>
            {
                1
            }
            Self::Equal | Self::Shorter => scaled(of(0).min(of(1)), TRAVERSAL),
            Self::Concatenated => scaled(of(0).saturating_add(of(1)), TRAVERSAL),
            Self::Contains => scaled(of(0), TRAVERSAL).saturating_mul(scaled(of(1), TRAVERSAL)),
            Self::Second => of(1),
            Self::One => 1,
        })
    }
}

fn size<'a, D: Data<'a>>(value: &Result<Val<'a, D>>) -> u64 {
    match value {
        Ok(Val::Optional(Some(inner))) => size(&Ok((**inner).clone())),
        Ok(value) => value.size().unwrap_or(1),
        Err(_) => 1,
    }
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// Cost of matching a pattern against a string.
fn matched(size: u64) -> u64 {
    ((1.0 + size as f64) * TRAVERSAL).ceil() as u64
}

/// Minimum cost of a call, where it is known in advance, so that calls over the limit use neither time nor memory.
pub(crate) fn min_cost<'a, D: Data<'a>>(function: Function, cost: Cost, args: &[Val<'a, D>]) -> u64 {
    use Function as F;
    let length = |at: usize| args.get(at).and_then(Val::size).unwrap_or(1);
    match function {
        F::ListsRange => match args.first() {
            Some(Val::Int(count)) => ((*count).max(0) as u64).saturating_add(11),
            _ => 0,
        },
        F::Distinct | F::Sort => length(0).saturating_mul(length(0)).saturating_mul(2),
        F::SortByKeys => length(1).saturating_mul(length(1)).saturating_mul(2),
        F::SetsContains | F::SetsIntersects | F::SetsEquivalent => length(0).saturating_mul(length(1)),
        F::Matches | F::Find | F::FindAll if cost == Cost::Pattern => {
            scaled(length(0), TRAVERSAL).saturating_mul(scaled(length(1), REGEX))
        }
        _ => 0,
    }
}
