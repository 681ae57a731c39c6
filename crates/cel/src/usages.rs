//! The functions of verdict rules, which have no types: how they are called is all that is known before they are.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::functions::Function;
use crate::library::{Row, rows};
use crate::types::split_types;

#[derive(Debug, Default)]
struct Usage {
    /// Whether as a member, and with how many arguments.
    shapes: Vec<(bool, usize)>,
    /// How it is written.
    written: Vec<String>,
    has_own: bool,
}

/// Macros, where they are written as none.
const MACROS: [(&str, &str); 11] = [
    ("all", "list.all(x, condition)"),
    ("exists", "list.exists(x, condition)"),
    ("exists_one", "list.exists_one(x, condition)"),
    ("existsOne", "list.existsOne(x, condition)"),
    ("filter", "list.filter(x, condition)"),
    ("map", "list.map(x, value) or list.map(x, condition, value)"),
    ("has", "has(field)"),
    ("optMap", "optional.optMap(x, value)"),
    ("optFlatMap", "optional.optFlatMap(x, optional)"),
    ("sortBy", "list.sortBy(x, key)"),
    ("transformList", "list.transformList(i, x, value)"),
];

static USAGES: LazyLock<BTreeMap<&'static str, Usage>> = LazyLock::new(|| {
    let mut usages: BTreeMap<_, Usage> = BTreeMap::new();
    for Row { name, style, args, environment, usage, .. } in rows() {
        if environment == "crd" {
            continue;
        }
        let types = split_types(args);
        let is_member = style == "m";
        let count = types.len() - usize::from(is_member);
        let known = usages.entry(name).or_default();
        if !known.shapes.contains(&(is_member, count)) {
            known.shapes.push((is_member, count));
        }
        if !usage.is_empty() {
            (known.written, known.has_own) = (vec![usage.to_owned()], true);
        }
        if !known.has_own {
            let args = types.iter().map(|type_| type_.trim().split('(').next().unwrap_or_default());
            let mut args: Vec<&str> = args.collect();
            let target = if is_member { format!("{}.", args.remove(0)) } else { String::new() };
            let written = format!("{target}{name}({})", args.join(", "));
            if !known.written.contains(&written) {
                known.written.push(written);
            }
        }
    }
    usages
});

/// Whether there is such a function.
pub(crate) fn is_known(name: &str) -> bool {
    USAGES.contains_key(name)
}

/// The function of a call, or what is wrong with it.
pub(crate) fn find(name: &str, is_member: bool, args: usize) -> Result<Function, String> {
    if let Some((_, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
        return Err(format!("`{name}` is written {usage}"));
    }
    match (USAGES.get(name), Function::named(name)) {
        (Some(usage), Some(function)) => {
            let least = usage.shapes.iter().map(|(_, count)| *count).min();
            // `math.greatest` and `math.least` take any number.
            let is_open = name.starts_with("math.") && usage.shapes.len() > 1 && least <= Some(args);
            if is_open || usage.shapes.contains(&(is_member, args)) {
                Ok(function)
            } else {
                Err(format!("`{name}` is written {}", usage.written.join(" or ")))
            }
        }
        _ => Err(match near(name) {
            Some(near) => format!("unknown function `{name}`; did you mean `{near}`?"),
            None => format!("unknown function `{name}`"),
        }),
    }
}

/// A function whose name differs in little.
fn near(name: &str) -> Option<&'static str> {
    // Of a short name little is left where two letters are others.
    let most = 2.min(name.len().div_ceil(3));
    let names = USAGES.keys().copied().filter(|known| known.starts_with(|char: char| char.is_alphabetic()));
    let near = names.map(|known| (distance(known, name), known)).filter(|(distance, _)| *distance <= most);
    near.min().map(|(_, known)| known)
}

/// How many letters must change to make one name of the other; case counts nothing.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
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
