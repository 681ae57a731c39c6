//! Where values lie that no expression made: an object, read in place.

use std::fmt;

use super::{ListKind, Map, Text, Val};
use crate::budget::{Budget, Result};

/// A list or a map of an object, read where it lies.
///
/// There are two: JSON by its schema, for the rules of CRDs, and the bytes of an object without any, for verdict rules.
pub trait Data<'a>: Copy + fmt::Debug {
    /// Whether values have static types. Then a missing member is an error, and lists and maps of an object compare as
    /// upstream's wrappers of them do; else a missing member is absent, and so is what is null.
    const IS_TYPED: bool;

    /// Goes over the elements of a list.
    type Items: Iterator<Item = Result<Val<'a, Self>>>;

    /// How many elements or members there are.
    fn count(self) -> usize;

    /// The elements of a list.
    fn items(self) -> Self::Items;

    /// An element of a list.
    fn item(self, index: usize) -> Option<Result<Val<'a, Self>>> {
        self.items().nth(index)
    }

    /// A member of a map.
    ///
    /// # Errors
    /// If its value is not what the schema says.
    fn get(self, key: &str) -> Result<Option<Val<'a, Self>>>;

    /// The keys of a map.
    fn keys(self) -> Vec<Text<'a>>;

    /// The steps of looking for a member or an element.
    fn steps(self) -> u64 {
        0
    }

    /// How lists add up and compare.
    fn list_kind(self) -> ListKind<'a> {
        ListKind::Plain
    }

    /// What tells this element of a list of type `map` from the others.
    fn list_key(self, _keys: &[String]) -> String {
        String::new()
    }

    /// Whether two values that no schema describes are the same.
    fn is_same(self, _other: Self) -> bool {
        false
    }

    /// Whether a map is the same as another one of as many members.
    ///
    /// # Errors
    /// If values cannot be compared, or the budget is used up.
    fn equals(self, other: &Map<'a, Self>, budget: &Budget, depth: usize) -> Result<bool>;
}

/// The data of constants: there is none.
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
