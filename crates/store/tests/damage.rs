//! Damaged files: acknowledged writes are never lost without an error.
//!
//! The directories are as `kill -9` leaves them (the cache survives), as a power cut may (without the seal of the last write, which is
//! not synced), and closed.

use std::fs;
use std::path::Path;

use settled_store::BackendError;
use settled_store::Disk;
use settled_store::DroppedWrite;
use settled_store::Durability;
use settled_store::Expect;
use settled_store::Revision;
use settled_store::Store;
use settled_store::Write;

use crate::Directory;
use crate::alone;
use crate::disk::Content;
use crate::disk::content;
use crate::disk::options;
use crate::key;

const HEAD: usize = 4096;
const SECTOR: usize = 512;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn between(&mut self, low: usize, high: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + ((z ^ (z >> 31)) >> 11) as usize % (high - low)
    }
}

/// The files of a directory.
#[derive(Clone)]
struct Image {
    log: Vec<u8>,
    seal: Option<Vec<u8>>,
}

impl Image {
    fn of(directory: &Path) -> Self {
        let log = fs::read(directory.join("store.log")).unwrap();
        Self { log, seal: fs::read(directory.join("store.seal")).ok() }
    }

    /// Where each frame begins, and the end.
    fn frames(&self) -> Vec<usize> {
        let mut places = vec![HEAD];
        loop {
            let place = *places.last().unwrap();
            let size = self
                .log
                .get(place..place + 8)
                .map_or(0, |size| usize::try_from(u64::from_le_bytes(size.try_into().unwrap())).unwrap());
            if size == 0 {
                return places;
            }
            places.push((place + 16 + size).next_multiple_of(8));
        }
    }

    fn with(&self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut image = self.clone();
        change(&mut image.log);
        image
    }

    fn flipped(&self, place: usize, bit: usize) -> Self {
        self.with(|log| log[place] ^= 1 << (bit % 8))
    }

    fn cut(&self, size: usize) -> Self {
        self.with(|log| log.truncate(size))
    }

    fn zeroed(&self, from: usize, to: usize) -> Self {
        self.with(|log| log[from..to].fill(0))
    }

    fn open(&self, directory: &Directory) -> Result<Store, BackendError> {
        for entry in fs::read_dir(directory.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        fs::write(directory.path().join("store.log"), &self.log).unwrap();
        if let Some(seal) = &self.seal {
            fs::write(directory.path().join("store.seal"), seal).unwrap();
        }
        let disk = Disk::open(directory.path(), Durability::Synced)?;
        Store::open(Box::new(disk), options(10_000))
    }
}

struct Fixture {
    killed: Image,
    power_cut: Image,
    closed: Image,
    /// After each write.
    contents: Vec<Content>,
    directory: Directory,
}

impl Fixture {
    fn new() -> Self {
        let mut dice = Dice(7);
        let directory = Directory::new("damage");
        let disk = Disk::open(directory.path(), Durability::Synced).unwrap();
        let store = Store::open(Box::new(disk), options(10_000)).unwrap();
        let mut contents = vec![content(&store)];
        for i in 0..90 {
            let write = match i % 9 {
                8 => Write::delete(key(&format!("n{}", i % 3)), Expect::Any),
                _ => {
                    let value: Vec<u8> =
                        (0..dice.between(20, 900)).map(|_| dice.between(1, 256) as u8).collect();
                    Write::put(key(&format!("n{}", i % 7)), value)
                }
            };
            store.write(write).wait().unwrap();
            contents.push(content(&store));
        }
        let value: Vec<u8> = (0..9_000).map(|_| dice.between(1, 256) as u8).collect();
        store.write(Write::put(key("last"), value)).wait().unwrap();
        contents.push(content(&store));
        let killed = Image::of(directory.path());
        // As far as the head says, all of it may be torn.
        let mut power_cut = killed.clone();
        power_cut.seal = None;
        drop(store);
        let closed = Image::of(directory.path());
        assert_eq!(killed.frames().len(), contents.len(), "a frame for each write");
        Self { killed, power_cut, closed, contents, directory: Directory::new("image") }
    }

    fn refused(&self, image: &Image, what: &str) {
        match image.open(&self.directory) {
            Err(BackendError::Corrupt { path, what: why }) => {
                assert!(why.contains("byte"), "{what}: {why}");
                assert!(path.ends_with("store.log.corrupt"), "{what}: {path:?}");
                assert_eq!(fs::read(path).unwrap(), image.log, "{what}: the file is kept");
            }
            Err(other) => panic!("{what}: {other:?}"),
            Ok(store) => panic!("{what}: opened at revision {}", store.current_revision()),
        }
    }

    /// Gives what was dropped.
    fn opened(&self, image: &Image, expected: &Content, what: &str) -> Option<DroppedWrite> {
        let store = image.open(&self.directory).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(&content(&store), expected, "{what}");
        store.queue_stats().dropped
    }
}

#[test]
fn what_is_acknowledged_is_never_rolled_back() {
    let _alone = alone();
    let fixture = Fixture::new();
    let last = fixture.contents.last().unwrap();
    let places = fixture.killed.frames();
    let (start, end) = (places[places.len() - 2], places[places.len() - 1]);
    for (state, image) in [("killed", &fixture.killed), ("closed", &fixture.closed)] {
        assert_eq!(fixture.opened(image, last, state), None);
        let mut dice = Dice(11);
        // The padding says nothing.
        let body = 16
            + usize::try_from(u64::from_le_bytes(image.log[start..start + 8].try_into().unwrap())).unwrap();
        for place in (start..start + 20).chain((0..30).map(|_| dice.between(start, start + body))) {
            fixture.refused(&image.flipped(place, place), &format!("{state}: a flip at {place}"));
        }
        for size in (start..start + 20).chain((0..30).map(|_| dice.between(start, start + body))) {
            fixture.refused(&image.cut(size), &format!("{state}: cut at {size}"));
        }
        for place in &places[places.len() - 61..places.len() - 1] {
            fixture.refused(&image.cut(*place), &format!("{state}: cut at the frame at {place}"));
            fixture.refused(&image.zeroed(*place, end), &format!("{state}: zeros from the frame at {place}"));
        }
        for _ in 0..20 {
            let place = dice.between(places[places.len() - 6], start + body - 8);
            fixture.refused(&image.zeroed(place, end), &format!("{state}: zeros from {place}"));
        }
        damage_in_the_middle(&fixture, state, image, start);
        head(&fixture, state, image);
        // What is behind the last write is nothing, and is dropped with a notice.
        for place in [end, end + 1, end + 17, end + 600, end + 5_000] {
            let dropped =
                fixture.opened(&image.flipped(place, 3), last, &format!("{state}: a flip at {place}"));
            let expected = DroppedWrite { bytes: (place + 1 - end) as u64, revision: last.0 };
            assert_eq!(dropped, Some(expected), "{state}: a flip at {place}");
        }
    }
}

fn damage_in_the_middle(fixture: &Fixture, state: &str, image: &Image, start: usize) {
    let mut dice = Dice(13);
    for _ in 0..40 {
        let place = dice.between(HEAD, start - 1200) / SECTOR * SECTOR;
        fixture.refused(&image.zeroed(place, place + SECTOR), &format!("{state}: no sector {place}"));
        let (from, to) = (dice.between(1, start / 4096), dice.between(1, start / 4096));
        if from != to {
            let moved = image.with(|log| log.copy_within(from * 4096..(from + 1) * 4096, to * 4096));
            fixture.refused(&moved, &format!("{state}: page {from} at {to}"));
        }
    }
}

fn head(fixture: &Fixture, state: &str, image: &Image) {
    let last = fixture.contents.last().unwrap();
    for place in 0..24 {
        match image.flipped(place, 5).open(&fixture.directory) {
            Err(BackendError::Corrupt { .. }) => {}
            other => panic!("{state}: a flip at {place}: {other:?}"),
        }
    }
    // There are two seals, and a third one beside the log.
    for place in (24..HEAD).step_by(131).chain([SECTOR, SECTOR + 17, 2 * SECTOR + 9, 2 * SECTOR + 25]) {
        assert_eq!(
            fixture.opened(&image.flipped(place, 2), last, &format!("{state}: a flip at {place}")),
            None
        );
    }
}

/// The last write may not have been acknowledged, as far as the files say. What looks torn is dropped with a notice; what does not,
/// and what the head's seal covers, is damage.
#[test]
fn only_an_unsealed_write_is_dropped_and_reported() {
    let _alone = alone();
    let fixture = Fixture::new();
    let image = &fixture.power_cut;
    let (before, last) = (&fixture.contents[fixture.contents.len() - 2], fixture.contents.last().unwrap());
    let places = image.frames();
    let (start, end) = (places[places.len() - 2], places[places.len() - 1]);
    assert_eq!(fixture.opened(image, last, "as it was"), None);
    let mut dice = Dice(17);
    for place in (start..start + 16).chain((0..40).map(|_| dice.between(start, start + 9_000))) {
        fixture.refused(&image.flipped(place, place), &format!("a flip at {place}"));
    }
    let dropped = |image: &Image, what: &str| {
        let dropped = fixture.opened(image, before, what);
        let (bytes, revision) = dropped.map_or((0, Revision(0)), |dropped| (dropped.bytes, dropped.revision));
        assert!(bytes > 0 && bytes <= (end - start) as u64 && revision == before.0, "{what}: {dropped:?}");
    };
    for place in (start + 1..start + 20).chain((0..20).map(|_| dice.between(start + 20, end - 8))) {
        dropped(&image.cut(place), &format!("cut at {place}"));
        dropped(&image.zeroed(place, end), &format!("zeros from {place}"));
    }
    let first = start.next_multiple_of(SECTOR);
    for sector in (first..end - SECTOR).step_by(SECTOR) {
        dropped(&image.zeroed(sector, sector + SECTOR), &format!("no sector {sector}"));
        // The first ones are not there, later ones are.
        dropped(&image.zeroed(start, sector + SECTOR), &format!("zeros to {}", sector + SECTOR));
    }
    damage_in_the_middle(&fixture, "power cut", image, start);
    // What follows takes its place for good.
    let store = image.cut(start + 100).open(&fixture.directory).unwrap();
    store.write(Write::put(key("next"), *b"1")).wait().unwrap();
    let next = content(&store);
    drop(store);
    assert_eq!(fixture.opened(&Image::of(fixture.directory.path()), &next, "again"), None);
}

/// A log of the versions before seals had revisions, as `kill -9` left it.
#[test]
fn logs_of_earlier_versions_are_read() {
    let _alone = alone();
    let log = include_bytes!("fixtures/killed.log");
    let image = Image { log: log.to_vec(), seal: None };
    let directory = Directory::new("earlier");
    let store = image.open(&directory).unwrap();
    assert_eq!((store.current_revision(), store.queue_stats().dropped), (Revision(12), None));
    for (name, value) in [("n0", "value 8"), ("n2", "value 10"), ("n3", "value 11")] {
        assert_eq!(&**store.get(&key(&format!("shop/{name}"))).unwrap().value(), value.as_bytes());
    }
    assert!(store.get(&key("shop/n1")).is_none());
    store.write(Write::put(key("shop/n1"), *b"new")).wait().unwrap();
    let expected = content(&store);
    let killed = Image::of(directory.path());
    drop(store);
    assert_eq!(content(&killed.open(&directory).unwrap()), expected);
    let places = image.frames();
    let start = places[places.len() - 2];
    for place in start..start + 80 {
        let error = image.flipped(place, 1).open(&directory).unwrap_err();
        assert!(matches!(error, BackendError::Corrupt { .. }), "{place}: {error}");
    }
    let dropped = image.cut(start + 50).open(&directory).unwrap().queue_stats().dropped;
    let used = image.log[start..start + 50].iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert_eq!(dropped, Some(DroppedWrite { bytes: used as u64, revision: Revision(11) }));
}
