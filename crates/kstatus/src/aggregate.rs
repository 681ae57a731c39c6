//! Aggregation of many statuses into one.

use std::fmt;
use std::ops::Index;

use crate::verdict::Status;

/// Number of objects by status.
///
/// ```
/// use kstatus::{Counts, Status};
/// let counts: Counts = [Status::Current, Status::Current, Status::Failed].into_iter().collect();
/// assert_eq!(counts[Status::Current], 2);
/// assert_eq!(counts.total(), 3);
/// assert_eq!(counts.to_string(), "1 Failed, 2 Current");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    by_status: [usize; Status::ALL.len()],
}

impl Counts {
    /// Counts one more object.
    pub fn add(&mut self, status: Status) {
        if let Some(count) = self.by_status.get_mut(status as usize) {
            *count += 1;
        }
    }

    /// All objects.
    #[must_use]
    pub fn total(&self) -> usize {
        self.by_status.iter().sum()
    }

    /// What all of these objects are together when `desired` is wanted of each: the rule of upstream's
    /// `AggregateStatus`.
    ///
    /// No objects at all are what is desired. Otherwise one Failed makes Failed, one Unknown makes Unknown, all as
    /// desired make `desired`, and anything else is InProgress.
    ///
    /// ```
    /// use kstatus::{Counts, Status};
    /// let counts: Counts = [Status::Current, Status::Terminating].into_iter().collect();
    /// assert_eq!(counts.aggregate(Status::Current), Status::InProgress);
    /// assert_eq!(Counts::default().aggregate(Status::NotFound), Status::NotFound);
    /// ```
    #[must_use]
    pub fn aggregate(&self, desired: Status) -> Status {
        let total = self.total();
        if total == 0 {
            desired
        } else if self[Status::Failed] > 0 {
            Status::Failed
        } else if self[Status::Unknown] > 0 {
            Status::Unknown
        } else if self[desired] == total {
            desired
        } else {
            Status::InProgress
        }
    }
}

impl Index<Status> for Counts {
    type Output = usize;

    fn index(&self, status: Status) -> &usize {
        self.by_status.get(status as usize).unwrap_or(&0)
    }
}

impl FromIterator<Status> for Counts {
    fn from_iter<I: IntoIterator<Item = Status>>(statuses: I) -> Self {
        let mut counts = Self::default();
        for status in statuses {
            counts.add(status);
        }
        counts
    }
}

/// The statuses that occur, the one that needs attention most first: `1 Failed, 2 Current`.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for &status in Status::ALL.iter().filter(|&&status| self[status] > 0) {
            write!(f, "{separator}{} {status}", self[status])?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Many statuses and the one that is desired of each into one: [`Counts::aggregate`] without the counts.
///
/// ```
/// use kstatus::{aggregate, Status};
/// assert_eq!(aggregate([Status::Current, Status::Failed], Status::Current), Status::Failed);
/// ```
#[must_use]
pub fn aggregate(statuses: impl IntoIterator<Item = Status>, desired: Status) -> Status {
    statuses.into_iter().collect::<Counts>().aggregate(desired)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Current, Failed, InProgress, NotFound, Terminating, Unknown};

    #[test]
    fn aggregates_as_upstream_does() {
        for (statuses, desired, expected) in [
            (&[][..], Current, Current),
            (&[][..], NotFound, NotFound),
            (&[Current, Current], Current, Current),
            (&[Current, InProgress], Current, InProgress),
            (&[Current, Terminating], Current, InProgress),
            (&[NotFound, NotFound], NotFound, NotFound),
            (&[NotFound, Terminating], NotFound, InProgress),
            (&[Current, NotFound], Current, InProgress),
            (&[Unknown, Current], Current, Unknown),
            (&[Unknown, Failed], Current, Failed),
            (&[Failed, Failed], Failed, Failed),
            (&[Failed, NotFound], NotFound, Failed),
            (&[InProgress, InProgress], InProgress, InProgress),
        ] {
            assert_eq!(aggregate(statuses.iter().copied(), desired), expected, "{statuses:?} {desired}");
        }
    }
}
