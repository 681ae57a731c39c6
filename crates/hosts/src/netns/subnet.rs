//! Subnet of the hosts of a state directory: one that nothing else of this machine uses, and the same one from then on.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::network::hash;

/// File of the state directory that has it.
const FILE: &str = "subnet";
/// Routes of this machine.
const ROUTES: &str = "/proc/net/route";
/// The first byte of all subnets, and the lowest second one.
const FIRST: u8 = 10;
const LOWEST: u8 = 128;

/// The first two bytes of addresses: those that are recorded, or those of the first subnet that is free, beginning at one that follows from the directory.
pub(super) fn of(directory: &Path) -> [u8; 2] {
    if let Some(recorded) = fs::read_to_string(directory.join(FILE)).ok().as_deref().and_then(parse) {
        return recorded;
    }
    let routes = fs::read_to_string(ROUTES).unwrap_or_default();
    let [_, _, start, _] = hash(directory.as_os_str().as_encoded_bytes()).to_be_bytes();
    free(&routes, start)
}

/// Records it, before there is a host with an address of it.
pub(super) fn record(directory: &Path, subnet: [u8; 2]) -> io::Result<()> {
    let path = directory.join(FILE);
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    let new = directory.join(format!("{FILE}.tmp"));
    let mut file = fs::File::create(&new)?;
    file.write_all(format!("{}.{}\n", subnet[0], subnet[1]).as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)
}

fn parse(text: &str) -> Option<[u8; 2]> {
    let (first, second) = text.trim().split_once('.')?;
    Some([first.parse().ok()?, second.parse().ok()?])
}

fn free(routes: &str, start: u8) -> [u8; 2] {
    let taken: Vec<(u32, u32)> = routes.lines().filter_map(route).collect();
    let candidates = (0..LOWEST).map(|step| [FIRST, LOWEST | start.wrapping_add(step)]);
    let is_free = |subnet: &[u8; 2]| {
        let address = u32::from_be_bytes([subnet[0], subnet[1], 0, 0]);
        taken.iter().all(|(destination, mask)| {
            let common = mask & 0xffff_0000;
            address & common != destination & common
        })
    };
    // Where all are taken, the kernel decides which routes count.
    candidates.clone().find(is_free).unwrap_or([FIRST, LOWEST | start])
}

/// Destination and mask of a line of the routes. The default route has no destination.
fn route(line: &str) -> Option<(u32, u32)> {
    let mut fields = line.split_whitespace().skip(1);
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    let (destination, mask) = (number(fields.next()?)?, number(fields.nth(5)?)?);
    (mask != 0).then_some((destination, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\neth0\t00000000\t010012AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";

    #[test]
    fn a_subnet_is_one_that_no_route_overlaps() {
        let with = |lines: &str| free(&format!("{HEAD}{lines}"), 5);
        assert_eq!(with(""), [10, 133]);
        // 172.18.0.0/16
        assert_eq!(with("eth0\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"), [10, 133]);
        // 10.133.0.0/16, then 10.134.7.0/24 as well
        let first = "s1br\t0000850A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        assert_eq!(with(first), [10, 134]);
        assert_eq!(
            with(&format!("{first}tun0\t0007860A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n")),
            [10, 135]
        );
        // 10.0.0.0/8: none is free
        assert_eq!(with("tun0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"), [10, 133]);
        assert_eq!(free("no routes\n", 255), [10, 255]);
    }

    #[test]
    fn what_is_recorded_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        record(directory.path(), [10, 200]).expect("written");
        record(directory.path(), [10, 201]).expect("kept");
        assert_eq!(of(directory.path()), [10, 200]);
        fs::write(directory.path().join(FILE), "10\n").expect("written");
        assert!(of(directory.path())[1] >= LOWEST);
    }
}
