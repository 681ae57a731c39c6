//! The functions of verdict rules, which have no types: how they are called is all that is known before they are.

use std::sync::LazyLock;

use crate::functions::Function;
use crate::library::{Row, rows};
use crate::types::{count_types, split_types};

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

/// For each function a bit for each way to call it: those with so many arguments, and from [`MEMBER`] on those of members. None for a
/// function that verdict rules do not have.
static SHAPES: LazyLock<[u16; Function::COUNT]> = LazyLock::new(|| {
    let mut shapes = [0; Function::COUNT];
    for row in own_rows() {
        let shape = shapes_of(row);
        if let Some(known) = Function::named(row.name).and_then(|found| shapes.get_mut(found as usize)) {
            *known |= shape;
        }
    }
    shapes
});

/// The first bit of [`SHAPES`] for members.
const MEMBER: usize = 8;

fn shape(is_member: bool, args: usize) -> u16 {
    if args < MEMBER { 1 << (args + if is_member { MEMBER } else { 0 }) } else { 0 }
}

fn shapes_of(row: Row) -> u16 {
    let is_member = row.style == "m";
    shape(is_member, count_types(row.args) - usize::from(is_member))
}

/// The rows of the table that verdict rules have.
fn own_rows() -> impl Iterator<Item = Row> {
    rows().filter(|row| row.environment != "crd")
}

fn shapes(name: &str) -> Option<(Function, u16)> {
    let function = Function::named(name)?;
    let shapes = *SHAPES.get(function as usize)?;
    (shapes != 0).then_some((function, shapes))
}

/// Whether there is such a function.
pub(crate) fn is_known(name: &str) -> bool {
    shapes(name).is_some()
}

/// The function of a call, or what is wrong with it.
pub(crate) fn find(name: &str, is_member: bool, args: usize) -> Result<Function, String> {
    let Some((function, shapes)) = shapes(name) else { return Err(unknown(name)) };
    let least = (shapes | shapes >> MEMBER).trailing_zeros() as usize;
    // `math.greatest` and `math.least` take any number.
    let is_open = shapes.count_ones() > 1 && least <= args && name.starts_with("math.");
    if is_open || shapes & shape(is_member, args) != 0 {
        Ok(function)
    } else {
        Err(format!("`{name}` is written {}", written(name).join(" or ")))
    }
}

/// What is wrong with a name that no function has.
fn unknown(name: &str) -> String {
    if let Some((_, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
        return format!("`{name}` is written {usage}");
    }
    match near(name) {
        Some(near) => format!("unknown function `{name}`; did you mean `{near}`?"),
        None => format!("unknown function `{name}`"),
    }
}

/// The ways in which a function is written.
fn written(function: &str) -> Vec<String> {
    let mut all = Vec::new();
    for Row { name, style, args, usage, .. } in own_rows().filter(|row| row.name == function) {
        if !usage.is_empty() {
            return vec![usage.to_owned()];
        }
        let args = split_types(args).into_iter();
        let mut args: Vec<&str> =
            args.map(|type_| type_.trim().split('(').next().unwrap_or_default()).collect();
        let target = if style == "m" { format!("{}.", args.remove(0)) } else { String::new() };
        let written = format!("{target}{name}({})", args.join(", "));
        if !all.contains(&written) {
            all.push(written);
        }
    }
    all
}

/// A function whose name differs in little.
fn near(name: &str) -> Option<&'static str> {
    // Of a short name little is left where two letters are others.
    let most = 2.min(name.len().div_ceil(3));
    let names = own_rows().map(|row| row.name);
    let names = names.filter(|known| known.starts_with(|char: char| char.is_alphabetic()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_shape() {
        for row in own_rows() {
            assert_eq!(count_types(row.args), split_types(row.args).len(), "{}", row.name);
            assert!(count_types(row.args) < MEMBER, "{}: too many arguments", row.name);
            let args = count_types(row.args) - usize::from(row.style == "m");
            assert!(find(row.name, row.style == "m", args).is_ok(), "{}", row.name);
        }
    }
}
