//! Is status durable? It is stored and backed up with the object. What is outside of the cluster is found again by its key.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use settled_apiserver::{Config, Server};
use settled_controller::decision::{IdempotencyKey, RepairScan};

pub async fn answer() -> Result<Vec<String>, Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("settled-questions-{}", std::process::id()));
    let lines = in_directory(&directory).await;
    std::fs::remove_dir_all(&directory)?;
    lines
}

async fn in_directory(directory: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut lines = Vec::new();
    // A controller has granted an address, and has made a load balancer named after the UID of the Service.
    let server = start(directory).await?;
    let services: Api<Service> = Api::default_namespaced(server.client());
    let service = serde_json::from_value(json!({
        "metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }))?;
    services.create(&PostParams::default(), &service).await?;
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}});
    let granted = services.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await?;
    let inventory = [key(&granted)?];
    lines.push(format!("granted: {}", address(&granted)));

    // The server restarts: status is as durable as spec.
    server.stop();
    server.stopped().await;
    let server = start(directory).await?;
    let services: Api<Service> = Api::default_namespaced(server.client());
    let backup = services.get("web").await?;
    lines.push(format!("after a restart: {}", address(&backup)));

    // The cluster is lost, and the backup restored into a new one. A create ignores the status: it is restored by a second request.
    let other = Server::in_memory().await?;
    let services: Api<Service> = Api::default_namespaced(other.client());
    let restored = services.create(&PostParams::default(), &service).await?;
    lines.push(format!("restored without status: {}", address(&restored)));
    let status = json!({"status": backup.status});
    let restored = services.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await?;
    lines.push(format!("restored with status: {}", address(&restored)));

    // The restored object has another UID: the load balancer of the old one has no owner, and is found by a repair scan.
    let live = [key(&restored)?];
    let mut scan = RepairScan::new(Duration::from_secs(60));
    for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"] {
        let orphans = scan.release(inventory.clone(), live.clone(), time.parse()?);
        lines.push(format!("load balancers without an owner at {time}: {}", orphans.len()));
    }
    Ok(lines)
}

async fn start(directory: &Path) -> Result<Server, Box<dyn Error>> {
    let mut config = Config::default();
    config.data_dir = Some(directory.to_owned());
    config.memory = false;
    Ok(Server::start(config).await?)
}

fn key(service: &Service) -> Result<IdempotencyKey, &'static str> {
    IdempotencyKey::of("balancer", service).ok_or("the Service has no UID")
}

fn address(service: &Service) -> String {
    let ingress = service
        .status
        .iter()
        .flat_map(|status| &status.load_balancer)
        .flat_map(|it| it.ingress.iter().flatten());
    let addresses: Vec<&str> = ingress.filter_map(|ingress| ingress.ip.as_deref()).collect();
    format!(
        "{} has {}",
        service.name_any(),
        if addresses.is_empty() { "no address".to_owned() } else { addresses.join(", ") }
    )
}
