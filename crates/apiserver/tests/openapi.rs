//! OpenAPI documents: what kubectl and generators read of them.

use http::Method;
use serde_json::{Value, json};
use settled_apiserver::Config;

use crate::surface::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Serves a kind `Bar` of `company.com/v1` with a schema, and waits for that.
async fn serving(schema: Value, selectable: Value) -> Client {
    let client = Client::new(Config::default()).await;
    let definition = json!({
        "metadata": {"name": "bars.company.com"},
        "spec": {
            "group": "company.com", "scope": "Namespaced", "names": {"plural": "bars", "kind": "Bar"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "selectableFields": selectable,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let got = client.send(Method::POST, DEFINITIONS, &[], definition).await;
    assert_eq!(got.code, 201, "{}", got.text());
    assert_eq!(client.wait("/apis/company.com/v1", 200).await, 200);
    client
}

/// As `ToStructuralOpenAPIV2` and `buildKubeNative` have it upstream.
#[tokio::test]
async fn custom_kinds_are_lowered_for_version_2() {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    let cases = [
        (json!({"type": "object", preserve: true, "properties": {"spec": {"type": "object"}}}), None),
        (
            json!({"type": "object", "properties": {
                "open": {"type": "object", preserve: true, "properties": {"a": {"type": "string"}}},
                "items": {"type": "array", "items": {"type": "string", "nullable": true}},
                "maybe": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
                "either": {"x-kubernetes-int-or-string": true},
                "checked": {
                    "type": "object", "required": ["a", "b"], "default": {"a": "x", "b": 1},
                    "anyOf": [{"required": ["a"]}], "not": {"required": ["c"]},
                    "properties": {"a": {"type": "string"}, "b": {"type": "integer", "nullable": true}},
                },
                "by": {
                    "type": "object", "required": ["a"],
                    "additionalProperties": {"type": "string", "nullable": true},
                },
                "inner": {"type": "object", preserve: true, "x-kubernetes-embedded-resource": true},
            }}),
            Some(json!({
                "open": {preserve: true},
                "items": {"type": "array", "items": {}},
                "maybe": {},
                "either": {"x-kubernetes-int-or-string": true},
                "checked": {
                    "type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {}},
                },
                "by": {"type": "object", "additionalProperties": {}},
                "inner": {preserve: true, "x-kubernetes-embedded-resource": true},
            })),
        ),
    ];
    for (schema, properties) in cases {
        let client = serving(schema.clone(), Value::Null).await;
        let document = client.get("/openapi/v2", &[]).await.json();
        let mut found = document["definitions"]["com.company.v1.Bar"].clone();
        let kind = json!([{"group": "company.com", "version": "v1", "kind": "Bar"}]);
        assert_eq!(found["x-kubernetes-group-version-kind"], kind);
        found.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind");
        let Some(properties) = properties else {
            assert_eq!(found, json!({"type": "object"}), "{schema}");
            continue;
        };
        let own = found["properties"].as_object_mut().unwrap();
        for name in ["apiVersion", "kind", "metadata"] {
            assert!(own.remove(name).is_some(), "{name}");
        }
        assert_eq!(found["properties"], properties);
    }
}

#[tokio::test]
async fn selectable_fields_are_published() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "string"}}},
    }});
    let selectable = json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
    let client = serving(schema, selectable).await;
    let v2 = client.get("/openapi/v2", &[]).await.json();
    let v3 = client.get("/openapi/v3/apis/company.com/v1", &[]).await.json();
    let wanted = json!([{"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}]);
    for schemas in [&v2["definitions"], &v3["components"]["schemas"]] {
        for name in ["com.company.v1.Bar", "com.company.v1.BarList"] {
            assert_eq!(schemas[name]["x-kubernetes-selectable-fields"], wanted, "{name}");
        }
    }
}

/// A path and a method, and what upstream's `api/openapi-spec/swagger.json` of 1.36 says there, without protobuf and CBOR.
#[tokio::test]
async fn operations_of_version_2_are_upstreams() {
    let client = serving(json!({"type": "object"}), Value::Null).await;
    let document = client.get("/openapi/v2", &[]).await.json();
    let operation = |path: &str, method: &str| document["paths"][path][method].clone();

    let wanted = json!({
        "consumes": ["application/json-patch+json", "application/merge-patch+json",
            "application/strategic-merge-patch+json", "application/apply-patch+yaml"],
        "description": "partially update the specified Ingress",
        "operationId": "patchNetworkingV1NamespacedIngress",
        "parameters": [
            {"$ref": "#/parameters/body-78PwaGsr"}, "dryRun", {"$ref": "#/parameters/fieldManager-7c6nTn1T"},
            "fieldValidation", {"$ref": "#/parameters/force-tOGGb0Yi"},
        ],
        "produces": ["application/json", "application/yaml"],
        "responses": {
            "200": {"description": "OK", "schema": {"$ref": "#/definitions/io.k8s.api.networking.v1.Ingress"}},
            "201": {"description": "Created", "schema": {"$ref": "#/definitions/io.k8s.api.networking.v1.Ingress"}},
            "401": {"description": "Unauthorized"},
        },
        "schemes": ["https"],
        "tags": ["networking_v1"],
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": "networking.k8s.io", "kind": "Ingress", "version": "v1"},
    });
    let ingress = "/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/{name}";
    let mut found = operation(ingress, "patch");
    for parameter in found["parameters"].as_array_mut().unwrap() {
        if let Some(name) = parameter.get("name").cloned() {
            *parameter = name;
        }
    }
    assert_eq!(found, wanted);

    assert_eq!(operation(ingress, "delete")["description"], "delete an Ingress");
    assert_eq!(operation(ingress, "get").get("parameters"), None);
    let created = operation("/api/v1/namespaces", "post");
    assert_eq!(
        created["parameters"][0],
        json!({
            "in": "body", "name": "body", "required": true,
            "schema": {"$ref": "#/definitions/io.k8s.api.core.v1.Namespace"},
        })
    );
    let shared = &document["paths"]["/api/v1/watch/pods"]["parameters"];
    assert_eq!(shared[0], json!({"$ref": "#/parameters/allowWatchBookmarks-HC2hJt-J"}));
    assert_eq!(operation("/api/v1/watch/pods", "get")["operationId"], "watchCoreV1PodListForAllNamespaces");
    for name in ["namespace-vgWSWtn3", "pretty-tJGM1-ng", "limit-1NfNmdNH", "body-2Y1dVQaQ"] {
        assert!(document["parameters"][name].is_object(), "{name}");
    }
    // Of a custom kind.
    let bar = operation("/apis/company.com/v1/namespaces/{namespace}/bars/{name}", "patch");
    let patches =
        ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
    assert_eq!(bar["consumes"], json!(patches));
    assert_eq!(bar["operationId"], "patchCompanyComV1NamespacedBar");
    assert_eq!(bar["responses"].as_object().unwrap().len(), 2);
    let bars = operation("/apis/company.com/v1/namespaces/{namespace}/bars", "delete");
    assert_eq!(bars["x-kubernetes-action"], "deletecollection");
    assert_eq!(bars["consumes"], json!(["application/json", "application/yaml"]));
}
