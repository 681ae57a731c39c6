//! Call checks of verdict rules: without types, only the number of arguments and the call style are checked.

use crate::functions::Function;
use crate::library::{Row, TABLE, rows};
use crate::types::split_types;

/// Macros, reported if they are not called as such.
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

/// Bit set of call styles for each function: one bit per number of arguments, from [`MEMBER`] on for member calls.
/// 0 for functions that verdict rules do not have. Computed by the compiler: parsing the table takes as long as compiling some rules.
static SHAPES: [u16; Function::COUNT] = shapes_of_table(TABLE.as_bytes());

/// First bit of [`SHAPES`] for member calls.
const MEMBER: usize = 8;

const fn shape(is_member: bool, args: usize) -> u16 {
    if args < MEMBER { 1 << (args + if is_member { MEMBER } else { 0 }) } else { 0 }
}

/// The columns are those of [`Row`].
const fn shapes_of_table(table: &[u8]) -> [u16; Function::COUNT] {
    let mut shapes = [0; Function::COUNT];
    let mut line = 0;
    while line < table.len() {
        let mut starts = [table.len(); 8];
        let (mut at, mut column) = (line, 0);
        starts[0] = line;
        while at < table.len() && table[at] != b'\n' {
            if table[at] == b'\t' && column < 6 {
                column += 1;
                starts[column] = at + 1;
            }
            at += 1;
        }
        let is_of_crds = column >= 5 && starts_with(table, starts[5], b"crd");
        if table[line] != b'#' && column >= 4 && !is_of_crds {
            let is_member = table[starts[2]] == b'm';
            let args = count_types(table, starts[3], starts[4] - 1) - is_member as usize;
            if let Some(function) = Function::of_bytes(table, line, starts[1] - 1) {
                shapes[function as usize] |= shape(is_member, args);
            }
        }
        line = at + 1;
    }
    shapes
}

const fn starts_with(text: &[u8], at: usize, word: &[u8]) -> bool {
    let mut length = 0;
    while length < word.len() {
        if at + length >= text.len() || text[at + length] != word[length] {
            return false;
        }
        length += 1;
    }
    true
}

/// Number of types between two offsets, separated by commas outside of brackets.
const fn count_types(text: &[u8], start: usize, end: usize) -> usize {
    let (mut at, mut depth, mut count) = (start, 0_usize, (start < end) as usize);
    while at < end {
        match text[at] {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => count += 1,
            _ => {}
        }
        at += 1;
    }
    count
}

/// Rows of the table for verdict rules.
fn own_rows() -> impl Iterator<Item = Row> {
    rows().filter(|row| row.environment != "crd")
}

fn shapes(name: &str) -> Option<(Function, u16)> {
    let function = Function::named(name)?;
    let shapes = *SHAPES.get(function as usize)?;
    (shapes != 0).then_some((function, shapes))
}

/// Whether the function exists.
pub(crate) fn is_known(name: &str) -> bool {
    shapes(name).is_some()
}

/// Resolves the function of a call, or reports an error.
pub(crate) fn find(name: &str, is_member: bool, args: usize) -> Result<Function, String> {
    let Some((function, shapes)) = shapes(name) else { return Err(unknown(name)) };
    let least = (shapes | shapes >> MEMBER).trailing_zeros() as usize;
    // `math.greatest` and `math.least` are variadic.
    let is_open = shapes.count_ones() > 1 && least <= args && name.starts_with("math.");
    if is_open || shapes & shape(is_member, args) != 0 {
        Ok(function)
    } else {
        Err(format!("`{name}` is written {}", written(name).join(" or ")))
    }
}

/// Error for an unknown function name.
fn unknown(name: &str) -> String {
    if let Some((_, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
        return format!("`{name}` is written {usage}");
    }
    match near(name) {
        Some(near) => format!("unknown function `{name}`; did you mean `{near}`?"),
        None => format!("unknown function `{name}`"),
    }
}

/// Call styles of a function.
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

/// Function with a similar name.
fn near(name: &str) -> Option<&'static str> {
    // For short names, two different letters are too many.
    let most = 2.min(name.len().div_ceil(3));
    let names = own_rows().map(|row| row.name);
    let names = names.filter(|known| known.starts_with(|char: char| char.is_alphabetic()));
    let near = names.map(|known| (distance(known, name), known)).filter(|(distance, _)| *distance <= most);
    near.min().map(|(_, known)| known)
}

/// Edit distance of two names, ignoring case.
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
        let mut expected = [0; Function::COUNT];
        for row in own_rows() {
            let types = split_types(row.args).len();
            assert!(types < MEMBER, "{}: too many arguments", row.name);
            let (is_member, args) = (row.style == "m", types - usize::from(row.style == "m"));
            assert!(find(row.name, is_member, args).is_ok(), "{}", row.name);
            let function = Function::named(row.name).expect(row.name);
            expected[function as usize] |= shape(is_member, args);
        }
        assert_eq!(SHAPES, expected);
    }
}
