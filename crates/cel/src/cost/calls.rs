//! Estimated costs of calls: the standard functions, cel-go's libraries, and those of Kubernetes.

use crate::ast::{Id, Literal};
use crate::cost::range::Range;
use crate::cost::sizes::Coster;
use crate::types::Type;

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;
const NAME_FORMAT_REGEX: f64 = 128.0;
/// Cost of creating a list.
pub(super) const LIST: u64 = 10;

/// Estimated cost of a call, and size of its result.
pub(super) struct CallCost {
    pub(super) cost: Range,
    pub(super) size: Option<Range>,
}

impl CallCost {
    fn of(cost: Range) -> Option<Self> {
        Some(Self { cost, size: None })
    }

    fn sized(cost: Range, size: Range) -> Option<Self> {
        Some(Self { cost, size: Some(size) })
    }
}

impl Coster<'_> {
    /// Estimated cost of one overload, including its arguments.
    pub(super) fn overload(
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
                // As upstream: the product may overflow.
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

    fn literal_count(&self, id: Id, otherwise: u64) -> u64 {
        match self.ast().literal(id) {
            Some(Literal::Int(value)) => (*value).max(0) as u64,
            _ => otherwise,
        }
    }

    /// Libraries of cel-go's `ext`, which have their own estimates.
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

    /// Kubernetes' libraries.
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

/// Maximum length of a string after replacements.
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
