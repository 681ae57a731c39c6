//! Gives Services of type `LoadBalancer` an address of a pool: KEP-2527's first example. `controller.rs` is the controller.
//!
//! ```sh
//! settled serve --memory     # and in another terminal, with the line that it prints:
//! cargo run --package settled-controller --example load_balancer
//! kubectl create service loadbalancer web --tcp=80
//! kubectl get service web    # EXTERNAL-IP
//! ```
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    reason = "an example, whose parts the tests use too"
)]

mod controller;
mod memory;

use kube::Client;
use kube::runtime::watcher;
use settled_controller::Clock;
use settled_controller::decision::pool::AddressRange;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let pool = AddressRange::new("192.0.2.1".parse()?, "192.0.2.254".parse()?).ok_or("not a range")?;
    let network = memory::Network::default();
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    println!("giving out 192.0.2.1 to 192.0.2.254; press Ctrl-C to stop");
    controller::run(client, network.clone(), pool, Clock::system(), watcher::Config::default(), stop).await;
    println!("announced at the end: {:?}", network.addresses());
    Ok(())
}
