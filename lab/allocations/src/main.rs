//! Counts the allocations of a verdict, for `cargo xtask bench verdict`.
//!
//! A separate program, since a counting allocator is slower than the allocations it counts and must not affect timings.
//!
//! Standard input has objects, each preceded by its length (4 bytes, little-endian); the argument is the current time.
//! For each object, one line is printed: for the profiles `kstatus` and `settled`, the allocations still alive when the
//! verdict is returned (its texts), and the others.

use std::error::Error;
use std::io::{Read as _, Write as _, stdin, stdout};

use kstatus::{Options, Profile};

fn main() -> Result<(), Box<dyn Error>> {
    let now = std::env::args().nth(1).ok_or("the present time is missing")?;
    let now = now.parse().map_err(|error| format!("{now}: {error}"))?;
    let mut input = Vec::new();
    stdin().read_to_end(&mut input)?;
    let mut rest = input.as_slice();
    let mut output = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length))?;
        let (object, after) = after.split_at_checked(length).ok_or("the last object is cut off")?;
        rest = after;
        for profile in [Profile::Kstatus, Profile::Settled] {
            let options = Options { profile, ..Options::new(now) };
            let mut verdict = None;
            let counted = allocation_counter::measure(|| verdict = Some(kstatus::compute(object, &options)));
            drop(verdict);
            let beyond = i64::try_from(counted.count_total)? - counted.count_current;
            write!(output, "{} {beyond} ", counted.count_current)?;
        }
        writeln!(output)?;
    }
    stdout().write_all(&output)?;
    Ok(())
}
