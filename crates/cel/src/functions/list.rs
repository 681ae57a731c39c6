//! The functions of lists and maps.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Context, Function, arithmetic, fail};
use crate::budget::{Budget, Result};
use crate::value::{Data, Key, List, Map, Val};

/// Calls a function of lists or maps; `None` if no overload matches.
pub(super) fn call<'a, D: Data<'a>>(context: Context<'_>, args: &[Val<'a, D>]) -> Result<Option<Val<'a, D>>> {
    use Function as F;
    use Val as V;
    let Context { function, budget, .. } = context;
    Ok(Some(match (function, args) {
        (F::IsSorted, [V::List(list)]) => {
            let mut last: Option<Val<'a, D>> = None;
            for item in list.iter() {
                let item = item?;
                item.order(&item).or_else(|fault| match item {
                    V::Double(_) => Ok(Ordering::Equal),
                    _ => Err(fault),
                })?;
                if last.is_some_and(|last| last.order(&item).ok() == Some(Ordering::Greater)) {
                    return Ok(Some(V::Bool(false)));
                }
                last = Some(item);
            }
            V::Bool(true)
        }
        (F::Sum, [V::List(list)]) => {
            let mut items = list.iter();
            let Some(first) = items.next() else { return Ok(Some(V::Int(0))) };
            let mut sum = first?;
            for item in items {
                sum = arithmetic(Function::Add, &sum, &item?, budget)?;
            }
            sum
        }
        (F::Min, [V::List(list)]) => min_or_max(list, "min", Ordering::Greater)?,
        (F::Max, [V::List(list)]) => min_or_max(list, "max", Ordering::Less)?,
        (F::IndexOf, [V::List(list), value]) => {
            for (at, item) in list.iter().enumerate() {
                if item.and_then(|item| item.equals(value, budget)) == Ok(true) {
                    return Ok(Some(V::Int(at as i64)));
                }
            }
            V::Int(-1)
        }
        (F::LastIndexOf, [V::List(list), value]) => {
            for at in (0..list.len()).rev() {
                let item = list.get(at).map(|item| item.and_then(|item| item.equals(value, budget)));
                if item == Some(Ok(true)) {
                    return Ok(Some(V::Int(at as i64)));
                }
            }
            V::Int(-1)
        }
        (F::First, [V::List(list)]) => V::Optional(list.get(0).transpose()?.map(Arc::new)),
        (F::Last, [V::List(list)]) => {
            let last = list.len().checked_sub(1).and_then(|last| list.get(last));
            V::Optional(last.transpose()?.map(Arc::new))
        }
        (F::Slice, [V::List(list), V::Int(start), V::Int(end)]) => slice(list, *start, *end)?,
        (F::Flatten, [V::List(list)]) => {
            let mut items = Vec::new();
            flatten(list, 1, &mut items, budget)?;
            V::list(items)
        }
        (F::Flatten, [V::List(_), V::Int(depth)]) if *depth < 0 => {
            return fail("level must be non-negative");
        }
        (F::Flatten, [V::List(list), V::Int(depth)]) => {
            let mut items = Vec::new();
            flatten(list, *depth, &mut items, budget)?;
            V::list(items)
        }
        (F::Reverse, [V::List(list)]) => {
            let mut items = list.iter().collect::<Result<Vec<_>>>()?;
            items.reverse();
            V::list(items)
        }
        (F::Distinct, [V::List(list)]) => {
            let mut items: Vec<Val<'a, D>> = Vec::new();
            for item in list.iter() {
                let item = item?;
                let mut is_known = false;
                for known in &items {
                    is_known |= match item.equals(known, budget) {
                        Err(fault) if fault.is_final() => return Err(fault),
                        found => found == Ok(true),
                    };
                }
                if !is_known {
                    items.push(item);
                }
            }
            V::list(items)
        }
        (F::Sort, [V::List(list)]) => sorted(list, list)?,
        (F::SortByKeys, [V::List(list), V::List(keys)]) => sorted(list, keys)?,
        (F::ListsRange, [V::Int(count)]) => V::list((0..*count).map(V::Int).collect()),
        (F::SetsContains, [V::List(list), V::List(part)]) => V::Bool(contains_all(list, part, budget)?),
        (F::SetsEquivalent, [V::List(a), V::List(b)]) => {
            V::Bool(contains_all(a, b, budget)? && contains_all(b, a, budget)?)
        }
        (F::SetsIntersects, [V::List(a), V::List(b)]) => {
            for item in a.iter() {
                match item.and_then(|item| b.contains(&item, budget)) {
                    Ok(true) => return Ok(Some(V::Bool(true))),
                    Err(fault) if fault.is_final() => return Err(fault),
                    _ => {}
                }
            }
            V::Bool(false)
        }
        (F::MapInsert, [V::Map(map), key, value]) => inserted(map, [(key.clone(), value.clone())])?,
        (F::MapInsert, [V::Map(map), V::Map(more)]) => {
            let mut entries = Vec::new();
            for key in more.keys() {
                if let Some(value) = more.find(&key)? {
                    entries.push((key, value));
                }
            }
            inserted(map, entries)?
        }
        _ => return Ok(None),
    }))
}

fn min_or_max<'a, D: Data<'a>>(list: &List<'a, D>, name: &str, wanted: Ordering) -> Result<Val<'a, D>> {
    let mut best: Option<Val<'a, D>> = None;
    for item in list.iter() {
        let item = item?;
        item.order(&item)?;
        best = Some(match best {
            Some(best) if best.order(&item).ok() != Some(wanted) => best,
            _ => item,
        });
    }
    best.map_or_else(|| fail(format!("{name} called on empty list")), Ok)
}

fn flatten<'a, D: Data<'a>>(
    list: &List<'a, D>,
    depth: i64,
    into: &mut Vec<Val<'a, D>>,
    budget: &Budget,
) -> Result<()> {
    for item in list.iter() {
        budget.step(1)?;
        match item? {
            Val::List(inner) if depth > 0 => flatten(&inner, depth - 1, into, budget)?,
            other => into.push(other),
        }
    }
    Ok(())
}

fn sorted<'a, D: Data<'a>>(list: &List<'a, D>, keys: &List<'a, D>) -> Result<Val<'a, D>> {
    if list.len() != keys.len() {
        return fail(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        ));
    }
    let keys: Vec<Val<'a, D>> = keys.iter().collect::<Result<_>>()?;
    let Some(first) = keys.first() else { return Ok(Val::List(list.clone())) };
    if first.order(first).is_err() && !matches!(first, Val::Double(_)) {
        return fail("list elements must be comparable");
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return fail("list elements must have the same type");
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| match (keys.get(*a), keys.get(*b)) {
        (Some(a), Some(b)) => a.order(b).unwrap_or(Ordering::Equal),
        _ => Ordering::Equal,
    });
    order.into_iter().filter_map(|at| list.get(at)).collect::<Result<Vec<_>>>().map(Val::list)
}

fn slice<'a, D: Data<'a>>(list: &List<'a, D>, start: i64, end: i64) -> Result<Val<'a, D>> {
    let length = list.len() as i64;
    if start < 0 || end < 0 {
        return fail(format!("cannot slice({start}, {end}), negative indexes not supported"));
    }
    if start > end {
        return fail(format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        ));
    }
    if length < end {
        return fail(format!("cannot slice({start}, {end}), list is length {length}"));
    }
    (start..end).filter_map(|at| list.get(at as usize)).collect::<Result<Vec<_>>>().map(Val::list)
}

fn contains_all<'a, D: Data<'a>>(list: &List<'a, D>, part: &List<'a, D>, budget: &Budget) -> Result<bool> {
    for item in part.iter() {
        if !list.contains(&item?, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn inserted<'a, D: Data<'a>>(
    map: &Map<'a, D>,
    entries: impl IntoIterator<Item = (Val<'a, D>, Val<'a, D>)>,
) -> Result<Val<'a, D>> {
    let mut made = match map {
        Map::Made(made) => (**made).clone(),
        raw => {
            let mut made = BTreeMap::new();
            for key in raw.keys() {
                if let (Some(known), Some(value)) = (Key::of(&key), raw.find(&key)?) {
                    made.insert(known, (key, value));
                }
            }
            made
        }
    };
    for (key, value) in entries {
        let Some(known) = Key::of(&key) else {
            return fail(format!("unsupported key type: {}", key.type_name()));
        };
        if made.contains_key(&known) {
            return fail(format!("insert failed: key {key} already exists"));
        }
        made.insert(known, (key, value));
    }
    Ok(Val::Map(Map::made(made)))
}
