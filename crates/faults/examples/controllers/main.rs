//! Explores the controller of sites and the API server's built-in controllers, and prints what was found and how fast:
//! `cargo run --release -p settled-faults --example controllers`.
//!
//! Arguments: the number of schedules for each (10,000), and a seed (1).

#![allow(clippy::print_stdout, reason = "it talks to whoever started it")]
#![allow(unreachable_pub, reason = "the tests explore the same controllers")]

mod controller;
mod scenario;
mod server;

use std::error::Error;

use settled_faults::{Options, explore, explore_server};

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let schedules = usize::try_from(numbers.next().transpose()?.unwrap_or(10_000))?;
    let seed = numbers.next().transpose()?.unwrap_or(1);
    let options = Options::share(schedules).seed(seed);
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
