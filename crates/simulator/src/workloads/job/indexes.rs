//! Completion indexes of Jobs: sets in their text form, `1,3-5` (`indexed_job_utils.go` upstream).

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// The annotation and label with the index of a Pod.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A set of indexes, as ranges in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads `1,3-5`; what is not below `completions` is left out.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let mut ranges: Vec<(i32, i32)> = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
            if first >= completions {
                break;
            }
            push(&mut ranges, (first, last.min(completions - 1)));
        }
        Self(ranges)
    }

    /// Is the index among them?
    pub(super) fn has(&self, index: i32) -> bool {
        let place = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(place).is_some_and(|(first, _)| *first <= index)
    }

    /// How many there are.
    pub(super) fn total(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// With more indexes.
    pub(super) fn with(&self, more: impl IntoIterator<Item = i32>) -> Self {
        let mut all = self.0.clone();
        all.extend(more.into_iter().map(|index| (index, index)));
        all.sort_unstable();
        let mut ranges = Vec::new();
        for range in all {
            push(&mut ranges, range);
        }
        Self(ranges)
    }

    /// With those of another set.
    pub(super) fn merge(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.0.extend(&other.0);
        all.0.sort_unstable();
        all.with([])
    }

    /// How many of another set are among them.
    pub(super) fn shared(&self, other: &Self) -> i32 {
        let overlap =
            |one: &(i32, i32), other: &(i32, i32)| (one.1.min(other.1) - one.0.max(other.0) + 1).max(0);
        self.0.iter().map(|one| other.0.iter().map(|other| overlap(one, other)).sum::<i32>()).sum()
    }

    /// The first `count` indexes below `completions` that are not among them.
    pub(super) fn first_missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut candidate = 0;
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            let free = candidate..first.min(completions);
            missing.extend(free.take(count - missing.len()));
            candidate = candidate.max(last + 1);
        }
        missing
    }
}

/// Adds a range that begins after the others, or touches the last one.
fn push(ranges: &mut Vec<(i32, i32)>, range: (i32, i32)) {
    match ranges.last_mut() {
        Some(last) if range.0 <= last.1 + 1 => last.1 = last.1.max(range.1),
        _ => ranges.push(range),
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// The index of a Pod.
pub(super) fn index_of(pod: &Pod) -> Option<i32> {
    let text = pod.metadata.annotations.as_ref()?.get(INDEX)?;
    text.parse().ok().filter(|index| *index >= 0)
}

/// The indexes of Pods.
pub(super) fn indexes_of<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> BTreeSet<i32> {
    pods.into_iter().filter_map(index_of).collect()
}

/// Annotations with the failures of an index so far.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The failures of the index of a Pod before it: counted and ignored.
pub(super) fn index_failures(pod: &Pod) -> (i32, i32) {
    let number = |name: &str| {
        let text = pod.annotations().get(name)?;
        text.parse::<i32>().ok().filter(|number| *number >= 0)
    };
    (number(FAILURES).unwrap_or_default(), number(IGNORED_FAILURES).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_and_written_as_upstream() {
        for (text, completions, expected, total) in [
            ("", 5, "", 0),
            ("0", 5, "0", 1),
            ("0,1", 5, "0,1", 2),
            ("0-2", 5, "0-2", 3),
            ("0-2,4,6-9", 8, "0-2,4,6,7", 6),
            ("0,1,2", 5, "0-2", 3),
            ("7", 5, "", 0),
            ("x,3", 5, "3", 1),
        ] {
            let indexes = Indexes::parse(text, completions);
            assert_eq!((indexes.to_string().as_str(), indexes.total()), (expected, total), "{text}");
        }
    }

    #[test]
    fn sets_are_combined() {
        let set = Indexes::parse("0,3-5", 10);
        assert_eq!(set.with([1, 2, 8]).to_string(), "0-5,8");
        assert_eq!(set.merge(&Indexes::parse("4-7", 10)).to_string(), "0,3-7");
        assert_eq!(set.shared(&Indexes::parse("0-4", 10)), 3);
        assert!(set.has(4) && !set.has(2) && !set.has(6));
        assert_eq!(set.first_missing(3, 10), [1, 2, 6]);
        assert_eq!(set.first_missing(9, 8), [1, 2, 6, 7]);
        assert_eq!(Indexes::default().first_missing(2, 1), [0]);
    }
}
