//! Random source of UIDs, generated names and allocated ports: the system's, or a sequence that tests can repeat.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::{Builder, Uuid};

/// What splitmix64 adds for each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where random bits come from.
#[derive(Debug, Default)]
pub(crate) struct Random(Option<AtomicU64>);

impl Random {
    /// The system's randomness, or the sequence of a seed.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.map(AtomicU64::new))
    }

    /// A random UUID.
    pub(crate) fn uuid(&self) -> Uuid {
        let Some(state) = &self.0 else { return Uuid::new_v4() };
        let bits = u128::from(next(state)) << 64 | u128::from(next(state));
        Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}

/// splitmix64: different for each of the states, which never repeat.
fn next(state: &AtomicU64) -> u64 {
    let bits = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence() {
        let uuids = |seed| {
            let random = Random::new(seed);
            [random.uuid(), random.uuid()]
        };
        let [first, second] = uuids(Some(1));
        assert_eq!(uuids(Some(1)), [first, second]);
        assert!(first != second && !uuids(Some(2)).contains(&first) && !uuids(None).contains(&first));
        assert_eq!(first.get_version_num(), 4);
    }
}
