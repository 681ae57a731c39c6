//! What the server keeps about itself.

use http::Method;
use serde_json::{Value, json};
use settled_apiserver::{Config, Controllers, ServiceRange};

use crate::surface::Client;

const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const TRUST: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const CIDR: &str = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";

async fn start() -> Client {
    let mut config = Config::default();
    // They are kept by the server, not by controllers.
    config.controllers = Controllers::none();
    config.service_range = ServiceRange::parse("10.0.0.0/24,fd00::/108").unwrap();
    Client::new(config).await
}

async fn object(client: &Client, path: &str) -> Value {
    let mut object = client.get(path, &[]).await.json();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| name == "name" || name == "labels");
    }
    object
}

#[tokio::test]
async fn the_service_kubernetes_is_there() {
    let client = start().await;
    assert_eq!(
        object(&client, SERVICE).await,
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                "sessionAffinity": "None", "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        })
    );
    let cidr = object(&client, CIDR).await;
    assert_eq!(cidr["spec"], json!({"cidrs": ["10.0.0.0/24", "fd00::/108"]}));
    let ready = &cidr["status"]["conditions"][0];
    assert_eq!(
        [&ready["type"], &ready["status"], &ready["message"]],
        ["Ready", "True", "Kubernetes default Service CIDR is ready"]
    );
    let trust = object(&client, TRUST).await;
    let authority = trust["data"]["client-ca-file"].as_str().unwrap();
    assert!(authority.starts_with("-----BEGIN CERTIFICATE-----\n"), "{authority}");
    // Nobody reaches a server that does not listen.
    assert_eq!(client.get(ENDPOINTS, &[]).await.code, 404);

    // One that listens on loopback is reached from its own machine only: upstream allows no such address.
    let address = client.0.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    assert_eq!(object(&client, SERVICE).await["spec"]["ports"][0]["targetPort"], address.port());
    let endpoints = object(&client, ENDPOINTS).await;
    assert_eq!(endpoints["metadata"]["labels"], json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    assert_eq!(endpoints["subsets"].as_array().map_or(0, Vec::len), 0);
    let slice = object(&client, SLICE).await;
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    assert_eq!((&slice["addressType"], &slice["endpoints"]), (&json!("IPv4"), &Value::Null));
}

#[tokio::test]
async fn what_is_deleted_or_changed_comes_back() {
    let client = start().await;
    client.0.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    for path in [SERVICE, ENDPOINTS, SLICE, TRUST, CIDR] {
        let before = client.get(path, &[]).await.json();
        let got = client.send(Method::DELETE, path, &[], Value::Null).await;
        assert_eq!(got.code, 200, "{path}: {}", got.text());
        assert_eq!(client.wait(path, 200).await, 200, "{path}");
        let after = client.get(path, &[]).await.json();
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"], "{path}");
    }
    let merge = [("content-type", "application/merge-patch+json")];
    let changes = [
        (TRUST, "/data/client-ca-file", json!({"data": {"client-ca-file": "none", "own": "kept"}})),
        (
            ENDPOINTS,
            "/subsets",
            json!({"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 1}]}]}),
        ),
    ];
    for (path, pointer, change) in changes {
        let before = client.get(path, &[]).await.json();
        let got = client.send(Method::PATCH, path, &merge, change).await;
        assert_eq!(got.code, 200, "{path}: {}", got.text());
        let mut after = got.json();
        for _ in 0..10_000 {
            if after.pointer(pointer) == before.pointer(pointer) {
                break;
            }
            tokio::task::yield_now().await;
            after = client.get(path, &[]).await.json();
        }
        assert_eq!(after.pointer(pointer), before.pointer(pointer), "{path}");
    }
    assert_eq!(client.get(TRUST, &[]).await.json()["data"]["own"], "kept");
}
