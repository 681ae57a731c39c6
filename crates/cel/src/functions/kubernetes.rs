//! The libraries of Kubernetes: quantities, versions, addresses, URLs, formats; and the parts of times.

use std::sync::Arc;

use settled_apimachinery::quantity::Amount;

use super::{Function, fail, text};
use crate::budget::{Fault, Result};
use crate::named_format;
use crate::net::{self, Url};
use crate::semver::Semver;
use crate::time::{self, Part};
use crate::value::{Data, Key, Map, Val};

/// Calls a library function; `None` if no overload matches.
pub(super) fn call<'a, D: Data<'a>>(function: Function, args: &[Val<'a, D>]) -> Result<Option<Val<'a, D>>> {
    use Function as F;
    use Val as V;
    Ok(Some(match (function, args) {
        (F::Quantity, [V::Text(text)]) => {
            let amount = Amount::parse(text).map_err(|error| Fault::error(error.to_string()))?;
            V::Quantity(Arc::new(amount))
        }
        (F::IsQuantity, [V::Text(text)]) => V::Bool(Amount::parse(text).is_ok()),
        (F::Sign, [V::Quantity(amount)]) => V::Int(amount.sign().into()),
        (F::IsInteger, [V::Quantity(amount)]) => V::Bool(amount.as_int64().is_some()),
        (F::AsInteger, [V::Quantity(amount)]) => match amount.as_int64() {
            Some(value) => V::Int(value),
            None => return fail("cannot convert value to integer"),
        },
        (F::AsApproximateFloat, [V::Quantity(amount)]) => V::Double(amount.as_approximate_float64()),
        (F::AddQuantity, [V::Quantity(a), V::Quantity(b)]) => V::Quantity(Arc::new(sum(a, b))),
        (F::AddQuantity, [V::Quantity(a), V::Int(b)]) => V::Quantity(Arc::new(sum(a, &Amount::from(*b)))),
        (F::SubQuantity, [V::Quantity(a), V::Quantity(b)]) => V::Quantity(Arc::new(difference(a, b))),
        (F::SubQuantity, [V::Quantity(a), V::Int(b)]) => {
            V::Quantity(Arc::new(difference(a, &Amount::from(*b))))
        }
        (F::IsGreaterThan | F::IsLessThan | F::CompareTo, [a, b]) => {
            let order = match (a, b) {
                (V::Quantity(a), V::Quantity(b)) => a.cmp(b),
                (V::Semver(a), V::Semver(b)) => a.order(b),
                _ => return Ok(None),
            };
            match function {
                F::IsGreaterThan => V::Bool(order.is_gt()),
                F::IsLessThan => V::Bool(order.is_lt()),
                _ => V::Int(order as i64),
            }
        }
        (F::Semver, [V::Text(text), rest @ ..]) | (F::IsSemver, [V::Text(text), rest @ ..]) => {
            let tolerant = matches!(rest, [V::Bool(true)]);
            let parsed = version(text, tolerant);
            if function == F::IsSemver {
                V::Bool(parsed.is_ok())
            } else {
                V::Semver(Arc::new(parsed.map_err(Fault::error)?))
            }
        }
        (F::Major, [V::Semver(version)]) => V::Int(version.major as i64),
        (F::Minor, [V::Semver(version)]) => V::Int(version.minor as i64),
        (F::Patch, [V::Semver(version)]) => V::Int(version.patch as i64),

        (F::Ip, [V::Text(text)]) => V::Ip(net::parse_ip(text).map_err(Fault::error)?),
        (F::Ip, [V::Cidr(address, _)]) => V::Ip(*address),
        (F::IsIp, [V::Text(text)]) => V::Bool(net::parse_ip(text).is_ok()),
        (F::IpIsCanonical, [V::Text(text)]) => {
            V::Bool(net::parse_ip(text).map_err(Fault::error)?.to_string() == **text)
        }
        (F::Family, [V::Ip(address)]) => V::Int(if address.is_ipv4() { 4 } else { 6 }),
        (F::IsUnspecified, [V::Ip(address)]) => V::Bool(address.is_unspecified()),
        (F::IsLoopback, [V::Ip(address)]) => V::Bool(address.is_loopback()),
        (F::IsLinkLocalMulticast, [V::Ip(address)]) => V::Bool(net::is_link_local_multicast(*address)),
        (F::IsLinkLocalUnicast, [V::Ip(address)]) => V::Bool(net::is_link_local_unicast(*address)),
        (F::IsGlobalUnicast, [V::Ip(address)]) => V::Bool(net::is_global_unicast(*address)),
        (F::Cidr, [V::Text(text)]) => {
            let (address, bits) = net::parse_cidr(text).map_err(|error| {
                Fault::error(format!("network address parse error during conversion from string: {error}"))
            })?;
            V::Cidr(address, bits)
        }
        (F::IsCidr, [V::Text(text)]) => V::Bool(net::parse_cidr(text).is_ok()),
        (F::PrefixLength, [V::Cidr(_, bits)]) => V::Int(i64::from(*bits)),
        (F::Masked, [V::Cidr(address, bits)]) => V::Cidr(net::masked(*address, *bits), *bits),
        (F::ContainsIp, [V::Cidr(address, bits), inner]) => {
            let inner = match inner {
                V::Ip(inner) => *inner,
                V::Text(text) => net::parse_ip(text).map_err(|_| Fault::no_overload())?,
                _ => return Ok(None),
            };
            V::Bool(net::contains((*address, *bits), inner))
        }
        (F::ContainsCidr, [V::Cidr(address, bits), inner]) => {
            let (inner, length) = match inner {
                V::Cidr(inner, length) => (*inner, *length),
                V::Text(text) => net::parse_cidr(text).map_err(|error| {
                    Fault::error(format!(
                        "network address parse error during conversion from string: {error}"
                    ))
                })?,
                _ => return Ok(None),
            };
            V::Bool(*bits <= length && net::contains((*address, *bits), inner))
        }

        (F::Url, [V::Text(text)]) => {
            let url = Url::parse(text).map_err(|error| {
                Fault::error(format!("URL parse error during conversion from string: {error}"))
            })?;
            V::Url(Arc::new(url))
        }
        (F::IsUrl, [V::Text(text)]) => V::Bool(settled_go::url::parse_request_uri(text).is_ok()),
        (F::GetScheme, [V::Url(url)]) => V::text(url.scheme.as_str()),
        (F::GetHost, [V::Url(url)]) => V::text(url.host.as_str()),
        (F::GetHostname, [V::Url(url)]) => V::text(url.hostname()),
        (F::GetPort, [V::Url(url)]) => V::text(url.port()),
        (F::GetEscapedPath, [V::Url(url)]) => V::text(url.escaped_path()),
        (F::GetQuery, [V::Url(url)]) => {
            let query = url.query_values().into_iter().map(|(key, values)| {
                let key: Arc<str> = key.into();
                (Key::Text(Arc::clone(&key)), (Val::text(key), text::texts(values)))
            });
            V::Map(Map::made(query.collect()))
        }

        (F::FormatNamed, [V::Text(name)]) => {
            V::Optional(named_format::named(name).map(|found| Arc::new(V::Format(found))))
        }
        (F::Validate, [V::Format(known), V::Text(text)]) => {
            let errors = known.check(text);
            if errors.is_empty() { V::Optional(None) } else { V::some(text::texts(errors)) }
        }
        (function, []) => {
            let name = function.name().strip_prefix("format.").and_then(named_format::named);
            match name {
                Some(found) => V::Format(found),
                None => return Ok(None),
            }
        }
        (F::GetHours, [V::Duration(nanos)]) => V::Int(nanos / 3_600_000_000_000),
        (F::GetMinutes, [V::Duration(nanos)]) => V::Int(nanos / 60_000_000_000),
        (F::GetSeconds, [V::Duration(nanos)]) => V::Int(nanos / 1_000_000_000),
        (F::GetMilliseconds, [V::Duration(nanos)]) => V::Int(nanos / 1_000_000),
        (_, [V::Timestamp(time), rest @ ..]) => {
            let east = match rest {
                [] => 0,
                [V::Text(zone)] => match time::zone(zone) {
                    Some(east) => east,
                    None => return fail(format!("unknown time zone {}", &**zone)),
                },
                _ => return Ok(None),
            };
            match part(function) {
                Some(part) => V::Int(time.part(part, east)),
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    }))
}

fn part(function: Function) -> Option<Part> {
    use Function as F;
    Some(match function {
        F::GetFullYear => Part::FullYear,
        F::GetMonth => Part::Month,
        F::GetDayOfYear => Part::DayOfYear,
        F::GetDate => Part::Date,
        F::GetDayOfMonth => Part::DayOfMonth,
        F::GetDayOfWeek => Part::DayOfWeek,
        F::GetHours => Part::Hours,
        F::GetMinutes => Part::Minutes,
        F::GetSeconds => Part::Seconds,
        F::GetMilliseconds => Part::Milliseconds,
        _ => return None,
    })
}

fn version(text: &str, tolerant: bool) -> Result<Semver, String> {
    if tolerant { Semver::parse_tolerant(text) } else { Semver::parse(text) }
}

fn sum(a: &Amount, b: &Amount) -> Amount {
    let mut sum = a.clone();
    sum.add(b);
    sum
}

fn difference(a: &Amount, b: &Amount) -> Amount {
    let mut difference = a.clone();
    difference.sub(b);
    difference
}
