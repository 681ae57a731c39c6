//! World for tests: the embedded API server with Hosts, the provider with a transport that can lose responses, and artifacts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_hosts::ssh::openssh::{OpenSsh, OpenSshOptions};
use settled_hosts::ssh::{
    Command, Files, Join, Options, Output, Secret, SecretKeys, SshProvider, Target, Transport,
    TransportError, Verb,
};
use settled_machines::crds::definitions;
use settled_machines::provider::{Desired, ProviderError, Request};
use settled_machines::types::{ContainerRuntime, Host, MachineVersions};

use super::hosts::{Machine, Network};

/// A transport that can lose the response of the next command that changes something.
#[derive(Clone)]
pub(crate) struct Flaky<T> {
    transport: T,
    lose_next: Arc<AtomicBool>,
}

impl<T: Transport> Transport for Flaky<T> {
    fn run<'a>(
        &'a self,
        target: &'a Target,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, TransportError>> {
        async move {
            let output = self.transport.run(target, command).await?;
            if command.verb != Verb::Inspect && self.lose_next.swap(false, Ordering::SeqCst) {
                return Err(TransportError::Lost("the test has lost it".to_owned()));
            }
            Ok(output)
        }
        .boxed()
    }
}

pub(crate) type Provider = SshProvider<Flaky<OpenSsh>>;

/// Agents of tests: a file that is known.
pub(crate) struct FixedJoin;

impl Join for FixedJoin {
    fn files<'a>(
        &'a self,
        _request: &'a Request,
        _host: &'a Host,
    ) -> BoxFuture<'a, Result<Files, ProviderError>> {
        async { Ok(vec![("settings.json", Secret::new(*b"{}"))]) }.boxed()
    }

    fn leave<'a>(&'a self, _uid: &'a str, _host: &'a Host) -> BoxFuture<'a, Result<(), ProviderError>> {
        async { Ok(()) }.boxed()
    }
}

pub(crate) struct World {
    _server: Server,
    pub(crate) client: Client,
    pub(crate) artifacts: tempfile::TempDir,
    lose_next: Arc<AtomicBool>,
}

/// A server with the definitions.
pub(crate) async fn server() -> Server {
    let server = Server::in_memory().await.expect("a server");
    define(&server).await;
    server
}

pub(crate) async fn define(server: &Server) {
    let crds: Api<CustomResourceDefinition> = Api::all(server.client());
    for definition in definitions(&[settled_hosts::ssh::format()]) {
        crds.create(&PostParams::default(), &definition).await.expect("a valid CRD");
        await_condition(crds.clone(), &definition.name_any(), is_crd_established())
            .await
            .expect("established");
    }
}

pub(crate) fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "Node" | "Secret" => ("", "v1"),
        _ => ("cluster.settled.dev", "v1alpha1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// An agent that runs, and reports its version.
pub(crate) const AGENT: &str = "echo VERSION >\"$SETTLED_READY_FILE\"; exec sleep 100000";

pub(crate) fn write_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permitted");
}

impl World {
    pub(crate) async fn start(network: &Network, machines: &[Machine]) -> Self {
        Self::start_on(server().await, network, machines).await
    }

    pub(crate) async fn start_on(server: Server, network: &Network, machines: &[Machine]) -> Self {
        let client = server.client();
        let artifacts = tempfile::tempdir().expect("a directory");
        let world = Self { _server: server, client, artifacts, lose_next: Arc::default() };
        for version in ["v1.36.0", "v1.37.1"] {
            world.artifact(&format!("kubelet-{version}"), &AGENT.replace("VERSION", version));
        }
        for runtime in ["containerd 2.1.0", "containerd 2.2.0", "cri-o 1.36.0"] {
            world.artifact(&format!("runtime-{}", runtime.replace(' ', "-")), &format!("echo {runtime}"));
        }
        world.set_key(&network.key()).await;
        for machine in machines {
            world.create(machine.object()).await;
        }
        world
    }

    pub(crate) fn artifact(&self, name: &str, script: &str) {
        write_program(&self.artifacts.path().join(name), script);
    }

    pub(crate) async fn set_key(&self, key: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ssh", "namespace": "default"},
            "type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": key},
        });
        if self.get("Secret", "ssh").await.is_some() {
            self.patch("Secret", "ssh", json!({"stringData": {"ssh-privatekey": key}})).await;
        } else {
            self.create(secret).await;
        }
    }

    /// The provider as a new process starts it.
    pub(crate) fn provider(&self) -> Provider {
        self.provider_as(&self.client, Arc::new(FixedJoin), |_| {})
    }

    pub(crate) fn provider_as(
        &self,
        client: &Client,
        join: Arc<dyn Join>,
        change: impl FnOnce(&mut Options),
    ) -> Provider {
        let options = OpenSshOptions {
            connect: Duration::from_secs(2),
            alive: Duration::from_secs(1),
            ..OpenSshOptions::default()
        };
        let transport = OpenSsh::new(options, Arc::new(SecretKeys::new(client.clone())));
        let transport = Flaky { transport, lose_next: self.lose_next.clone() };
        let mut options = Options::new(self.artifacts.path());
        options.start = Duration::from_secs(5);
        options.probe = Duration::from_secs(1);
        change(&mut options);
        SshProvider::new(client, &Clock::system(), transport, join, options)
    }

    pub(crate) fn lose_response(&self) {
        self.lose_next.store(true, Ordering::SeqCst);
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        match kind {
            "Node" => Api::all_with(self.client.clone(), &resource(kind)),
            _ => Api::default_namespaced_with(self.client.clone(), &resource(kind)),
        }
    }

    pub(crate) async fn create(&self, object: Value) -> Value {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        json!(self.api(&kind).create(&PostParams::default(), &object).await.expect("created"))
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.api(kind).get_opt(name).await.expect("an answer").map(|object| json!(object))
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
    }

    pub(crate) async fn patch_status(&self, kind: &str, name: &str, patch: Value) {
        self.api(kind)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("patched");
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &Default::default()).await.expect("deleted");
    }

    /// The UID of the Machine that has a Host.
    pub(crate) async fn claim_of(&self, host: &str) -> Option<String> {
        let host = self.get("Host", host).await?;
        host.pointer("/status/claimRef/uid").and_then(Value::as_str).map(str::to_owned)
    }

    /// Reason of a condition.
    pub(crate) async fn reason(&self, kind: &str, name: &str, condition: &str) -> String {
        let object = self.get(kind, name).await.unwrap_or_default();
        let conditions =
            object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let found = conditions.iter().find(|found| found["type"] == condition);
        found.and_then(|found| found["reason"].as_str()).unwrap_or_default().to_owned()
    }
}

pub(crate) fn desired(kubelet: &str) -> Desired {
    let runtime = ContainerRuntime { name: "containerd".to_owned(), version: "2.1.0".to_owned() };
    Desired {
        versions: MachineVersions {
            kubelet: kubelet.to_owned(),
            control_plane: None,
            container_runtime: Some(runtime),
        },
        config: json!({"hostSelector": {"matchLabels": {"pool": "a"}}}),
        node_name: "a".to_owned(),
        ..Desired::default()
    }
}

pub(crate) fn request(uid: &str, desired: Desired) -> Request {
    Request {
        key: settled_machines::provider::HostKey::new(uid),
        machine: format!("default/{uid}"),
        generation: 1,
        desired,
        last_host: None,
    }
}
