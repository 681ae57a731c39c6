//! The server on a free loopback port, in memory; prints a kubeconfig: `cargo run --example serve > /tmp/kubeconfig`.

use settled_apiserver::{Config, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let server = Server::start(Config::default()).await?;
    let address = server.listen(address.parse()?).await?;
    println!("{}", server.admin_kubeconfig(&format!("https://{address}")));
    std::future::pending().await
}
