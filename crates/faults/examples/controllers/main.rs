//! Explores the controller of sites and the API server's built-in controllers, and prints what was found and how fast:
//! `cargo run --release -p settled-faults --example controllers`.
//!
//! Arguments: the number of schedules for each (10,000), a seed (1), and faults as schedules name them, such as `crash-after;stale(1)` (all).

#![allow(clippy::print_stdout, reason = "it prints for the process that started it")]
#![allow(unreachable_pub, reason = "the tests explore the same controllers")]

mod controller;
mod scenario;
mod server;

use std::error::Error;

use settled_faults::{Fault, Options, explore, explore_server};

/// Much of an exploration is small objects that come and go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let schedules = words.next().map_or(Ok(10_000), |word| word.parse::<usize>())?;
    let seed = words.next().map_or(Ok(1), |word| word.parse::<u64>())?;
    let mut options = Options::share(schedules).seed(seed);
    if let Some(faults) = words.next() {
        options.faults = faults.split(';').map(str::parse).collect::<Result<Vec<Fault>, _>>()?;
    }
    let mut clean = true;
    let report = explore(controller::run, &scenario::sites(), &options)?;
    print!("{report}");
    clean &= report.is_clean();
    for scenario in server::scenarios() {
        let report = explore_server(&scenario, &options)?;
        print!("{report}");
        clean &= report.is_clean();
    }
    if clean { Ok(()) } else { Err("a controller fails".into()) }
}
