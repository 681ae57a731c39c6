//! Answers requests to resize Pods of one node in place: KEP-2527's second example. `controller.rs` is the controller.
//!
//! It plays a node agent without containers: on a real cluster, the kubelet does it.
//!
//! ```sh
//! cargo run --package settled-controller --example pod_resize -- NODE
//! ```
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    reason = "an example, whose parts the tests use too"
)]

mod controller;

use kube::Client;
use settled_controller::Clock;
use settled_controller::decision::Permit;

struct Printer;

impl controller::Runtime for Printer {
    async fn resize(&self, permit: &Permit, cpu: &controller::Cpu) -> Result<(), controller::Error> {
        println!("{}: {cpu:?}", permit.key());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = std::env::args().nth(1).ok_or("the name of a node is missing")?;
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    println!("answering for the node {node} with 4 processors; press Ctrl-C to stop");
    controller::run(Client::try_default().await?, Printer, &node, 4000, Clock::system(), stop).await;
    Ok(())
}
