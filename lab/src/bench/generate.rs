//! Generator of Deployments and Pods with managedFields and a given size.

use serde_json::{Map, Value, json};

use crate::random::SplitMix64;

/// Random parts of objects, determined by the seed.
pub(crate) struct Random(SplitMix64);

/// The seed of every generated workload. Benchmarks print it.
pub(crate) const SEED: u64 = 0x5e77_1ed0;

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }

    fn hex(&mut self, digits: usize) -> String {
        (0..digits).map(|_| char::from(b"0123456789abcdef"[self.below(16) as usize])).collect()
    }

    fn uid(&mut self) -> String {
        format!("{}-{}-4{}-8{}-{}", self.hex(8), self.hex(4), self.hex(3), self.hex(3), self.hex(12))
    }

    /// A time in 2025, in the API server's format.
    fn time(&mut self) -> String {
        format!(
            "2025-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            1 + self.below(12),
            1 + self.below(28),
            self.below(24),
            self.below(60),
            self.below(60)
        )
    }
}

/// Placeholder for the name of a generated object. Dumps replace it by a number.
pub(crate) const NAME_MARK: &str = "name-0000000";

const WORDS: [&str; 12] = [
    "cart", "checkout", "catalog", "payment", "session", "search", "invoice", "gateway", "ledger", "profile",
    "shipping", "audit",
];

/// A Deployment of at least `bytes` bytes as compact JSON, and not much more; three in four have completed their
/// rollout.
pub(crate) fn deployment(random: &mut Random, bytes: usize) -> Value {
    grown(bytes, random, |random, variables| {
        let app = random.pick(&WORDS);
        let replicas = 2 + random.below(9);
        let settled = random.below(4) > 0;
        let ready = if settled { replicas } else { random.below(replicas) };
        let generation = 1 + random.below(40);
        let created = random.time();
        let changed = random.time();
        let mut spec = json!({
            "progressDeadlineSeconds": 600,
            "replicas": replicas,
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": labels(app)},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
            "template": {
                "metadata": {
                    "annotations": {"checksum/config": random.hex(64), "prometheus.io/scrape": "true"},
                    "labels": labels(app),
                },
                "spec": pod_spec(random, app, variables),
            },
        });
        let mut status = json!({
            "availableReplicas": ready,
            "conditions": [
                condition("Available", settled, "MinimumReplicasAvailable",
                    "Deployment has minimum availability.", &created, Some(&created)),
                condition("Progressing", true, if settled { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" },
                    &format!("ReplicaSet \"{NAME_MARK}-{}\" has successfully progressed.", random.hex(10)),
                    &created, Some(&changed)),
            ],
            "observedGeneration": generation,
            "readyReplicas": ready,
            "replicas": replicas,
            "updatedReplicas": replicas,
        });
        if !settled {
            set(&mut status, "unavailableReplicas", json!(replicas - ready));
        }
        set(&mut spec, "paused", json!(false));
        object(random, "apps/v1", "Deployment", app, Some(generation), &created, spec, status)
    })
}

/// A Pod of at least `bytes` bytes as compact JSON, and not much more; three in four are ready.
pub(crate) fn pod(random: &mut Random, bytes: usize) -> Value {
    grown(bytes, random, |random, variables| {
        let app = random.pick(&WORDS);
        let settled = random.below(4) > 0;
        let created = random.time();
        let started = random.time();
        let mut spec = pod_spec(random, app, variables);
        set(
            &mut spec,
            "nodeName",
            json!(format!("ip-10-0-{}-{}.internal", random.below(256), random.below(256))),
        );
        set(&mut spec, "preemptionPolicy", json!("PreemptLowerPriority"));
        set(&mut spec, "priority", json!(0));
        set(
            &mut spec,
            "tolerations",
            json!([
                {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
                {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
            ]),
        );
        let statuses = |random: &mut Random, list: &str, running: bool| -> Value {
            let containers = spec.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
            let statuses = containers.iter().map(|container| {
                let image = container.get("image").cloned().unwrap_or_default();
                let state = match (list, running) {
                    ("initContainers", _) => json!({"terminated": {
                        "containerID": format!("containerd://{}", random.hex(64)),
                        "exitCode": 0, "finishedAt": started, "reason": "Completed", "startedAt": started,
                    }}),
                    (_, true) => json!({"running": {"startedAt": started}}),
                    _ => json!({"waiting": {
                        "message": "back-off 5m0s restarting failed container",
                        "reason": "CrashLoopBackOff",
                    }}),
                };
                json!({
                    "containerID": format!("containerd://{}", random.hex(64)),
                    "image": image,
                    "imageID": format!("{}@sha256:{}", image.as_str().unwrap_or_default(), random.hex(64)),
                    "lastState": {},
                    "name": container.get("name"),
                    "ready": running,
                    "restartCount": random.below(9),
                    "started": running,
                    "state": state,
                })
            });
            Value::Array(statuses.collect())
        };
        let address = format!("10.244.{}.{}", random.below(256), random.below(256));
        let not_ready = "containers with unready status";
        let status = json!({
            "conditions": [
                condition("PodReadyToStartContainers", true, "", "", &started, None),
                condition("Initialized", true, "", "", &started, None),
                condition("Ready", settled, if settled { "" } else { "ContainersNotReady" }, if settled { "" } else { not_ready }, &started, None),
                condition("ContainersReady", settled, if settled { "" } else { "ContainersNotReady" }, if settled { "" } else { not_ready }, &started, None),
                condition("PodScheduled", true, "", "", &created, None),
            ],
            "containerStatuses": statuses(random, "containers", settled),
            "hostIP": "10.0.12.7",
            "hostIPs": [{"ip": "10.0.12.7"}],
            "initContainerStatuses": statuses(random, "initContainers", true),
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "qosClass": "Burstable",
            "startTime": started,
        });
        let mut pod = object(random, "v1", "Pod", app, None, &created, spec, status);
        if let Some(metadata) = pod.get_mut("metadata") {
            set(metadata, "generateName", json!(format!("{NAME_MARK}-")));
            set(
                metadata,
                "ownerReferences",
                json!([{
                    "apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true,
                    "kind": "ReplicaSet", "name": NAME_MARK, "uid": random.uid(),
                }]),
            );
        }
        pod
    })
}

/// A small object of another kind, 0.3 to 1.5 KB.
pub(crate) fn small(random: &mut Random) -> Value {
    let app = random.pick(&WORDS);
    let created = random.time();
    let labels = labels(app);
    match random.below(4) {
        0 => object(
            random,
            "v1",
            "Service",
            app,
            None,
            &created,
            json!({"clusterIP": "10.96.17.4", "clusterIPs": ["10.96.17.4"], "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
                "selector": labels, "sessionAffinity": "None", "type": "ClusterIP"}),
            json!({"loadBalancer": {}}),
        ),
        1 => object(
            random,
            "v1",
            "PersistentVolumeClaim",
            app,
            None,
            &created,
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}, "storageClassName": "standard",
                "volumeMode": "Filesystem", "volumeName": format!("pvc-{NAME_MARK}")}),
            json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"}, "phase": "Bound"}),
        ),
        2 => object(
            random,
            "batch/v1",
            "Job",
            app,
            Some(1),
            &created,
            json!({"backoffLimit": 6, "completions": 1, "parallelism": 1, "suspend": false, "template": {"spec": {
                "containers": [{"image": "registry.example/backup:2.1", "name": "backup"}], "restartPolicy": "Never"}}}),
            json!({"completionTime": created, "conditions": [condition("Complete", true, "", "", &created, None)],
                "ready": 0, "startTime": created, "succeeded": 1}),
        ),
        _ => object(
            random,
            "example.com/v1",
            "Database",
            app,
            Some(3),
            &created,
            json!({"engine": "postgres", "version": "17", "storage": "20Gi"}),
            json!({"conditions": [condition("Ready", true, "Available", "The database accepts connections", &created, None)],
                "observedGeneration": 3}),
        ),
    }
}

/// Increases the number of environment variables until the object is large enough.
fn grown(bytes: usize, random: &mut Random, make: impl Fn(&mut Random, u64) -> Value) -> Value {
    let seed = random.next();
    // Each attempt starts from the same seed, so that attempts differ in size only.
    let mut variables = 1;
    loop {
        let object = make(&mut Random::new(seed), variables);
        let size = object.to_string().len();
        if size >= bytes {
            return object;
        }
        // One variable with its managedFields is about 200 bytes.
        variables += ((bytes - size) / 200).max(1) as u64;
    }
}

fn labels(app: &str) -> Value {
    json!({"app.kubernetes.io/instance": app, "app.kubernetes.io/name": app})
}

fn condition(
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    at: &str,
    updated: Option<&str>,
) -> Value {
    let mut condition = json!({
        "lastTransitionTime": at, "status": if holds { "True" } else { "False" }, "type": type_,
    });
    match updated {
        Some(updated) => set(&mut condition, "lastUpdateTime", json!(updated)),
        None => set(&mut condition, "lastProbeTime", Value::Null),
    }
    for (name, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            set(&mut condition, name, json!(text));
        }
    }
    condition
}

/// A Pod spec: an application with probes and a sidecar, volumes, an init container.
fn pod_spec(random: &mut Random, app: &str, variables: u64) -> Value {
    let probe = |path: &str, delay: u64| {
        json!({
            "failureThreshold": 3, "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
            "initialDelaySeconds": delay, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
        })
    };
    let mut environment = vec![
        json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}),
        json!({"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"key": "password", "name": format!("{app}-db")}}}),
    ];
    for at in 0..variables {
        let value = match at % 4 {
            0 => {
                format!("http://{}.shop.svc.cluster.local:{}", random.pick(&WORDS), 8000 + random.below(100))
            }
            1 => random.below(100_000).to_string(),
            2 => format!("-Xmx{}m -Dapp.mode=\"{}\"", 128 << random.below(4), random.pick(&WORDS)),
            _ => random.hex(24),
        };
        environment
            .push(json!({"name": format!("{}_{at}", random.pick(&WORDS).to_uppercase()), "value": value}));
    }
    let resources = |cpu: &str, memory: &str| json!({"limits": {"memory": memory}, "requests": {"cpu": cpu, "memory": memory}});
    json!({
        "containers": [
            {
                "env": environment,
                "image": format!("registry.example/{app}:1.{}.{}", random.below(30), random.below(10)),
                "imagePullPolicy": "IfNotPresent",
                "livenessProbe": probe("/healthz", 15),
                "name": app,
                "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                "readinessProbe": probe("/ready", 5),
                "resources": resources("250m", "512Mi"),
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [
                    {"mountPath": "/etc/app", "name": "config", "readOnly": true},
                    {"mountPath": "/tmp", "name": "scratch"},
                ],
            },
            {
                "args": ["--listen=:9090", "--upstream=127.0.0.1:8080", "--log-level=info"],
                "image": "registry.example/proxy:2.14.3",
                "imagePullPolicy": "IfNotPresent",
                "name": "proxy",
                "ports": [{"containerPort": 9090, "name": "metrics", "protocol": "TCP"}],
                "resources": resources("50m", "64Mi"),
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            },
        ],
        "dnsPolicy": "ClusterFirst",
        "initContainers": [{
            "command": ["/bin/sh", "-c", "until nc -z db 5432; do\n  echo \"waiting for the database\"\n  sleep 1\ndone"],
            "image": "registry.example/tools:1.4",
            "imagePullPolicy": "IfNotPresent",
            "name": "wait-for-db",
            "resources": {},
        }],
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {"fsGroup": 1000, "runAsNonRoot": true},
        "serviceAccount": app,
        "serviceAccountName": app,
        "terminationGracePeriodSeconds": 30,
        "volumes": [
            {"configMap": {"defaultMode": 420, "name": format!("{app}-config")}, "name": "config"},
            {"emptyDir": {}, "name": "scratch"},
        ],
    })
}

#[allow(clippy::too_many_arguments, reason = "the parts of an object, each of its own kind")]
fn object(
    random: &mut Random,
    api_version: &str,
    kind: &str,
    app: &str,
    generation: Option<u64>,
    created: &str,
    spec: Value,
    status: Value,
) -> Value {
    let mut metadata = json!({
        "annotations": {"meta.helm.sh/release-name": app, "meta.helm.sh/release-namespace": "shop"},
        "creationTimestamp": created,
        "labels": labels(app),
        "name": NAME_MARK,
        "namespace": "shop",
        "resourceVersion": random.below(100_000_000).to_string(),
        "uid": random.uid(),
    });
    if let Some(generation) = generation {
        set(&mut metadata, "generation", json!(generation));
    }
    let applied = json!({
        "metadata": {"annotations": metadata["annotations"], "labels": metadata["labels"]},
        "spec": spec,
    });
    let manager = |name: &str, fields: Value, subresource: Option<&str>| {
        let mut entry = json!({
            "apiVersion": api_version, "fieldsType": "FieldsV1", "fieldsV1": fields,
            "manager": name, "operation": "Update", "time": created,
        });
        if let Some(subresource) = subresource {
            set(&mut entry, "subresource", json!(subresource));
        }
        entry
    };
    let observer = if kind == "Pod" { "kubelet" } else { "kube-controller-manager" };
    let managed = json!([
        manager("helm", owned_fields(&applied), None),
        manager(observer, owned_fields(&json!({"status": status})), Some("status")),
    ]);
    set(&mut metadata, "managedFields", managed);
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status})
}

/// An object of a manifest or a test case as an API server returns it: with identity, times and managed fields.
pub(crate) fn served(random: &mut Random, object: &Value) -> Value {
    let mut object = object.clone();
    let app = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let (created, status) = (random.time(), object["status"].take());
    let applied = json!({"metadata": {"labels": labels(&app)}, "spec": object["spec"]});
    let entry = |manager: &str, fields: Value, subresource: &str| {
        let mut entry = json!({
            "apiVersion": object["apiVersion"], "fieldsType": "FieldsV1", "fieldsV1": fields,
            "manager": manager, "operation": "Update", "time": created,
        });
        if !subresource.is_empty() {
            set(&mut entry, "subresource", json!(subresource));
        }
        entry
    };
    let mut managed = vec![entry("helm", owned_fields(&applied), "")];
    if !status.is_null() {
        managed.push(entry("manager", owned_fields(&json!({"status": status})), "status"));
    }
    let Some(map) = object.as_object_mut() else { return object };
    let metadata = map.entry("metadata").or_insert_with(|| json!({}));
    set(metadata, "creationTimestamp", json!(created));
    set(metadata, "labels", labels(&app));
    set(metadata, "managedFields", Value::Array(managed));
    set(metadata, "name", json!(NAME_MARK));
    set(metadata, "namespace", json!("shop"));
    set(metadata, "resourceVersion", json!(random.below(100_000_000).to_string()));
    set(metadata, "uid", json!(random.uid()));
    if status.is_null() {
        map.remove("status");
    } else {
        map.insert("status".to_owned(), status);
    }
    object
}

/// The field set of a value in the format of managedFields: keys of maps, and items of lists by their merge key.
fn owned_fields(value: &Value) -> Value {
    let mut fields = Map::new();
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                fields.insert(format!("f:{key}"), owned_fields(value));
            }
        }
        Value::Array(items) => {
            for item in items {
                let Some(name) =
                    ["name", "type", "key", "containerPort"].iter().find(|key| item.get(**key).is_some())
                else {
                    continue;
                };
                let mut of_item = owned_fields(item);
                set(&mut of_item, ".", json!({}));
                fields.insert(format!("k:{}", json!({ *name: item[*name] })), of_item);
            }
        }
        _ => {}
    }
    Value::Object(fields)
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}

/// Block YAML in the format of `kubectl get -o yaml`.
pub(crate) fn write_yaml(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.extend(std::iter::repeat_n(' ', indent));
                }
                out.push_str(&yaml_string(key));
                out.push(':');
                match value {
                    Value::Object(map) if !map.is_empty() => {
                        out.push('\n');
                        out.extend(std::iter::repeat_n(' ', indent + 2));
                        write_yaml(value, indent + 2, out);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        out.push('\n');
                        write_yaml(value, indent, out);
                    }
                    _ => {
                        out.push(' ');
                        write_yaml(value, indent, out);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.extend(std::iter::repeat_n(' ', indent));
                out.push_str("- ");
                write_yaml(item, indent + 2, out);
            }
        }
        Value::String(text) => {
            out.push_str(&yaml_string(text));
            out.push('\n');
        }
        scalar => {
            out.push_str(&scalar.to_string());
            out.push('\n');
        }
    }
}

/// Plain if that is safe, otherwise quoted as in JSON, which YAML reads alike.
fn yaml_string(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(word);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if plain && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_asked_for_and_half_of_a_deployment_is_managed_fields() {
        let mut random = Random::new(SEED);
        for (make, bytes) in [
            (deployment as fn(&mut Random, usize) -> Value, 8_192),
            (deployment, 20_480),
            (pod, 11_264),
            (pod, 20_480),
        ] {
            let object = make(&mut random, bytes);
            let size = object.to_string().len();
            assert!((bytes..bytes + 600).contains(&size), "{size} for {bytes}");
            let managed = object["metadata"]["managedFields"].to_string().len();
            assert!((size / 3..size * 6 / 10).contains(&managed), "{managed} of {size} are managedFields");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_object() {
        let make = || deployment(&mut Random::new(SEED), 8_192);
        assert_eq!(make(), make());
    }

    #[test]
    fn yaml_is_written_as_kubectl_does() {
        let object = json!({"a": {"b": [{"c": 1, "d": []}, "x: y"], "f:e": {}}, "g": "yes", "h": "plain"});
        let mut text = String::new();
        write_yaml(&object, 0, &mut text);
        assert_eq!(
            text,
            "a:\n  b:\n  - c: 1\n    d: []\n  - \"x: y\"\n  \"f:e\": {}\ng: \"yes\"\nh: plain\n"
        );
    }
}
