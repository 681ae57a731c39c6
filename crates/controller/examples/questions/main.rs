//! Answers to questions of controller authors, each shown on a server in the process; docs/controller/questions.md has the words:
//!
//! ```sh
//! cargo run --package settled-controller --example questions
//! ```
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::print_stdout,
    reason = "an example, whose parts the tests use too"
)]

mod change_feed;
mod durability;
mod metadata;
mod schema_rollback;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("Is status durable?");
    print(&durability::answer().await?);
    println!("How does every replica see all changes?");
    print(&change_feed::answer().await?);
    println!("Status, annotation or spec?");
    print(&metadata::answer().await?);
    println!("How do I take a field back?");
    print(&schema_rollback::answer().await?);
    Ok(())
}

fn print(lines: &[String]) {
    for line in lines {
        println!("  {line}");
    }
}
