//! Texts and numbers as the kubelet makes them: Pods in messages, Go's durations, and what only looks random.

use k8s_openapi::api::core::v1::Pod;

use crate::meta;

/// `format.Pod`.
pub(super) fn pod(pod: &Pod) -> String {
    format!("{}_{}({})", meta::name(pod), meta::namespace(pod), meta::uid(pod))
}

/// `time.Duration.String` of milliseconds.
pub(super) fn duration(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        return if milliseconds == 0 { "0s".to_owned() } else { format!("{milliseconds}ms") };
    }
    let (minutes, rest) = (milliseconds / 60_000, milliseconds % 60_000);
    let mut seconds = format!("{}.{:03}", rest / 1000, rest % 1000);
    while seconds.ends_with('0') {
        seconds.pop();
    }
    let seconds = seconds.trim_end_matches('.');
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// A number that the seed and these texts decide: FNV-1a, mixed as in SplitMix64.
pub(super) fn hash(seed: u64, parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// 64 hexadecimal digits.
pub(super) fn digest(seed: u64, parts: &[&str]) -> String {
    (0..4_u64).map(|part| format!("{:016x}", hash(seed.wrapping_add(part), parts))).collect()
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_as_go_writes_them() {
        for (milliseconds, expected) in [
            (0, "0s"),
            (250, "250ms"),
            (1234, "1.234s"),
            (2000, "2s"),
            (60_000, "1m0s"),
            (3_661_500, "1h1m1.5s"),
        ] {
            assert_eq!(duration(milliseconds), expected);
        }
    }
}
