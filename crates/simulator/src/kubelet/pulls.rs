//! Images of a Node and its pulls: one after the other, unless its kubelet pulls several at a time.

use std::collections::HashMap;
use std::num::NonZeroU32;

use super::text;

/// Request of a container to pull its image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PullRequest<'a> {
    pub(crate) container: &'a str,
    pub(crate) image: &'a str,
    /// Time of the request, in seconds.
    pub(crate) at: i64,
    /// How many milliseconds it takes; and how many if the image has come while it waited.
    pub(crate) takes: (u64, u64),
    pub(crate) succeeds: bool,
}

/// When a pull begins and ends, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) begin: i64,
    pub(crate) end: i64,
}

impl Turn {
    /// The first full second at which it is over.
    pub(crate) const fn over(self) -> i64 {
        full_second(self.end)
    }
}

const fn full_second(milliseconds: i64) -> i64 {
    milliseconds.div_euclid(1000) + if milliseconds.rem_euclid(1000) > 0 { 1 } else { 0 }
}

/// What a kubelet remembers of the images of its Node: `serialImagePuller` of `pkg/kubelet/images`, and
/// `parallelImagePuller` with a limit.
#[derive(Debug, Default)]
pub(super) struct Puller {
    /// When the pulls end that were begun last, as many as run at a time.
    ends: Vec<i64>,
    /// Since when an image is there, in milliseconds, by a hash of its name: each Node may have hundreds.
    images: HashMap<u64, i64>,
    /// The pulls of Pods by UID, until all their containers run: the container, when it asked, and its turn.
    turns: HashMap<String, Vec<(String, i64, Turn)>>,
}

fn image_hash(image: &str) -> u64 {
    text::hash(0, &[image])
}

impl Puller {
    /// Since when an image is there, in seconds.
    pub(super) fn image_since(&self, image: &str) -> Option<i64> {
        self.images.get(&image_hash(image)).copied().map(full_second)
    }

    /// An image is there, since a time in seconds at the latest.
    pub(super) fn has_image(&mut self, image: &str, since: i64) {
        self.add_image(image, since.saturating_mul(1000));
    }

    fn add_image(&mut self, image: &str, since: i64) {
        let earliest = self.images.entry(image_hash(image)).or_insert(since);
        *earliest = since.min(*earliest);
    }

    /// All containers of a Pod run, or it is gone.
    pub(super) fn forget(&mut self, uid: &str) {
        self.turns.remove(uid);
    }

    /// When it is the turn of a pull: always the same answer, once it was asked for. Before that, the earliest.
    pub(super) fn pull(&mut self, uid: &str, request: &PullRequest<'_>, most: NonZeroU32, now: i64) -> Turn {
        let known = self.turns.get(uid).into_iter().flatten();
        let mut known =
            known.filter(|(container, at, _)| *at == request.at && container == request.container);
        if let Some((_, _, turn)) = known.next() {
            return *turn;
        }
        let at = request.at.saturating_mul(1000);
        let is_full = self.ends.len() >= usize::try_from(most.get()).unwrap_or(usize::MAX);
        let first = self.ends.iter().enumerate().filter(|_| is_full).min_by_key(|(_, end)| **end);
        let first = first.map(|(index, end)| (index, *end));
        let begin = first.map_or(at, |(_, end)| end.max(at));
        let (takes, again) = request.takes;
        let has_come =
            begin > at && self.images.get(&image_hash(request.image)).is_some_and(|since| *since <= begin);
        let takes = i64::try_from(if has_come { again } else { takes }).unwrap_or(i64::MAX);
        let turn = Turn { begin, end: begin.saturating_add(takes) };
        if request.at > now {
            return turn;
        }
        match first {
            Some((index, _)) => self.ends[index] = turn.end,
            None => self.ends.push(turn.end),
        }
        if request.succeeds {
            self.add_image(request.image, turn.end);
        }
        self.turns.entry(uid.to_owned()).or_default().push((request.container.to_owned(), request.at, turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::{PullRequest, Puller, Turn};

    fn request<'a>(image: &'a str, at: i64, takes: u64) -> PullRequest<'a> {
        PullRequest { container: "web", image, at, takes: (takes, 300), succeeds: true }
    }

    const ONE: NonZeroU32 = NonZeroU32::MIN;

    #[test]
    fn pulls_wait_for_those_before_them() {
        let mut puller = Puller::default();
        let first = puller.pull("a", &request("one", 10, 1500), ONE, 10);
        assert_eq!(first, Turn { begin: 10_000, end: 11_500 });
        assert_eq!(first.over(), 12);
        let second = puller.pull("b", &request("two", 10, 2000), ONE, 10);
        assert_eq!(second, Turn { begin: 11_500, end: 13_500 });
        assert_eq!(
            puller.pull("c", &request("three", 20, 1000), ONE, 20),
            Turn { begin: 20_000, end: 21_000 }
        );
        // The same look again.
        assert_eq!(puller.pull("b", &request("two", 10, 2000), ONE, 13), second);
    }

    #[test]
    fn what_is_asked_for_later_takes_no_turn_yet() {
        let mut puller = Puller::default();
        assert_eq!(puller.pull("a", &request("one", 15, 1000), ONE, 10).begin, 15_000);
        assert_eq!(puller.pull("b", &request("two", 12, 5000), ONE, 12).begin, 12_000);
        assert_eq!(puller.pull("a", &request("one", 15, 1000), ONE, 15).begin, 17_000);
    }

    #[test]
    fn an_image_that_has_come_meanwhile_is_soon_pulled() {
        let mut puller = Puller::default();
        puller.pull("a", &request("one", 10, 1500), ONE, 10);
        assert_eq!(puller.pull("b", &request("one", 10, 1500), ONE, 10), Turn { begin: 11_500, end: 11_800 });
        assert_eq!(puller.image_since("one"), Some(12));
        let fails = PullRequest { succeeds: false, ..request("two", 20, 1000) };
        puller.pull("c", &fails, ONE, 20);
        assert_eq!(puller.image_since("two"), None);
        assert_eq!(puller.pull("d", &request("two", 20, 2000), ONE, 20), Turn { begin: 21_000, end: 23_000 });
    }

    #[test]
    fn several_at_a_time() {
        let two = NonZeroU32::new(2).expect("two");
        let mut puller = Puller::default();
        let begins: Vec<i64> = [("a", 3000), ("b", 1000), ("c", 5000), ("d", 1000)]
            .map(|(uid, takes)| puller.pull(uid, &request(uid, 0, takes), two, 0).begin)
            .into();
        assert_eq!(begins, [0, 0, 1000, 3000]);
    }

    #[test]
    fn nothing_is_kept_of_pods_that_run() {
        let mut puller = Puller::default();
        puller.pull("a", &request("one", 10, 2000), ONE, 10);
        puller.forget("a");
        assert!(puller.turns.is_empty());
    }
}
