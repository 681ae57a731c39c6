//! Abstraction over the data that expressions read in place.

use std::fmt;

use super::{ListKind, Map, Text, Val};
use crate::budget::{Budget, Result};

/// A list or map of an object, read in place.
///
/// Implemented for JSON with a schema (CRD rules) and for the bytes of an object without one (verdict rules).
pub trait Data<'a>: Copy + fmt::Debug {
    /// Whether values have static types. If so, a missing member is an error, and lists and maps of an object compare
    /// as upstream's wrappers; otherwise, missing members and null are absent.
    const IS_TYPED: bool;

    /// Iterates over the elements of a list.
    type Items: Iterator<Item = Result<Val<'a, Self>>>;

    /// Number of elements or members.
    fn count(self) -> usize;

    /// Elements of a list.
    fn items(self) -> Self::Items;

    /// An element of a list.
    fn item(self, index: usize) -> Option<Result<Val<'a, Self>>> {
        self.items().nth(index)
    }

    /// A member of a map.
    ///
    /// # Errors
    /// The value does not match the schema.
    fn get(self, key: &str) -> Result<Option<Val<'a, Self>>>;

    /// The keys of a map.
    fn keys(self) -> Vec<Text<'a>>;

    /// The members of a map; `None` if they must be looked up by [`keys`](Self::keys).
    fn members(self) -> Option<Vec<(Text<'a>, Val<'a, Self>)>> {
        None
    }

    /// Steps of looking up a member or an element.
    fn steps(self) -> u64 {
        0
    }

    /// Semantics of list concatenation and comparison.
    fn list_kind(self) -> ListKind<'a> {
        ListKind::Plain
    }

    /// Key of an element of a list of type `map`.
    fn list_key(self, _keys: &[String]) -> String {
        String::new()
    }

    /// Equality of two values without a schema.
    fn is_same(self, _other: Self) -> bool {
        false
    }

    /// Equality with a map of the same size.
    ///
    /// # Errors
    /// The values cannot be compared, or the budget is exceeded.
    fn equals(self, other: &Map<'a, Self>, budget: &Budget, depth: usize) -> Result<bool>;
}

/// Data of constants: uninhabited.
#[derive(Clone, Copy, Debug)]
pub enum Never {}

impl<'a> Data<'a> for Never {
    const IS_TYPED: bool = true;

    type Items = std::iter::Empty<Result<Val<'a, Self>>>;

    fn count(self) -> usize {
        match self {}
    }

    fn items(self) -> Self::Items {
        match self {}
    }

    fn get(self, _key: &str) -> Result<Option<Val<'a, Self>>> {
        match self {}
    }

    fn keys(self) -> Vec<Text<'a>> {
        match self {}
    }

    fn equals(self, _other: &Map<'a, Self>, _budget: &Budget, _depth: usize) -> Result<bool> {
        match self {}
    }
}
