//! Random walk: a script of operations generated from a seed.
//!
//! A walk consists of episodes, each in a namespace of its own, so that a difference does not cause later ones.
//! Operations depend only on the seed; data from earlier responses (resource versions, objects, UIDs) come from
//! variables.

use serde_json::{Value, json};

use crate::case::{self, Case, CaseFile};
use crate::target::Error;
use crate::vars::Vars;

/// Operations per episode.
const EPISODE: usize = 200;

/// Seed and length of the recorded walk. The length is limited by the duration of the test.
pub const RECORDED_WALK: (u64, usize) = (1, 1000);

/// Names of objects; few, so that operations conflict.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Kinds that the walk writes. Both versions of Gadgets are the same objects.
const KINDS: [Kind; 7] = [
    Kind {
        slot: "cm",
        path: "/api/v1/namespaces/<ns>/configmaps",
        version: "v1",
        kind: "ConfigMap",
        parts: Parts::None,
    },
    Kind {
        slot: "secret",
        path: "/api/v1/namespaces/<ns>/secrets",
        version: "v1",
        kind: "Secret",
        parts: Parts::None,
    },
    Kind {
        slot: "deploy",
        path: "/apis/apps/v1/namespaces/<ns>/deployments",
        version: "apps/v1",
        kind: "Deployment",
        parts: Parts::Scale,
    },
    Kind {
        slot: "widget",
        path: "/apis/walk.example.com/v1/namespaces/<ns>/widgets",
        version: "walk.example.com/v1",
        kind: "Widget",
        parts: Parts::Scale,
    },
    Kind {
        slot: "pod",
        path: "/api/v1/namespaces/<ns>/pods",
        version: "v1",
        kind: "Pod",
        parts: Parts::Status,
    },
    Kind {
        slot: "gadget",
        path: "/apis/walk.example.com/v1/namespaces/<ns>/gadgets",
        version: "walk.example.com/v1",
        kind: "Gadget",
        parts: Parts::None,
    },
    Kind {
        slot: "gadget",
        path: "/apis/walk.example.com/v2/namespaces/<ns>/gadgets",
        version: "walk.example.com/v2",
        kind: "Gadget",
        parts: Parts::None,
    },
];

struct Kind {
    /// Prefix of its variables.
    slot: &'static str,
    path: &'static str,
    version: &'static str,
    kind: &'static str,
    parts: Parts,
}

/// Subresources of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    None,
    Status,
    /// Status and scale, with `spec.replicas`.
    Scale,
}

/// The cases of a walk with at least this many operations.
///
/// # Errors
///
/// Never for valid arguments: the cases are built like those of files.
///
/// # Examples
///
/// ```
/// let walk = settled_conformance::walk(1, 1000)?;
/// assert_eq!(walk.cases.len(), 5);
/// # Ok::<(), settled_conformance::Error>(())
/// ```
pub fn walk(seed: u64, operations: usize) -> Result<CaseFile, Error> {
    let name = format!("walk-{seed}");
    let steps = |values: &[Value]| -> Result<Vec<_>, Error> {
        values.iter().map(|value| case::step(value).map_err(|why| Error::file(&name, why))).collect()
    };
    let mut vars = Vars::default();
    for kind in &KINDS {
        let slot = kind.slot;
        for object in NAMES {
            vars.set(&format!("rv-{slot}-{object}"), "1".into());
            vars.set(&format!("uid-{slot}-{object}"), "00000000-0000-0000-0000-000000000000".into());
            let body = json!({"apiVersion": kind.version, "kind": kind.kind, "metadata": {"name": object}});
            vars.set(&format!("object-{slot}-{object}"), body);
        }
    }
    vars.set("continue", "none".into());
    let mut random = Random(seed);
    let mut cases = Vec::new();
    for episode in 0..operations.div_ceil(EPISODE) {
        let mut values = vec![json!({"GET": KINDS[0].path, "pick": "/kind",
            "save": {"start": "/metadata/resourceVersion"}})];
        values.extend((1..EPISODE).map(|_| random.operation()));
        let name = format!("walk-{seed}-{episode}");
        cases.push(Case { name, steps: steps(&values)?, readers: steps(&readers())?, namespaced: true });
    }
    Ok(CaseFile { name: name.clone(), setup: steps(&setup())?, cases, vars })
}

/// Watches that read all events of an episode.
fn readers() -> Vec<Value> {
    let watch = |kind: &Kind, select: &str| json!({"WATCH": format!("{}?watch=1&resourceVersion=<start>&timeoutSeconds=1{select}", kind.path)});
    let all = KINDS.iter().map(|kind| watch(kind, ""));
    let some = KINDS.iter().take(4).flat_map(|kind| {
        [
            watch(kind, "&labelSelector=x=1"),
            watch(kind, "&fieldSelector=metadata.name=b&allowWatchBookmarks=true"),
        ]
    });
    all.chain(some).collect()
}

fn setup() -> Vec<Value> {
    let rule = |rule: &str, message: &str| json!({"rule": rule, "message": message});
    let schema = json!({"type": "object", "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                rule("!has(self.min) || !has(self.replicas) || self.min <= self.replicas", "min above replicas"),
                rule("!has(oldSelf.text) || has(self.text)", "text stays"),
            ],
            "properties": {
                "replicas": {"type": "integer", "minimum": 0, "maximum": 9, "default": 1},
                "min": {"type": "integer"},
                "text": {"type": "string", "maxLength": 8, "x-kubernetes-validations": [
                    rule("self.startsWith('a') || self == oldSelf", "begins with a"),
                ]},
                "set": {"type": "array", "maxItems": 4, "x-kubernetes-list-type": "set",
                    "items": {"type": "string", "maxLength": 8}},
                "map": {"type": "array", "maxItems": 4, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string", "maxLength": 8}, "value": {"type": "integer", "default": 7,
                            "x-kubernetes-validations": [rule("self >= oldSelf", "grows")]}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    vec![
        json!({"POST": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "body": {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.walk.example.com"},
            "spec": {"group": "walk.example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas"}}}]}}}),
        json!({"READY": "/apis/walk.example.com/v1/widgets"}),
        gadgets(),
        json!({"READY": "/apis/walk.example.com/v1/gadgets"}),
        json!({"READY": "/apis/walk.example.com/v2/gadgets"}),
    ]
}

/// A kind in two versions with different defaults, without subresources.
fn gadgets() -> Value {
    let version = |name: &str, storage: bool, extra: Value| {
        let mut spec = json!({
            "size": {"type": "string", "enum": ["s", "m", "l"], "default": "m"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                    "note": {"type": "string", "nullable": true}}}},
            "bag": {"type": "object", "additionalProperties": {"type": "integer"}, "x-kubernetes-map-type": "atomic"},
            "any": {"x-kubernetes-int-or-string": true},
        });
        if let (Some(spec), Value::Object(extra)) = (spec.as_object_mut(), extra) {
            spec.extend(extra);
        }
        json!({"name": name, "served": true, "storage": storage,
            "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
            "selectableFields": [{"jsonPath": if storage { ".spec.size" } else { ".spec.second" }}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object", "default": {}, "properties": spec}}}}})
    };
    let rule = json!([{"rule": "self <= oldSelf + 5", "message": "too fast"}]);
    let versions = [
        version(
            "v1",
            true,
            json!({"first": {"type": "integer", "default": 1, "x-kubernetes-validations": rule}}),
        ),
        version(
            "v2",
            false,
            json!({"second": {"type": "string", "default": "two"},
            "first": {"type": "integer", "default": 2}}),
        ),
    ];
    json!({"POST": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "body": {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.walk.example.com"},
        "spec": {"group": "walk.example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"}, "versions": versions}}})
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(1).max(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn operation(&mut self) -> Value {
        let kind = &KINDS[self.below(KINDS.len())];
        let slot = kind.slot;
        let name = *self.pick(&NAMES);
        let path = kind.path;
        let object = format!("{path}/{name}");
        let save = json!({format!("rv-{slot}-{name}"): "/metadata/resourceVersion",
            format!("uid-{slot}-{name}"): "/metadata/uid"});
        let rv = format!("<rv-{slot}-{name}>");
        let query = *self.pick(&[
            "",
            "",
            "",
            "",
            "?dryRun=All",
            "?fieldManager=m1",
            "?fieldManager=m2",
            "?fieldValidation=Strict",
        ]);
        match self.below(120) {
            0..18 => {
                let mut body = self.object(kind, name);
                if self.chance(5) {
                    body["metadata"]["resourceVersion"] = "1".into();
                }
                json!({"POST": format!("{path}{query}"), "body": body, "save": save})
            }
            18..26 => json!({"GET": object, "save": {format!("object-{slot}-{name}"): "",
                format!("rv-{slot}-{name}"): "/metadata/resourceVersion"}}),
            26..31 => {
                let query = *self.pick(&[
                    "",
                    "?limit=1",
                    "?limit=2",
                    "?labelSelector=x=1",
                    "?labelSelector=!x",
                    "?labelSelector=x%20in%20(1,2),w!=3",
                    "?labelSelector=w&limit=1",
                    "?fieldSelector=metadata.name=a",
                    "?fieldSelector=metadata.name!=b",
                    "?limit=1&continue=<continue>",
                    "?limit=1&continue=<continue>",
                    "?resourceVersion=0",
                    "?resourceVersion=<start>&resourceVersionMatch=NotOlderThan",
                    "?resourceVersion=RV&resourceVersionMatch=Exact",
                ]);
                let query = query.replace("RV", &rv);
                let accept = *self.pick(&["application/json", "application/json", "table", "partial-list"]);
                json!({"GET": format!("{path}{query}"), "accept": accept, "save": {"continue": "/metadata/continue"}})
            }
            31..41 => {
                let mut body = self.object(kind, name);
                if self.chance(80) {
                    body["metadata"]["resourceVersion"] = rv.into();
                }
                json!({"PUT": format!("{object}{query}"), "body": body, "save": save})
            }
            41..45 => {
                // An object read before, perhaps long ago, with one change.
                let labels = self.labels();
                json!({"PUT": format!("{object}{query}"), "body": format!("<object-{slot}-{name}>"),
                    "set": {"/metadata/labels": labels}, "save": save})
            }
            45..57 => {
                let mut body = self.patch(kind);
                if self.chance(15) {
                    body["metadata"]["resourceVersion"] = rv.into();
                }
                json!({"PATCH": format!("{object}{query}"), "type": "merge", "body": body, "save": save})
            }
            57..61 => {
                let body = self.patch(kind);
                json!({"PATCH": format!("{object}{query}"), "type": "strategic", "body": body, "save": save})
            }
            61..66 => {
                let key = *self.pick(&[
                    "/metadata/labels/x",
                    "/metadata/annotations/n1",
                    "/data/k",
                    "/spec/replicas",
                    "/spec/set/0",
                    "/metadata/finalizers",
                    "/spec/map/-",
                ]);
                let op = *self.pick(&["add", "replace", "remove", "test"]);
                let value = self
                    .pick(&[json!("1"), json!(2), json!(["example.com/f"]), json!({"name": "q"})])
                    .clone();
                json!({"PATCH": format!("{object}{query}"), "type": "json-patch",
                    "body": [{"op": op, "path": key, "value": value}], "save": save})
            }
            66..81 => {
                let manager = *self.pick(&["one", "two", "three"]);
                let force = if self.chance(40) { "&force=true" } else { "" };
                let dry = if self.chance(8) { "&dryRun=All" } else { "" };
                let mut body = self.object(kind, name);
                // For an unknown field and another error, upstream reports one or both, in the order of Go's maps.
                body.as_object_mut().map(|body| body.remove("unknown"));
                if kind.version == "walk.example.com/v1" {
                    body["spec"].as_object_mut().map(|spec| spec.remove("second"));
                }
                // Upstream stores empty labels of an applied custom object, hides them, and drops them at the next
                // write.
                let empty = body["metadata"].get("labels").is_some_and(|labels| *labels == json!({}));
                if empty && ["Gadget", "Widget"].contains(&kind.kind) {
                    body["metadata"].as_object_mut().map(|metadata| metadata.remove("labels"));
                }
                json!({"PATCH": format!("{object}?fieldManager={manager}{force}{dry}"), "type": "apply", "body": body,
                    "save": save})
            }
            81..86 if kind.parts != Parts::None => {
                let body = json!({"metadata": {"labels": self.labels()}, "spec": {"replicas": 4},
                    "status": {"replicas": self.below(3), "observedGeneration": self.below(3)}});
                json!({"PATCH": format!("{object}/status"), "type": "merge", "body": body, "save": save})
            }
            86..90 if kind.parts == Parts::Scale => match self.chance(50) {
                true => json!({"GET": format!("{object}/scale")}),
                false => {
                    let replicas = *self.pick(&[0, 1, 2, 5, 12]);
                    json!({"PATCH": format!("{object}/scale"), "type": "merge", "body": {"spec": {"replicas": replicas}},
                        "save": save})
                }
            },
            97 => {
                json!({"DELETE": format!("{path}?labelSelector=x=1"), "pick": ["/kind", "/items/*/metadata/name"]})
            }
            98 => {
                json!({"WATCH": format!("{path}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"),
                "until": "bookmark"})
            }
            99 => {
                json!({"PATCH": object, "type": "merge", "body": {"metadata": {"finalizers": null}}, "save": save})
            }
            100 => {
                let select = *self.pick(&[
                    "fieldSelector=metadata.name=b",
                    "labelSelector=w&dryRun=All",
                    "propagationPolicy=Orphan&fieldSelector=metadata.name=c",
                ]);
                json!({"DELETE": format!("{path}?{select}"), "pick": ["/kind", "/message", "/items/*/metadata/name"]})
            }
            101..104 => {
                let accept = *self.pick(&["table", "partial"]);
                json!({"GET": object, "accept": accept})
            }
            104..106 if kind.parts != Parts::None => json!({"GET": format!("{object}/status")}),
            106..108 => {
                // Their names differ, so they are not stored.
                let mut body = self.object(kind, name);
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("name");
                    metadata.insert("generateName".to_owned(), "made-".into());
                }
                json!({"POST": format!("{path}?dryRun=All"), "body": body})
            }
            108..110 if kind.parts != Parts::None => {
                let manager = *self.pick(&["one", "two"]);
                let force = if self.chance(50) { "&force=true" } else { "" };
                let status = match kind.kind {
                    "Pod" => json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
                    _ => json!({"replicas": self.below(3)}),
                };
                let body = json!({"apiVersion": kind.version, "kind": kind.kind, "metadata": {"name": name}, "status": status});
                json!({"PATCH": format!("{object}/status?fieldManager={manager}{force}"), "type": "apply", "body": body,
                    "save": save})
            }
            110..112 if kind.parts != Parts::None => {
                let labels = self.labels();
                json!({"PUT": format!("{object}/status{query}"), "body": format!("<object-{slot}-{name}>"),
                    "set": {"/metadata/labels": labels, "/status/observedGeneration": 3}, "save": save})
            }
            112 => {
                let body = self.pick(&[json!([{}]), json!([])]).clone();
                json!({"PATCH": object, "type": "merge", "body": {"metadata": {"managedFields": body}}, "save": save})
            }
            // In messages about unknown fields, upstream prints such a patch without its directives.
            113..116 if kind.kind == "Deployment" => {
                let body = self
                    .pick(&[
                        json!({"metadata": {"labels": {"$patch": "replace", "x": "3"}}}),
                        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/f"]}}),
                        json!({"metadata": {"finalizers": ["example.com/g"]}}),
                        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}),
                        json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "c"}],
                            "containers": [{"name": "side", "image": "s"}]}}}}),
                        json!({"spec": {"template": {"spec": {"$retainKeys": ["containers"], "containers": [{"name": "c", "env": null}]}}}}),
                        json!({"data": {"$patch": "delete"}}),
                        json!({"data": null}),
                    ])
                    .clone();
                json!({"PATCH": format!("{object}{query}"), "type": "strategic", "body": body, "save": save})
            }
            116..118 => {
                let body = self
                    .pick(&[
                        json!([{"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/n1"}]),
                        json!([{"op": "add", "path": "/metadata/annotations", "value": {}},
                            {"op": "add", "path": "/metadata/annotations/n1", "value": "j"}]),
                        json!([{"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/w"}]),
                        json!([{"op": "test", "path": "/metadata/name", "value": "a"},
                            {"op": "remove", "path": "/metadata/labels"}]),
                    ])
                    .clone();
                json!({"PATCH": format!("{object}{query}"), "type": "json-patch", "body": body, "save": save})
            }
            _ => {
                let mut options = json!({});
                match self.below(11) {
                    0 => options["preconditions"] = json!({"resourceVersion": rv}),
                    1 => options["preconditions"] = json!({"uid": format!("<uid-{slot}-{name}>")}),
                    2 => options["propagationPolicy"] = "Background".into(),
                    3 => options["dryRun"] = json!(["All"]),
                    4 => options["propagationPolicy"] = "Foreground".into(),
                    5 => options["propagationPolicy"] = "Orphan".into(),
                    6 => options["gracePeriodSeconds"] = 0.into(),
                    _ => {}
                }
                json!({"DELETE": object, "body": options})
            }
        }
    }

    fn labels(&mut self) -> Value {
        let x = *self.pick(&["1", "2", "3"]);
        match self.below(4) {
            0 => json!({}),
            1 => json!({"x": x}),
            2 => json!({"w": x}),
            _ => json!({"x": x, "w": "1"}),
        }
    }

    fn object(&mut self, kind: &Kind, name: &str) -> Value {
        let mut body = self.patch(kind);
        body["apiVersion"] = kind.version.into();
        body["kind"] = kind.kind.into();
        body["metadata"]["name"] = name.into();
        if kind.kind == "Pod" && body["spec"]["containers"].is_null() {
            body["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
        }
        if kind.kind == "Deployment" {
            // Without these it is always invalid, which should occur sometimes.
            if self.chance(95) {
                body["spec"]["selector"] = json!({"matchLabels": {"app": "walk"}});
                body["spec"]["template"]["metadata"] = json!({"labels": {"app": "walk"}});
            }
            if body["spec"]["template"]["spec"]["containers"].is_null() {
                body["spec"]["template"]["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
            }
        }
        body
    }

    /// Part of an object.
    fn patch(&mut self, kind: &Kind) -> Value {
        let mut body = json!({"metadata": {}});
        if self.chance(40) {
            body["metadata"]["labels"] = self.labels();
        }
        if self.chance(15) {
            body["metadata"]["annotations"] = json!({"n1": self.below(3).to_string()});
        }
        if self.chance(8) {
            body["metadata"]["finalizers"] = json!(["example.com/f"]);
        }
        if self.chance(4) {
            body["unknown"] = 1.into();
        }
        if self.chance(3) {
            let owner = *self.pick(&NAMES);
            body["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner,
                "uid": format!("<uid-cm-{owner}>")}]);
        }
        let value = *self.pick(&["1", "2", "3"]);
        match kind.kind {
            "ConfigMap" => {
                let key = *self.pick(&["k", "l", "m"]);
                body["data"] = self
                    .pick(&[json!({key: value}), json!({}), json!({"k": value, "l": value}), json!({key: 5})])
                    .clone();
            }
            "Secret" => {
                let key = *self.pick(&["k", "l", "m"]);
                let field = *self.pick(&["data", "stringData"]);
                body[field] = json!({key: "YWJj"});
            }
            "Pod" => {
                if self.chance(50) {
                    let image = format!("i:{value}");
                    body["spec"]["containers"] = self
                        .pick(&[
                            json!([{"name": "c", "image": image}]),
                            json!([{"name": "c", "image": image, "resources": {"requests": {"cpu": "100m"}}}]),
                            json!([{"name": "c", "image": image, "ports": [{"containerPort": 80}]}]),
                        ])
                        .clone();
                }
                if self.chance(10) {
                    body["spec"]["activeDeadlineSeconds"] =
                        self.pick(&[json!(5), json!(0), json!(9)]).clone();
                }
                if self.chance(10) {
                    body["spec"]["restartPolicy"] = self.pick(&[json!("Never"), json!("Bad")]).clone();
                }
            }
            "Gadget" => {
                if self.chance(40) {
                    body["spec"]["size"] =
                        self.pick(&[json!("s"), json!("l"), json!("xl"), json!(null)]).clone();
                }
                if self.chance(40) {
                    body["spec"]["first"] = self.pick(&[json!(3), json!(9), json!(20), json!(0)]).clone();
                }
                if self.chance(20) {
                    body["spec"]["second"] = value.into();
                }
                if self.chance(35) {
                    body["spec"]["ports"] = self
                        .pick(&[
                            json!([{"port": 80}]),
                            json!([{"port": 80, "protocol": "UDP", "note": null}, {"port": 80}]),
                            json!([{"port": 80}, {"port": 80, "protocol": "TCP"}]),
                            json!([{"port": 81, "note": value}]),
                        ])
                        .clone();
                }
                if self.chance(20) {
                    body["spec"]["bag"] =
                        self.pick(&[json!({"a": 1}), json!({"b": 2}), json!({"a": "x"})]).clone();
                }
                if self.chance(20) {
                    body["spec"]["any"] = self.pick(&[json!(1), json!("50%"), json!(true)]).clone();
                }
            }
            "Deployment" => {
                if self.chance(60) {
                    body["spec"]["replicas"] = self.pick(&[json!(1), json!(2), json!(0), json!(-1)]).clone();
                }
                if self.chance(40) {
                    let image = format!("i:{value}");
                    let env = json!([{"name": "A", "value": value}]);
                    body["spec"]["template"]["spec"]["containers"] = self
                        .pick(&[
                            json!([{"name": "c", "image": image}]),
                            json!([{"name": "c", "image": image, "env": env}]),
                            json!([{"name": "c", "image": "i"}, {"name": "side", "image": image}]),
                        ])
                        .clone();
                }
                if self.chance(10) {
                    body["spec"]["paused"] = self.chance(50).into();
                }
            }
            _ => {
                body["spec"] = json!({});
                if self.chance(50) {
                    body["spec"]["replicas"] =
                        self.pick(&[json!(1), json!(2), json!(5), json!(12), json!("x")]).clone();
                }
                if self.chance(20) {
                    body["spec"]["min"] = self.pick(&[json!(0), json!(2), json!(7)]).clone();
                }
                if self.chance(25) {
                    body["spec"]["text"] =
                        self.pick(&[json!("abc"), json!("axe"), json!("bad"), json!("aaaaaaaaaaaa")]).clone();
                }
                if self.chance(25) {
                    body["spec"]["set"] = self
                        .pick(&[json!(["p"]), json!(["p", "q"]), json!(["q"]), json!(["p", "p"])])
                        .clone();
                }
                if self.chance(30) {
                    body["spec"]["map"] = self
                        .pick(&[
                            json!([{"name": "p"}]),
                            json!([{"name": "p", "value": 9}, {"name": "q", "value": 1}]),
                            json!([{"name": "q"}, {"name": "q"}]),
                            json!([{"value": 1}]),
                        ])
                        .clone();
                }
                if self.chance(20) {
                    body["spec"]["free"] = json!({"z": {"deep": [value]}});
                }
                if self.chance(10) {
                    body["status"] = json!({"ignored": true});
                }
            }
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_walk() {
        let text = |seed| format!("{:?}", walk(seed, 400).unwrap().cases);
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }
}
