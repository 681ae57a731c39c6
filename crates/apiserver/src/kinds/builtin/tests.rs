use serde_json::{Value, json};
use settled_manifest::{Item, Scratch, Splitter};

use super::decode::Decoded;
use super::packages::component;
use super::*;
use crate::kinds::strategies;
use crate::kinds::strategy::Requester;
use crate::kinds::validation::validate_builtin;

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn prepare_for_create(kind: &BuiltinKind, object: &mut Value) {
    let requester = Requester { name: "", uid: "", groups: &[], extra: &Default::default() };
    (strategies::find(kind.group, kind.kind).prepare_for_create)(object, &requester);
}

/// What is wrong with a new object, or with the change of one.
fn refusals(kind: &BuiltinKind, new: &Value, old: Option<&Value>) -> Vec<crate::Cause> {
    let paired = |object: &Value| {
        let mut object = object.clone();
        if kind.kind == "Service" {
            crate::state::services::normalize(&mut object, None);
        }
        object
    };
    let (new, old) = (&paired(new), old.map(paired));
    let old = old.as_ref();
    let strategy = strategies::find(kind.group, kind.kind);
    let Some(old) = old else { return validate_builtin(kind, strategy, new) };
    let mut causes = crate::metadata::validate_update(new, old);
    causes.extend(strategy.validate_content(new, Some(old)));
    causes
}

#[test]
fn every_kind_has_a_schema_and_the_data_unpacks() {
    assert_eq!(kinds().len(), 68);
    for kind in kinds() {
        let schema = component(kind.schema_name).unwrap_or_else(|| panic!("{}", kind.schema_name));
        assert!(schema.get("properties").is_some(), "{}", kind.schema_name);
        for document in [schemas(&kind.api_version()).as_ref(), &document(&kind.api_version())] {
            let document = document.as_object().expect("an object");
            let list = format!("{}List", kind.schema_name);
            let stored = kind.verbs.contains(&"list");
            assert!(
                document.contains_key(kind.schema_name) && (!stored || document.contains_key(&list)),
                "{}",
                kind.kind
            );
            let text = serde_json::to_string(document).expect("JSON");
            for target in text.split("#/components/schemas/").skip(1) {
                let target = target.split('"').next().unwrap_or_default();
                assert!(document.contains_key(target), "{}: {target}", kind.kind);
            }
            assert!(!text.contains("x-go-"));
        }
    }
    assert!(document("apps/v1").to_string().len() > 200_000);
    assert_eq!(schemas("nope/v1").as_object().map(serde_json::Map::len), Some(0));
    assert_eq!(bootstrap_rbac().len(), 133);
}

#[test]
fn defaults_are_read_and_belong_to_schemas() {
    let read = steps::read().expect("defaults.yaml is well formed");
    for name in read.keys() {
        let prefixes =
            ["io.k8s.api.", "io.k8s.apiextensions-apiserver.pkg.apis.", "io.k8s.kube-aggregator.pkg.apis."];
        assert!(prefixes.iter().any(|prefix| component(&format!("{prefix}{name}")).is_some()), "{name}");
    }
}

fn documents(text: &str) -> Vec<Value> {
    let mut splitter = Splitter::new(text.as_bytes());
    let mut found = Vec::new();
    let mut scratch = Scratch::default();
    while let Some(batch) = splitter.next_batch(Default::default()).expect("a batch") {
        batch.objects(&mut scratch, |item| match item {
            Item::Object(object) => found.push(serde_json::from_slice(object.json).expect("JSON")),
            Item::Malformed(why) => panic!("{why}"),
        });
    }
    found
}

fn kind_of(object: &Value) -> &'static BuiltinKind {
    let api_version = text(object, "apiVersion").unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    find(group, version, text(object, "kind").unwrap_or_default()).unwrap_or_else(|| panic!("{object}"))
}

/// What is not a default, but what a strategy, an admission plugin or a controller puts there: left out on both sides.
const OTHERS: [(&str, &[&str]); 12] = [
    ("", &["/metadata/generation"]),
    ("Namespace", &["/spec/finalizers"]),
    (
        "Service",
        &[
            "/spec/clusterIP",
            "/spec/clusterIPs",
            "/spec/ipFamilies",
            "/spec/ipFamilyPolicy",
            "/spec/ports/0/nodePort",
            "/spec/ports/1/nodePort",
        ],
    ),
    ("Endpoints", &["/metadata/labels"]),
    (
        "Pod",
        &[
            "/spec/priority",
            "/spec/preemptionPolicy",
            "/spec/tolerations",
            "/status/phase",
            "/status/qosClass",
        ],
    ),
    ("PersistentVolumeClaim", &["/metadata/finalizers"]),
    ("PersistentVolume", &["/metadata/finalizers", "/status/lastPhaseTransitionTime"]),
    ("Job", &["/spec/selector", "/spec/template/metadata/labels", "/metadata/labels"]),
    ("DaemonSet", &["/metadata/annotations"]),
    ("Node", &["/spec/taints", "/spec/podCIDRs"]),
    ("CustomResourceDefinition", &["/status"]),
    ("APIService", &["/status/conditions", "/metadata/labels"]),
];

/// What this server has beyond Kubernetes, which starts as an empty object: it must be there, and is left out on our side.
const ADDED: [(&str, &str); 1] = [("NetworkPolicy", "/status")];

fn without_additions(object: &Value) -> Value {
    let mut object = object.clone();
    let kind = text(&object, "kind").unwrap_or_default().to_owned();
    for (row, place) in ADDED {
        if row == kind {
            let (parent, last) = place.rsplit_once('/').expect("a path");
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
            assert_eq!(parent.remove(last), Some(json!({})), "{kind}{place}");
        }
    }
    object
}

fn without(object: &Value) -> Value {
    let mut object = object.clone();
    let kind = text(&object, "kind").unwrap_or_default().to_owned();
    for (row, paths) in OTHERS {
        for path in paths.iter().filter(|_| row.is_empty() || row == kind) {
            let (parent, last) = path.rsplit_once('/').expect("a path");
            if let Some(Value::Object(map)) = object.pointer_mut(parent) {
                map.remove(last);
            }
        }
    }
    object
}

#[test]
fn objects_are_defaulted_as_upstream_does() {
    let given = documents(include_str!("../../../tests/builtin/objects.yaml"));
    let wanted: Vec<Value> = include_str!("../../../tests/builtin/defaulted.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(given.len(), wanted.len());
    let mut wrong = Vec::new();
    for (given, wanted) in given.iter().zip(&wanted) {
        let kind = kind_of(given);
        let mut found = given.clone();
        assert_eq!(decode(kind, &mut found), Decoded::default(), "{given}");
        default(kind, &mut found);
        let once = found.clone();
        decode(kind, &mut found);
        default(kind, &mut found);
        assert_eq!(found, once, "a second time changes something");
        set_zero_values(kind, &mut found);
        let (mut differences, mut path) = (Vec::new(), String::new());
        differ(&without(&without_additions(&found)), &without(wanted), &mut path, &mut differences);
        let name = found.pointer("/metadata/name").cloned().unwrap_or_default();
        wrong.extend(differences.into_iter().map(|line| format!("{} {name} {line}", kind.kind)));
    }
    assert!(wrong.is_empty(), "ours, then upstream's:\n{}", wrong.join("\n"));
}

fn differ(ours: &Value, theirs: &Value, path: &mut String, into: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let length = path.len();
                path.push('/');
                path.push_str(name);
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => differ(a, b, path, into),
                    (a, b) => into.push(format!("{path}: {a:?} {b:?}")),
                }
                path.truncate(length);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                let length = path.len();
                path.push_str(&format!("/{index}"));
                differ(a, b, path, into);
                path.truncate(length);
            }
        }
        (a, b) if a != b => into.push(format!("{path}: {a} {b}")),
        _ => {}
    }
}

#[test]
fn what_go_cannot_decode_is_named_as_go_does() {
    let deployment = |with: Value| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        merge(&mut object, &with);
        object
    };
    let spec = |spec: Value| deployment(json!({"spec": spec}));
    let container = |container: Value| spec(json!({"template": {"spec": {"containers": [container]}}}));
    let secret = |data: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": data}});
    let event = |time: &str| json!({"apiVersion": "v1", "kind": "Event", "firstTimestamp": time});
    let lease = |time: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": time}});
    let into =
        |given: &str, field: &str| format!("json: cannot unmarshal {given} into Go struct field {field}");
    let at = "Container.spec.template.spec.containers";
    let quantity =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let cases = [
        (spec(json!({"replicas": "3"})), into("string", "DeploymentSpec.spec.replicas of type int32")),
        (spec(json!({"replicas": 1.5})), into("number 1.5", "DeploymentSpec.spec.replicas of type int32")),
        (spec(json!({"replicas": 3_000_000_000_u64})), into("number 3000000000", "DeploymentSpec.spec.replicas of type int32")),
        (spec(json!({"paused": "x"})), into("string", "DeploymentSpec.spec.paused of type bool")),
        (spec(json!([])), into("array", "Deployment.spec of type v1.DeploymentSpec")),
        (container(json!({"image": 3})), into("number", &format!("{at}.image of type string"))),
        (container(json!({"imagePullPolicy": 3})), into("number", &format!("{at}.imagePullPolicy of type v1.PullPolicy"))),
        (container(json!({"ports": {}})), into("object", &format!("{at}.ports of type []v1.ContainerPort"))),
        (container(json!({"ports": [3]})), into("number", &format!("{at}.ports of type v1.ContainerPort"))),
        (container(json!({"command": "x"})), into("string", &format!("{at}.command of type []string"))),
        (container(json!({"resources": 3})), into("number", &format!("{at}.resources of type v1.ResourceRequirements"))),
        (container(json!({"resources": {"limits": {"cpu": "x"}}})), quantity.to_owned()),
        (container(json!({"resources": {"limits": {"cpu": true}}})), quantity.to_owned()),
        (deployment(json!({"metadata": {"labels": {"a": 3}}})), into("number", "ObjectMeta.metadata.labels of type string")),
        (deployment(json!({"metadata": {"labels": []}})), into("array", "ObjectMeta.metadata.labels of type map[string]string")),
        (deployment(json!({"metadata": {"creationTimestamp": 3}})), into("number", "ObjectMeta.metadata.creationTimestamp of type string")),
        (spec(json!({"strategy": {"rollingUpdate": {"maxSurge": true}}})), into("bool", "RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32")),
        (secret("!!"), "illegal base64 data at input byte 0".to_owned()),
        (secret("YQ"), "illegal base64 data at input byte 0".to_owned()),
        (secret("YQ=x"), "illegal base64 data at input byte 2".to_owned()),
        (secret("YQ===="), "illegal base64 data at input byte 4".to_owned()),
        (event("x"), "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"".to_owned()),
        (event("2026-01-02"), "parsing time \"2026-01-02\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\"".to_owned()),
        (lease("2026-01-02T03:04:05Z"), "parsing time \"2026-01-02T03:04:05Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"".to_owned()),
    ];
    for (mut object, wanted) in cases {
        assert_eq!(decode(kind_of(&object), &mut object).error, Some(wanted), "{object}");
    }
    let mut object = container(json!({"imagee": "x", "resources": {"limit": {}}}));
    let unknown =
        ["spec.template.spec.containers[0].imagee", "spec.template.spec.containers[0].resources.limit"];
    assert_eq!(decode(kind_of(&object), &mut object).unknown, unknown);
    assert_eq!(object, container(json!({"resources": {}})));
}

#[test]
fn quantities_are_stored_as_upstream_writes_them() {
    // What Go's decoder answers: a text that it takes to be canonical is kept.
    let cases = [
        ("0.5", Ok("500m")),
        ("1.500", Ok("1.500")),
        ("5E3", Ok("5E3")),
        ("+1", Ok("+1")),
        ("0.0001n", Ok("1m")),
        ("1000E", Ok("1")),
        ("1e20", Ok("100e18")),
        ("99999999999999999999999999999999999999999", Ok("99999999999999999999999999999999999999999")),
        ("-", Ok("0")),
        ("1kk", Err("unable to parse quantity's suffix")),
        (
            "",
            Err(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
        ),
    ];
    for (given, wanted) in cases {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": given}}}]},
        });
        let error = decode(kind_of(&pod), &mut pod).error;
        let stored = pod.pointer("/spec/containers/0/resources/limits/cpu").and_then(Value::as_str);
        match wanted {
            Ok(wanted) => assert_eq!((error, stored), (None, Some(wanted)), "{given}"),
            Err(wanted) => assert_eq!(error.as_deref(), Some(wanted), "{given}"),
        }
    }
}

#[test]
fn metadata_is_refused_as_upstream_does() {
    let owner = |api_version: &str, kind: &str| json!({"name": "a", "ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "b", "uid": "c"}]});
    // What ValidateObjectMeta answers.
    let cases = [
        (json!({"generateName": "ab_-", "name": "a"}), None),
        (json!({"generateName": "A-", "name": "a"}), None),
        (json!({"generateName": format!("{}-", "a".repeat(253)), "name": "a"}), None),
        (
            json!({"generateName": format!("{}-", "a".repeat(254)), "name": "a"}),
            Some("must be no more than 253 characters"),
        ),
        (owner("/v1", "Event"), Some("/v1, Kind=Event is disallowed from being an owner")),
        (owner("v1", "Event"), Some("/v1, Kind=Event is disallowed from being an owner")),
        (owner("a/b/c", "A"), Some("version must not be empty")),
        (owner("/v1", "A"), None),
    ];
    for (mut metadata, wanted) in cases {
        metadata["namespace"] = "default".into();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let causes = refusals(kind_of(&map), &map, None);
        let found: Vec<&str> = causes.iter().map(|cause| cause.message.as_str()).collect();
        match wanted {
            None => assert!(found.is_empty(), "{map}: {found:?}"),
            Some(wanted) => {
                assert!(found.len() == 1 && found[0].ends_with(wanted), "{map}: {found:?}");
            }
        }
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if let Value::Object(target) = target {
            if value.is_null() {
                target.remove(name);
            } else {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
    }
}

/// Upstream adds the difference in the form of its own structs, which have other names: what ours begin with.
const DIFFERENCES: [&str; 3] = [
    "pod updates may not change",
    "spec is immutable after creation",
    "spec.persistentvolumesource is immutable",
];

#[test]
fn objects_are_refused_as_upstream_does() {
    let objects = documents(include_str!("../../../tests/builtin/objects.yaml"));
    let cases = documents(include_str!("../../../tests/builtin/invalid.yaml"));
    let recorded: Vec<Value> = include_str!("../../../tests/builtin/refused.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(cases.len(), recorded.len());
    let mut wrong = Vec::new();
    for (case, recorded) in cases.iter().zip(&recorded) {
        let of = text(case, "of").unwrap_or_default();
        let named = |object: &&Value| {
            of == format!(
                "{} {}",
                object["kind"].as_str().unwrap_or_default(),
                object["metadata"]["name"].as_str().unwrap_or_default()
            )
        };
        let object = objects.iter().find(named).unwrap_or_else(|| panic!("{of}"));
        let kind = kind_of(object);
        let old = recorded.get("old");
        let mut new = old.unwrap_or(object).clone();
        merge(&mut new, &case["with"]);
        assert_eq!(decode(kind, &mut new), Decoded::default(), "{case}");
        default(kind, &mut new);
        if old.is_none() {
            let marker = "controller-uid\\\":\\\"";
            let known = recorded.to_string().split(marker).nth(1).map(|rest| rest[..36].to_owned());
            new["metadata"]["uid"] = known.unwrap_or_else(|| "u".to_owned()).into();
            prepare_for_create(kind, &mut new);
        }
        let line = |cause: [&str; 3]| cause.join(" | ");
        let mut found: Vec<String> = refusals(kind, &new, old)
            .iter()
            .map(|cause| line([&cause.reason, &cause.field, &cause.message]))
            .collect();
        let causes = recorded["causes"].as_array().cloned().unwrap_or_default();
        let mut wanted: Vec<String> = causes
            .iter()
            .map(|cause| {
                line(["reason", "field", "message"].map(|name| text(cause, name).unwrap_or_default()))
            })
            .map(|line| match DIFFERENCES.iter().any(|known| line.contains(known)) {
                true => line.split('\n').next().unwrap_or_default().to_owned(),
                false => line,
            })
            .collect();
        // Go walks maps in any order, and says what two rules say only once.
        found.sort();
        found.dedup();
        wanted.sort();
        wanted.dedup();
        if found != wanted {
            let (more, less): (Vec<_>, Vec<_>) = (
                found.iter().filter(|line| !wanted.contains(line)).collect(),
                wanted.iter().filter(|line| !found.contains(line)).collect(),
            );
            wrong.push(format!("{case}\n  only ours:   {more:#?}\n  only theirs: {less:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_upstream_takes_is_valid() {
    for given in documents(include_str!("../../../tests/builtin/objects.yaml")) {
        let kind = kind_of(&given);
        let mut object = given.clone();
        decode(kind, &mut object);
        default(kind, &mut object);
        object["metadata"]["uid"] = "u".into();
        // Updates of CRDs must name one.
        object["metadata"]["resourceVersion"] = "1".into();
        prepare_for_create(kind, &mut object);
        assert_eq!(refusals(kind, &object, None), [], "{given}");
        assert_eq!(refusals(kind, &object, Some(&object)), [], "{given}");
    }
    for role in bootstrap_rbac() {
        let kind = kind_of(&role);
        let mut object = role.clone();
        assert_eq!(decode(kind, &mut object), Decoded::default(), "{role}");
        default(kind, &mut object);
        assert_eq!(refusals(kind, &object, None), [], "{role}");
    }
}

#[test]
fn views_of_one_object_become_each_other() {
    for given in documents(include_str!("../../../tests/builtin/objects.yaml")) {
        let kind = kind_of(&given);
        for other in kinds().iter().filter(|other| std::ptr::eq(stored_as(other), stored_as(kind))) {
            let mut object = given.clone();
            decode(kind, &mut object);
            default(kind, &mut object);
            let before = object.clone();
            convert(kind, other, &mut object);
            assert_eq!(object["apiVersion"], other.api_version());
            convert(other, kind, &mut object);
            assert_eq!(object, before);
        }
    }
    // As upstream answers.
    let turned = |from: Value, to: &str| {
        let mut object = from;
        let from = kind_of(&object);
        default(from, &mut object);
        let to =
            kinds().iter().find(|kind| kind.kind == from.kind && kind.api_version() == to).expect("a kind");
        convert(from, to, &mut object);
        object
    };
    assert_eq!(
        turned(
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "message": "m", "count": 2,
                "involvedObject": {"kind": "Pod"}, "source": {"component": "c"}, "lastTimestamp": "2026-01-02T03:04:05Z"}),
            "events.k8s.io/v1"
        ),
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "note": "m",
            "deprecatedCount": 2, "regarding": {"kind": "Pod"}, "deprecatedSource": {"component": "c"}, "eventTime": null,
            "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": "2026-01-02T03:04:05Z"})
    );
    assert_eq!(
        turned(
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 3,
                "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}}}),
            "autoscaling/v1"
        ),
        json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {},
            "spec": {"maxReplicas": 3, "minReplicas": 1, "targetCPUUtilizationPercentage": 80,
                "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}},
            "status": {"currentReplicas": 0, "desiredReplicas": 0}})
    );
}

/// Any JSON in any place: nothing panics.
#[test]
fn nonsense_is_survived() {
    let junk = [
        json!(null),
        json!([]),
        json!({}),
        json!([null]),
        json!("x"),
        json!(-1),
        json!(1.5),
        json!([{"name": null}, 3]),
        json!({"a": {"b": []}}),
    ];
    for given in documents(include_str!("../../../tests/builtin/objects.yaml")) {
        let kind = kind_of(&given);
        let mut paths = Vec::new();
        pointers(&given, &mut String::new(), &mut paths);
        for path in paths {
            for junk in &junk {
                let mut object = given.clone();
                if let Some(place) = object.pointer_mut(&path) {
                    *place = junk.clone();
                }
                decode(kind, &mut object);
                default(kind, &mut object);
                prepare_for_create(kind, &mut object);
                refusals(kind, &object, None);
                refusals(kind, &object, Some(&given));
            }
        }
    }
}

fn pointers(value: &Value, path: &mut String, into: &mut Vec<String>) {
    into.push(path.clone());
    let length = path.len();
    let nested: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (name, value) in nested {
        path.push('/');
        path.push_str(&name);
        pointers(value, path, into);
        path.truncate(length);
    }
}
