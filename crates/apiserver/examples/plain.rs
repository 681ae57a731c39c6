//! The server on a loopback port, in memory, without TLS: `cargo run --example plain -- 127.0.0.1:8001`.

use settled_apiserver::{Config, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8001".to_owned());
    let server = Server::start(Config::default()).await?;
    let address = server.listen_plain(address.parse()?).await?;
    eprintln!("http://{address}");
    std::future::pending().await
}
