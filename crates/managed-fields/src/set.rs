//! Field sets, as tries.

use std::cmp::Ordering;
use std::fmt;

use crate::MAX_DEPTH;
use crate::path::{Path, PathElement};
use crate::schema::{Schema, TypeRef};

/// A set of paths.
///
/// A path can be in the set without what lies below it, and the other way round.
///
/// ```
/// use settled_managed_fields::{FieldSet, Path};
///
/// let mut owned = FieldSet::new();
/// owned.insert(&Path::fields(["spec", "replicas"]));
/// owned.insert(&Path::fields(["spec", "paused"]));
/// let taken: FieldSet = [Path::fields(["spec", "replicas"])].into_iter().collect();
///
/// assert_eq!(owned.difference(&taken).to_string(), ".spec.paused");
/// assert_eq!(owned.to_json(), r#"{"f:spec":{"f:paused":{},"f:replicas":{}}}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Members at this level, sorted.
    pub(crate) members: Vec<PathElement>,
    /// Children, sorted.
    pub(crate) children: Vec<(PathElement, Self)>,
}

/// Side of an element in the merge of two sorted lists.
enum Side<A, B> {
    Left(A),
    Right(B),
    Both(A, B),
}

/// Walks two sorted lists side by side.
fn zip<'a, A, B>(
    left: &'a [A],
    right: &'a [B],
    compare: impl Fn(&A, &B) -> Ordering,
) -> impl Iterator<Item = Side<&'a A, &'a B>> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(one), Some(other)) => Some(match compare(one, other) {
            Ordering::Less => Side::Left(left.next()?),
            Ordering::Greater => Side::Right(right.next()?),
            Ordering::Equal => Side::Both(left.next()?, right.next()?),
        }),
        (Some(_), None) => left.next().map(Side::Left),
        (None, _) => right.next().map(Side::Right),
    })
}

/// What is left of a sorted list after the items before a place. Near items are found in few steps, far ones in not many more.
fn skip<T>(list: &[T], is_before: impl Fn(&T) -> bool) -> &[T] {
    let (mut from, mut step) = (0, 1);
    while list.get(from + step - 1).is_some_and(&is_before) {
        from += step;
        step *= 2;
    }
    let end = list.len().min(from + step);
    let place = from + list[from..end].partition_point(is_before);
    &list[place..]
}

/// The items of a sorted list, each with the equal one of another. It takes as long as the shorter of the two and the longer one's
/// logarithm: many managers with a field each meet thousands of changes.
fn matched<'a, A, B>(
    left: &'a [A],
    mut right: &'a [B],
    compare: impl Fn(&A, &B) -> Ordering,
) -> impl Iterator<Item = (&'a A, Option<&'a B>)> {
    left.iter().map(move |item| {
        right = skip(right, |other| compare(item, other).is_gt());
        match right.split_first() {
            Some((first, rest)) if compare(item, first).is_eq() => {
                right = rest;
                (item, Some(first))
            }
            _ => (item, None),
        }
    })
}

/// The items that are in both of two sorted lists.
fn common<'a, A, B>(
    left: &'a [A],
    right: &'a [B],
    compare: impl Fn(&A, &B) -> Ordering + Copy + 'a,
) -> Box<dyn Iterator<Item = (&'a A, &'a B)> + 'a> {
    if left.len() <= right.len() {
        return Box::new(matched(left, right, compare).filter_map(|(item, other)| Some((item, other?))));
    }
    let turned = move |item: &B, other: &A| compare(other, item).reverse();
    Box::new(matched(right, left, turned).filter_map(|(item, other)| Some((other?, item))))
}

type Child = (PathElement, FieldSet);

fn by_element(left: &Child, right: &Child) -> Ordering {
    left.0.cmp(&right.0)
}

impl FieldSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { members: Vec::new(), children: Vec::new() }
    }

    /// Adds a path. The answer is false, and nothing is added, if the path is empty or has more than [`MAX_DEPTH`]
    /// elements: nobody owns a whole object.
    pub fn insert(&mut self, path: &[PathElement]) -> bool {
        let Some((last, way)) = path.split_last() else { return false };
        if path.len() > MAX_DEPTH {
            return false;
        }
        let mut set = self;
        for element in way {
            set = set.descend(element);
        }
        set.insert_member(last.clone());
        true
    }

    /// A set of what stands at one level, in any order. Of sets below the same element the last one stays.
    pub(crate) fn of_level(mut members: Vec<PathElement>, mut children: Vec<(PathElement, Self)>) -> Self {
        if !members.is_sorted_by(|left, right| left < right) {
            members.sort();
            members.dedup();
        }
        if !children.is_sorted_by(|(left, _), (right, _)| left < right) {
            children.reverse();
            children.sort_by(by_element);
            children.dedup_by(|(later, _), (first, _)| later == first);
        }
        Self { members, children }
    }

    pub(crate) fn insert_member(&mut self, element: PathElement) {
        // Mostly, elements come in their order.
        if self.members.last().is_none_or(|last| *last < element) {
            self.members.push(element);
        } else if let Err(place) = self.members.binary_search(&element) {
            self.members.insert(place, element);
        }
    }

    /// The set below an element, made if it is not there yet.
    pub(crate) fn descend(&mut self, element: &PathElement) -> &mut Self {
        let place = match self.children.binary_search_by(|(own, _)| own.cmp(element)) {
            Ok(place) => place,
            Err(place) => {
                self.children.insert(place, (element.clone(), Self::new()));
                place
            }
        };
        &mut self.children[place].1
    }

    /// Adds what lies below an element. An empty set adds nothing.
    pub(crate) fn insert_below(&mut self, element: &PathElement, below: Self) {
        if below.members.is_empty() && below.children.is_empty() {
            return;
        }
        let own = self.descend(element);
        if own.members.is_empty() && own.children.is_empty() {
            *own = below;
        } else {
            *own = own.union(&below);
        }
    }

    /// Whether a path is in the set.
    #[must_use]
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, way)) = path.split_last() else { return false };
        let mut set = self;
        for element in way {
            match set.below(element) {
                Some(below) => set = below,
                None => return false,
            }
        }
        set.has_member(last)
    }

    pub(crate) fn has_member(&self, element: &PathElement) -> bool {
        self.members.binary_search(element).is_ok()
    }

    pub(crate) fn has_field(&self, name: &str) -> bool {
        self.members.binary_search_by(|own| own.cmp_field(name)).is_ok()
    }

    /// The set of what lies below an element, if there is any.
    #[must_use]
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        let place = self.children.binary_search_by(|(own, _)| own.cmp(element)).ok()?;
        Some(&self.children[place].1)
    }

    pub(crate) fn below_field(&self, name: &str) -> Option<&Self> {
        let place = self.children.binary_search_by(|(own, _)| own.cmp_field(name)).ok()?;
        Some(&self.children[place].1)
    }

    /// Whether there is no path in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.iter().all(|(_, below)| below.is_empty())
    }

    /// The number of paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len() + self.children.iter().map(|(_, below)| below.len()).sum::<usize>()
    }

    /// The paths in one of the sets or in both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let members = zip(&self.members, &other.members, Ord::cmp)
            .map(|side| match side {
                Side::Left(element) | Side::Right(element) | Side::Both(element, _) => element.clone(),
            })
            .collect();
        let children = zip(&self.children, &other.children, by_element)
            .map(|side| match side {
                Side::Left(child) | Side::Right(child) => child.clone(),
                Side::Both((element, own), (_, other)) => (element.clone(), own.union(other)),
            })
            .collect();
        Self { members, children }
    }

    /// The paths in any of these sets.
    pub(crate) fn union_of(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let pairs = sets.chunks(2).map(|pair| match pair {
                [left, right] => left.union(right),
                rest => rest.first().cloned().unwrap_or_default(),
            });
            sets = pairs.collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// The paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let members =
            common(&self.members, &other.members, Ord::cmp).map(|(element, _)| element.clone()).collect();
        let children = common(&self.children, &other.children, by_element)
            .filter_map(|((element, own), (_, other))| kept(element, own.intersection(other)))
            .collect();
        Self { members, children }
    }

    /// The paths of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let children = matched(&self.children, &other.children, by_element)
            .filter_map(|(child, other)| match other {
                None => Some(child.clone()),
                Some((_, other)) => kept(&child.0, child.1.difference(other)),
            })
            .collect();
        Self { members: self.members_without(other), children }
    }

    /// The paths of this set that are neither in the other nor below one of its paths.
    ///
    /// ```
    /// # use settled_managed_fields::{FieldSet, Path};
    /// let own: FieldSet = [Path::fields(["status", "ready"]), Path::fields(["spec"])].into_iter().collect();
    /// let status: FieldSet = [Path::fields(["status"])].into_iter().collect();
    /// assert_eq!(own.recursive_difference(&status).to_string(), ".spec");
    /// ```
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let children = matched(&self.children, &other.children, by_element)
            .filter(|((element, _), _)| !other.has_member(element))
            .filter_map(|(child, other)| match other {
                None => Some(child.clone()),
                Some((_, below)) => kept(&child.0, child.1.recursive_difference(below)),
            })
            .collect();
        Self { members: self.members_without(other), children }
    }

    fn members_without(&self, other: &Self) -> Vec<PathElement> {
        matched(&self.members, &other.members, Ord::cmp)
            .filter(|(_, other)| other.is_none())
            .map(|(element, _)| element.clone())
            .collect()
    }

    /// The paths that have nothing below them in the set.
    #[must_use]
    pub fn leaves(&self) -> Self {
        Self {
            members: matched(&self.members, &self.children, |member, (child, _)| member.cmp(child))
                .filter(|(_, child)| child.is_none())
                .map(|(member, _)| member.clone())
                .collect(),
            children: self
                .children
                .iter()
                .map(|(element, below)| (element.clone(), below.leaves()))
                .collect(),
        }
    }

    /// The set, and every field that its type names on the way to one of its paths.
    #[must_use]
    pub fn with_named_fields(&self, schema: &Schema, type_ref: &TypeRef) -> Self {
        let atom = schema.resolve(type_ref).unwrap_or_default();
        let mut named = Self::new();
        let mut children = Vec::with_capacity(self.children.len());
        for (element, below) in &self.children {
            let mut inner = &TypeRef::None;
            match (element, &atom.map, &atom.list) {
                (PathElement::Field(name), Some(map), _) => {
                    if map.field(name).is_some() {
                        named.insert_member(element.clone());
                    }
                    inner = map.type_of(name);
                }
                (PathElement::Key(_), _, Some(list)) => inner = &list.element_type,
                _ => {}
            }
            children.push((element.clone(), below.with_named_fields(schema, inner)));
        }
        let own = Self { members: self.members.clone(), children };
        if named.members.is_empty() { own } else { own.union(&named) }
    }

    /// The paths that a pattern matches. What lies below the last element of a pattern is kept, too.
    #[must_use]
    pub fn matching(&self, pattern: &SetPattern) -> Self {
        let Some(patterns) = &pattern.members else { return self.clone() };
        Self {
            members: self
                .members
                .iter()
                .filter(|member| patterns.iter().any(|(pattern, _)| pattern.matches(member)))
                .cloned()
                .collect(),
            children: self
                .children
                .iter()
                .filter_map(|(element, below)| {
                    let (_, pattern) = patterns.iter().find(|(pattern, _)| pattern.matches(element))?;
                    kept(element, below.matching(pattern))
                })
                .collect(),
        }
    }

    /// The paths in upstream's order: at each level first those that end there, then those that go deeper.
    pub fn iter(&self) -> impl Iterator<Item = Path> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Path::default(), &mut paths);
        paths.into_iter()
    }

    fn collect_paths(&self, prefix: &mut Path, paths: &mut Vec<Path>) {
        for member in &self.members {
            prefix.push(member.clone());
            paths.push(prefix.clone());
            prefix.pop();
        }
        for (element, below) in &self.children {
            prefix.push(element.clone());
            below.collect_paths(prefix, paths);
            prefix.pop();
        }
    }
}

/// A child, unless nothing is left of it.
fn kept(element: &PathElement, below: FieldSet) -> Option<Child> {
    (!below.is_empty()).then(|| (element.clone(), below))
}

impl fmt::Display for FieldSet {
    /// The paths, one a line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, path) in self.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            path.fmt(formatter)?;
        }
        Ok(())
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::new();
        set.extend(paths);
        set
    }
}

impl Extend<Path> for FieldSet {
    fn extend<I: IntoIterator<Item = Path>>(&mut self, paths: I) {
        for path in paths {
            self.insert(&path);
        }
    }
}

/// An element of a [`SetPattern`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ElementPattern {
    /// Every element.
    Any,
    /// This element.
    Is(PathElement),
}

impl ElementPattern {
    fn matches(&self, element: &PathElement) -> bool {
        match self {
            Self::Any => true,
            Self::Is(own) => own == element,
        }
    }
}

/// A pattern for paths, for [`FieldSet::matching`].
///
/// ```
/// use settled_managed_fields::{ElementPattern, FieldSet, Path, PathElement, SetPattern};
///
/// let pattern = SetPattern::prefix([
///     ElementPattern::Is(PathElement::field("spec")),
///     ElementPattern::Any,
///     ElementPattern::Is(PathElement::field("image")),
/// ]);
/// let own: FieldSet =
///     [Path::fields(["spec", "main", "image"]), Path::fields(["spec", "main", "name"])].into_iter().collect();
/// assert_eq!(own.matching(&pattern).to_string(), ".spec.main.image");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPattern {
    /// Sorted, [`ElementPattern::Any`] first; without it, everything matches.
    members: Option<Vec<(ElementPattern, Self)>>,
}

impl SetPattern {
    /// Matches every path.
    #[must_use]
    pub const fn any() -> Self {
        Self { members: None }
    }

    /// Matches every path that begins like this.
    pub fn prefix<I>(elements: I) -> Self
    where
        I: IntoIterator<Item = ElementPattern>,
        I::IntoIter: DoubleEndedIterator,
    {
        elements
            .into_iter()
            .rev()
            .fold(Self::any(), |below, element| Self { members: Some(vec![(element, below)]) })
    }

    /// Matches what one of two patterns matches.
    ///
    /// [`ElementPattern::Any`] goes before other elements of the same level, as upstream has it: what it does not
    /// match below itself is not tried with them.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        let (Some(own), Some(other)) = (&self.members, &other.members) else { return Self::any() };
        let mut members = own.clone();
        for (element, below) in other {
            match members.iter_mut().find(|(own, _)| own == element) {
                Some((_, own)) => *own = own.merge(below),
                None => members.push((element.clone(), below.clone())),
            }
        }
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self { members: Some(members) }
    }
}

/// Fields that are excluded from tracking, by version.
///
/// Upstream's name for this is reset fields: the status of an object whose status is written separately is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldFilter {
    /// All but these and what lies below them.
    Exclude(FieldSet),
    /// Only what this pattern matches.
    Include(SetPattern),
}

impl FieldFilter {
    /// The paths that pass.
    #[must_use]
    pub fn apply(&self, set: &FieldSet) -> FieldSet {
        match self {
            Self::Exclude(excluded) => set.recursive_difference(excluded),
            Self::Include(pattern) => set.matching(pattern),
        }
    }
}
