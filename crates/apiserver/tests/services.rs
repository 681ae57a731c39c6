//! No two Services get the same address or port, also under concurrent requests.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use settled_apiserver::{Config, Server, ServiceRange};

use crate::watching::{send, start};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn create(server: &Server, name: &str, spec: &Value) -> (u16, Value) {
    send(server, Method::POST, SERVICES, Some(&service(name, spec))).await
}

fn port(node_port: u64) -> Value {
    json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": node_port}]})
}

#[tokio::test]
async fn of_many_who_ask_for_a_port_at_once_one_gets_it() {
    let server = start().await;
    let names: Vec<String> = (0..30).map(|at| format!("a{at}")).collect();
    let spec = port(30_080);
    let answers = futures::future::join_all(names.iter().map(|name| create(&server, name, &spec))).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 201);
    assert_eq!((made.len(), refused.len()), (1, 29));
    for (status, answer) in refused {
        assert_eq!(status, 422);
        let cause = &answer["details"]["causes"][0];
        assert_eq!(cause["field"], "spec.ports[0].nodePort");
        assert_eq!(cause["message"], "Invalid value: 30080: provided port is already allocated");
    }
}

#[tokio::test]
async fn everybody_gets_an_address_of_their_own() {
    let server = start().await;
    let names: Vec<String> = (0..60).map(|at| format!("a{at}")).collect();
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let answers = futures::future::join_all(names.iter().map(|name| create(&server, name, &spec))).await;
    let spec = |field: &str| answers.iter().map(|(_, made)| made["spec"][field].to_string()).collect();
    let addresses: BTreeSet<String> = spec("clusterIP");
    let ports: BTreeSet<String> = spec("ports");
    assert_eq!((addresses.len(), ports.len()), (60, 60));
}

#[tokio::test]
async fn what_a_service_gives_up_is_free_again() {
    let server = start().await;
    let address = json!({"clusterIP": "10.100.1.1", "ports": [{"port": 80}]});
    let taken = |answer: &Value| answer["details"]["causes"][0]["message"].clone();

    assert_eq!(create(&server, "a", &address).await.0, 201);
    let (status, answer) = create(&server, "b", &address).await;
    assert_eq!(status, 422);
    assert_eq!(
        taken(&answer),
        "Invalid value: [\"10.100.1.1\"]: failed to allocate IP 10.100.1.1: provided IP is already allocated"
    );
    let (status, _) = send(&server, Method::DELETE, &format!("{SERVICES}/a"), None).await;
    assert_eq!(status, 200);
    assert_eq!(create(&server, "b", &address).await.0, 201);

    // A port changes hands by an update.
    assert_eq!(create(&server, "c", &port(30_100)).await.0, 201);
    let change = json!({"spec": {"type": "ClusterIP"}});
    let (status, changed) = send(&server, Method::PATCH, &format!("{SERVICES}/c"), Some(&change)).await;
    assert_eq!((status, &changed["spec"]["ports"][0]["nodePort"]), (200, &Value::Null));
    let (status, made) = create(&server, "d", &port(30_100)).await;
    assert_eq!(status, 201, "{made}");
    let change = json!({"spec": port(30_100)});
    let (status, answer) = send(&server, Method::PATCH, &format!("{SERVICES}/c"), Some(&change)).await;
    assert_eq!(status, 422);
    assert_eq!(taken(&answer), "Invalid value: 30100: provided port is already allocated");
}

#[tokio::test]
async fn a_refused_service_holds_nothing() {
    let server = start().await;
    let outside =
        json!({"clusterIP": "192.168.1.1", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30200}]});
    let (status, answer) = create(&server, "a", &outside).await;
    assert_eq!(status, 422);
    assert_eq!(
        answer["details"]["causes"][0]["message"],
        "Invalid value: [\"192.168.1.1\"]: failed to allocate IP 192.168.1.1: the provided network does not match the current range"
    );
    // Neither a dry run nor a name that is taken.
    let dry = format!("{SERVICES}?dryRun=All");
    let (status, _) = send(&server, Method::POST, &dry, Some(&service("a", &port(30_200)))).await;
    assert_eq!(status, 201);
    assert_eq!(create(&server, "b", &port(30_201)).await.0, 201);
    assert_eq!(create(&server, "b", &port(30_200)).await.0, 409);
    assert_eq!(create(&server, "a", &port(30_200)).await.0, 201);
}

#[tokio::test]
async fn a_type_leaves_behind_what_only_it_used() {
    let server = start().await;
    let balancer = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "example.com/x",
        "ports": [{"port": 80}],
    });
    let (status, made) = create(&server, "a", &balancer).await;
    assert_eq!(status, 201, "{made}");
    let check = made["spec"]["healthCheckNodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&check) && made["spec"]["ports"][0]["nodePort"] != check);

    let path = format!("{SERVICES}/a");
    let change = json!({"spec": {"type": "ClusterIP"}});
    let (status, changed) = send(&server, Method::PATCH, &path, Some(&change)).await;
    assert_eq!(status, 200, "{changed}");
    let left = [
        "healthCheckNodePort",
        "externalTrafficPolicy",
        "loadBalancerClass",
        "allocateLoadBalancerNodePorts",
    ];
    assert!(left.iter().all(|field| changed["spec"].get(field).is_none()), "{changed}");
    assert_eq!(changed["spec"]["clusterIP"], made["spec"]["clusterIP"]);
}

/// What a Service asks for, and what it gets in a range; addresses of a family are a prefix, unless they were asked for.
#[tokio::test]
async fn services_get_addresses_of_the_configured_families() {
    let dual = "10.0.0.0/24,fd00::/108";
    let cases = [
        ("10.0.0.0/24", json!({}), Ok((vec!["10.0.0."], vec!["IPv4"]))),
        ("fd00::/108", json!({}), Ok((vec!["fd00::"], vec!["IPv6"]))),
        ("fd00::/108,10.0.0.0/24", json!({}), Ok((vec!["fd00::"], vec!["IPv6"]))),
        (
            dual,
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            Ok((vec!["10.0.0.", "fd00::"], vec!["IPv4", "IPv6"])),
        ),
        (
            dual,
            json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}),
            Ok((vec!["fd00::", "10.0.0."], vec!["IPv6", "IPv4"])),
        ),
        (dual, json!({"ipFamilies": ["IPv6"]}), Ok((vec!["fd00::"], vec!["IPv6"]))),
        (dual, json!({"clusterIP": "fd00::7"}), Ok((vec!["fd00::7"], vec!["IPv6"]))),
        (
            dual,
            json!({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7", "fd00::7"], "ipFamilyPolicy": "PreferDualStack"}),
            Ok((vec!["10.0.0.7", "fd00::7"], vec!["IPv4", "IPv6"])),
        ),
        ("10.0.0.0/24", json!({"ipFamilyPolicy": "PreferDualStack"}), Ok((vec!["10.0.0."], vec!["IPv4"]))),
        (
            "10.0.0.0/24",
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            Err(
                r#"Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
            ),
        ),
        (
            "fd00::/108",
            json!({"clusterIP": "10.0.0.7"}),
            Err(r#"Invalid value: ["10.0.0.7"]: IPv4 is not configured on this cluster"#),
        ),
        (
            "10.0.0.0/24",
            json!({"clusterIP": "10.96.0.7"}),
            Err(
                r#"Invalid value: ["10.96.0.7"]: failed to allocate IP 10.96.0.7: the provided network does not match the current range"#,
            ),
        ),
        (
            "10.0.0.0/24",
            json!({"clusterIP": "10.0.0.1"}),
            Err(
                r#"Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1: provided IP is already allocated"#,
            ),
        ),
    ];
    for (range, mut spec, wanted) in cases {
        let mut config = Config::default();
        config.service_range = ServiceRange::parse(range).unwrap();
        let server = Server::start(config).await.unwrap();
        spec["ports"] = json!([{"port": 80}]);
        spec["selector"] = json!({"app": "a"});
        let (status, made) = create(&server, "a", &spec).await;
        let cause = made["details"]["causes"][0]["message"].as_str();
        match wanted {
            Err(wanted) => assert_eq!((status, cause), (422, Some(wanted)), "{range} {spec}"),
            Ok((addresses, families)) => {
                assert_eq!(made["spec"]["ipFamilies"], json!(families), "{range} {spec}: {made}");
                let given = made["spec"]["clusterIPs"].as_array().unwrap();
                let fits = given.iter().zip(&addresses);
                let fits = fits.filter(|(given, start)| given.as_str().unwrap().starts_with(**start)).count();
                assert_eq!((given.len(), fits), (addresses.len(), addresses.len()), "{range} {spec}: {made}");
                assert_eq!(made["spec"]["clusterIP"], given[0]);
            }
        }
    }
}

/// A range of eight has six addresses; the Service `kubernetes` has one.
#[tokio::test]
async fn a_range_can_be_used_up() {
    let mut config = Config::default();
    config.service_range = ServiceRange::parse("10.0.0.0/29").unwrap();
    let server = Server::start(config).await.unwrap();
    let spec = json!({"ports": [{"port": 80}]});
    for at in 0..5 {
        assert_eq!(create(&server, &format!("a{at}"), &spec).await.0, 201);
    }
    let (status, answer) = create(&server, "b", &spec).await;
    let message = r#"Internal error occurred: failed to allocate a serviceIP for Service "b": range is full"#;
    assert_eq!((status, answer["message"].as_str()), (500, Some(message)));
}
