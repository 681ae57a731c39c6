//! Server, controllers and the provider of a pool of SSH hosts in one process: `ssh_pool ADDRESS:PORT ARTIFACTS DATA`.
//!
//! ADDRESS is where the hosts reach this machine. DATA gets `admin.kubeconfig`.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Server};
use settled_controller::Clock;
use settled_hosts::agent::{Grant, Signed, Timing};
use settled_hosts::ssh::openssh::{OpenSsh, OpenSshOptions};
use settled_hosts::ssh::{AgentJoin, Options, SecretKeys, SshProvider};
use settled_machines::controllers;
use settled_machines::crds::definitions;
use settled_machines::provider::{Provider, Registry};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |name: &str| arguments.next().ok_or_else(|| format!("{name} is missing"));
    let address: SocketAddr = next("ADDRESS:PORT")?.parse()?;
    let (artifacts, data) = (next("ARTIFACTS")?, next("DATA")?);

    let mut config = Config::default();
    config.data_dir = Some(PathBuf::from(data));
    config.certificates.names = vec![address.ip().to_string()];
    let server = Server::start(config).await?;
    let url = format!("https://{}", server.listen(address).await?);
    let client = server.client();

    // Agents get a certificate for their Node, and a role that names it.
    let signer = server.clone();
    let credentials = Signed::new(client.clone(), move |grant: &Grant| {
        Ok(signer.kubeconfig(&url, &User::new(grant.user(), [Grant::GROUP]))?)
    });
    let join = AgentJoin::new(Arc::new(credentials), Timing::default());
    let transport = OpenSsh::new(OpenSshOptions::default(), Arc::new(SecretKeys::new(client.clone())));
    let options = Options::new(artifacts);
    let provider = SshProvider::new(&client, &Clock::system(), transport, Arc::new(join), options);

    let registry = Registry::new([Arc::new(provider.clone()) as Arc<dyn Provider>])?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions(&registry.formats()) {
        let name = definition.metadata.name.clone().unwrap_or_default();
        crds.patch(&name, &PatchParams::apply("ssh-pool"), &Patch::Apply(&definition)).await?;
    }
    let _probes = tokio::spawn(provider.probe_hosts());
    Ok(controllers::run(client, controllers::Options::new(registry)).await?)
}
