//! Hosts in network namespaces with the embedded API server and the controllers in one process: `namespaces MACHINES REPLICAS` creates MACHINES Machines
//! and a MachineSet with REPLICAS, and prints one line of JSON with the seconds until all Machines are ready. Linux, as root: exit code 3 if this machine cannot
//! have such hosts. It is the agent of its hosts, too: `namespaces agent …`.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<std::process::ExitCode, linux::Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((first, rest)) if first == "agent" => {
            Ok(settled_hosts::agent::main(rest.iter().map(Into::into)))
        }
        _ => linux::run(&words),
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::Write as _;
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use futures::StreamExt as _;
    use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams, WatchParams};
    use serde_json::{Value, json};
    use settled_apiserver::auth::User;
    use settled_apiserver::{Config, Server};
    use settled_hosts::agent::{Grant, Signed};
    use settled_hosts::netns::{API_VERSION, KIND, NetnsProvider, Options};
    use settled_machines::controllers;
    use settled_machines::inventory::Kind;
    use settled_machines::live;
    use settled_machines::provider::{Provider, Registry};

    pub(super) type Failure = Box<dyn std::error::Error>;

    const LIMIT: Duration = Duration::from_secs(60);
    /// Exit code if this machine cannot have such hosts.
    const UNAVAILABLE: u8 = 3;

    pub(super) fn run(words: &[String]) -> Result<ExitCode, Failure> {
        match NetnsProvider::check() {
            Ok(()) => measure(words).map(|()| ExitCode::SUCCESS),
            Err(missing) => {
                writeln!(std::io::stderr(), "{missing}")?;
                Ok(ExitCode::from(UNAVAILABLE))
            }
        }
    }

    #[tokio::main]
    async fn measure(words: &[String]) -> Result<(), Failure> {
        let number = |index: usize, default: usize| words.get(index).map_or(Ok(default), |word| word.parse());
        let (machines, replicas) = (number(0, 1)?, number(1, 3)?);
        let directory = tempfile::tempdir()?;
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let options = Options::new(directory.path(), vec![program, "agent".to_owned()]);
        let gateway = options.gateway();
        let mut config = Config::default();
        config.certificates.names = vec![gateway.to_string()];
        let server = Server::start(config).await?;
        let client = server.client();

        let (signer, url) = (server.clone(), Arc::new(std::sync::OnceLock::<String>::new()));
        let endpoint = url.clone();
        let credentials = Signed::new(client.clone(), move |grant: &Grant| {
            let url = endpoint.get().ok_or("the server does not listen")?;
            Ok(signer.kubeconfig(url, &User::new(grant.user(), [Grant::GROUP]))?)
        });
        let provider = NetnsProvider::new(options, Arc::new(credentials));
        let registry = Registry::new([Arc::new(provider.clone()) as Arc<dyn Provider>])?;
        live::install(&client, &registry.formats()).await?;
        let controllers = tokio::spawn(controllers::run(client.clone(), controllers::Options::new(registry)));
        provider.start_network().await?;
        let address = server.listen((gateway, 0).into()).await?;
        url.set(format!("https://{address}"))?;

        let begin = Instant::now();
        let api =
            |kind| Api::<DynamicObject>::default_namespaced_with(server.client(), &live::resource(kind));
        let create = async |kind: Kind, object: Value| {
            api(kind).create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            Ok::<(), Failure>(())
        };
        let kind = |kind: Kind| json!({"apiVersion": "cluster.settled.dev/v1alpha1", "kind": kind.as_str()});
        let object = |of: Kind, name: &str, spec: Value| {
            let mut object = kind(of);
            object["metadata"] = json!({"name": name, "namespace": "default"});
            object["spec"] = spec;
            object
        };
        let spec = json!({
            "versions": {"kubelet": "v1.36.0", "containerRuntime": {"name": "containerd", "version": "2.1.0"}},
            "providerSpec": {"value": {"apiVersion": API_VERSION, "kind": KIND}},
        });
        for number in 0..machines {
            create(Kind::Machine, object(Kind::Machine, &format!("machine-{number}"), spec.clone())).await?;
        }
        let set = json!({
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
        });
        create(Kind::MachineSet, object(Kind::MachineSet, "web", set)).await?;
        let ready =
            until(&api(Kind::Machine), |all| all.len() == machines + replicas && all.iter().all(is_ready))
                .await;
        let seconds = begin.elapsed().as_secs_f64();

        // Whatever came of it, nothing is left.
        api(Kind::MachineSet).delete("web", &DeleteParams::default()).await?;
        for number in 0..machines {
            api(Kind::Machine).delete(&format!("machine-{number}"), &DeleteParams::default()).await?;
        }
        let gone = until(&api(Kind::Machine), <[Value]>::is_empty).await;
        controllers.abort();
        provider.stop_network().await?;
        ready?;
        gone?;
        let left = provider.leftovers()?;
        if !left.is_empty() {
            return Err(format!("left over: {left:?}").into());
        }
        writeln!(std::io::stdout(), "{}", json!({"seconds": seconds, "hosts": machines + replicas}))?;
        Ok(())
    }

    fn is_ready(machine: &Value) -> bool {
        let conditions = machine["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|found| found["type"] == "Ready" && found["status"] == "True")
    }

    /// Waits, by a watch, until the objects are as they should be.
    async fn until(api: &Api<DynamicObject>, is_reached: impl Fn(&[Value]) -> bool) -> Result<(), Failure> {
        let wait = async {
            loop {
                let list = api.list(&ListParams::default()).await?;
                let all: Vec<Value> = list.items.iter().map(|object| json!(object)).collect();
                if is_reached(&all) {
                    return Ok(());
                }
                let version = list.metadata.resource_version.unwrap_or_default();
                let mut watch = Box::pin(api.watch(&WatchParams::default(), &version).await?);
                let _change = watch.next().await;
            }
        };
        match tokio::time::timeout(LIMIT, wait).await {
            Ok(result) => result,
            Err(_) => Err("the Machines are not as they should be within 60s".into()),
        }
    }
}
