//! Explores the other examples under every fault at every write and under pairs of faults, and prints the reports:
//! `cargo run --release --package settled-controller --example faults`.
//!
//! Arguments: the number of schedules for each scenario (10,000), a seed (1), and the names of examples (all).

#![allow(clippy::print_stdout, reason = "it prints for the process that started it")]
#![allow(missing_docs, unreachable_pub, dead_code, reason = "the examples are programs of their own")]

#[path = "../bucket/scenario.rs"]
mod bucket;
#[path = "../endless_reconcile/scenario.rs"]
mod endless_reconcile;
#[path = "../load_balancer/scenario.rs"]
mod load_balancer;
#[path = "../pod_resize/scenario.rs"]
mod pod_resize;
#[path = "../site/scenario.rs"]
mod site;

use std::error::Error;

use settled_controller::faults::{ExploreError, Options, Report};

/// Much of an exploration is small objects that come and go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Explore = fn(&Options) -> Result<Vec<Report>, ExploreError>;

const EXAMPLES: [(&str, Explore); 5] = [
    ("site", site::explore_all),
    ("load_balancer", load_balancer::explore_all),
    ("pod_resize", pod_resize::explore_all),
    ("bucket", bucket::explore_all),
    ("endless_reconcile", endless_reconcile::explore_all),
];

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| words.get(index).map_or(Ok(default), |word| word.parse());
    let options = Options::share(usize::try_from(number(0, 10_000)?)?).seed(number(1, 1)?);
    let names = words.get(2..).unwrap_or_default();
    let mut clean = true;
    for (name, explore) in EXAMPLES {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        for report in explore(&options)? {
            print!("{report}");
            clean &= report.is_clean();
        }
    }
    if clean { Ok(()) } else { Err("a controller fails".into()) }
}
