//! Members of maps and elements of lists.

use crate::budget::{Fault, Result};
use crate::value::{Data, Items, Val};

pub(crate) fn missing_key<'a, D: Data<'a>>(key: &Val<'a, D>) -> Fault {
    Fault::error(format!("no such key: {key}"))
}

pub(crate) fn missing<'a, 'k, D: Data<'a>, K: Data<'k>>(of: &Val<'a, D>, key: &Val<'k, K>) -> Fault {
    match of {
        Val::List(_) => Fault::error(format!("index out of bounds: {key}")),
        _ => missing_key(key),
    }
}

pub(crate) fn index<'k, K: Data<'k>>(key: &Val<'k, K>) -> Result<i64> {
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

/// Selects a member of a map, or an element of a list.
pub(crate) fn member<'a, 'k, D: Data<'a>, K: Data<'k>>(
    of: &Val<'a, D>,
    key: &Val<'k, K>,
) -> Result<Option<Val<'a, D>>> {
    match of {
        Val::Map(map) => map.find(key),
        Val::List(list) => {
            let at = index(key)?;
            let Some(found) = usize::try_from(at).ok().and_then(|at| list.get(at)) else { return Ok(None) };
            if D::IS_TYPED && matches!(list.items, Items::Data(_)) && !matches!(key, Val::Int(_)) {
                return Err(Fault::error(format!("unsupported index: {key}")));
            }
            found.map(Some)
        }
        _ => Ok(None),
    }
}

pub(crate) fn test<'a, 'k, D: Data<'a>, K: Data<'k>>(of: &Val<'a, D>, key: &Val<'k, K>) -> Result<bool> {
    match of {
        Val::List(_) => index(key).map(|_| false),
        other => member(other, key).map(|found| found.is_some()),
    }
}
