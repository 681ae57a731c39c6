//! The schema of `status.conditions` and the printer columns, on the API server.

use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use serde_json::{Value, json};
use settled_controller::conditions::crd;

use crate::bucket::{BucketCondition, create, definition, patch_status, server};

fn ready() -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "AsExpected", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    })
}

#[tokio::test]
async fn the_schema_accepts_and_refuses_what_metav1_does() {
    let client = server().await.client();
    create(&client, "a").await;
    // A field of a condition, its value or its absence; the field and a part of the cause, if it is refused.
    let cases = [
        ("type", json!("Ready"), None),
        ("type", json!("example.com/Ready"), None),
        ("type", json!("Ready!"), Some("should match")),
        ("type", json!("a/b/c"), Some("should match")),
        ("type", json!("a".repeat(317)), Some("may not be more than 316")),
        ("type", Value::Null, Some("Required value")),
        ("status", json!("Unknown"), None),
        ("status", json!("Maybe"), Some("supported values: \"True\", \"False\", \"Unknown\"")),
        ("status", Value::Null, Some("Required value")),
        ("observedGeneration", Value::Null, None),
        ("observedGeneration", json!(0), None),
        ("observedGeneration", json!(-1), Some("should be greater than or equal to 0")),
        ("lastTransitionTime", json!("yesterday"), Some("must be of type date-time")),
        ("lastTransitionTime", Value::Null, Some("Required value")),
        ("reason", json!("a"), None),
        ("reason", json!("a:b,c_1"), None),
        ("reason", json!("r".repeat(1024)), None),
        ("reason", json!("r".repeat(1025)), Some("may not be more than 1024")),
        ("reason", json!(""), Some("should be at least 1 chars long")),
        ("reason", json!("no reason"), Some("should match")),
        ("reason", Value::Null, Some("Required value")),
        ("message", json!("m".repeat(32 * 1024)), None),
        ("message", json!("m".repeat(32 * 1024 + 1)), Some("may not be more than 32768")),
        ("message", Value::Null, Some("Required value")),
    ];
    for (field, value, refused) in cases {
        let shown: String = value.to_string().chars().take(40).collect();
        let mut condition = ready();
        if value.is_null() {
            condition.as_object_mut().unwrap().remove(field);
        } else {
            condition[field] = value;
        }
        let result = patch_status(&client, "a", "test", &json!({"conditions": [condition]})).await;
        match (result, refused) {
            (Ok(_), None) => {}
            (Err(kube::Error::Api(status)), Some(wanted)) => {
                assert_eq!(status.code, 422, "{field} {shown}: {}", status.message);
                let causes = status.details.as_ref().unwrap().causes.iter();
                let of_field: Vec<&str> = causes
                    .filter(|cause| cause.field == format!("status.conditions[0].{field}"))
                    .map(|cause| cause.message.as_str())
                    .collect();
                assert!(
                    of_field.iter().any(|message| message.contains(wanted)),
                    "{field} {shown}: {}",
                    status.message
                );
            }
            (result, wanted) => panic!("{field} {shown}: {result:?}, wanted {wanted:?}"),
        }
    }
    let twice = patch_status(&client, "a", "test", &json!({"conditions": [ready(), ready()]})).await;
    let kube::Error::Api(status) = twice.unwrap_err() else { panic!("no answer") };
    assert!(status.message.contains("status.conditions[1]: Duplicate value"), "{}", status.message);
}

#[tokio::test]
async fn tables_have_the_printer_columns() {
    let client = server().await.client();
    create(&client, "a").await;
    create(&client, "b").await;
    let conditions = json!([{
        "type": "Ready", "status": "False", "reason": "QuotaExceeded", "message": "no room",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    patch_status(&client, "a", "test", &json!({"conditions": conditions})).await.unwrap();
    let request = Request::get("/apis/example.com/v1/namespaces/default/buckets")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = client.request(request).await.unwrap();
    let columns: Vec<(&str, i64)> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap(), column["priority"].as_i64().unwrap()))
        .collect();
    assert_eq!(columns, [("Name", 0), ("Ready", 0), ("Reason", 0), ("Message", 1), ("Age", 0)]);
    let cells = |row: usize| table["rows"][row]["cells"].as_array().unwrap()[..4].to_vec();
    assert_eq!(cells(0), [json!("a"), json!("False"), json!("QuotaExceeded"), json!("no room")]);
    assert_eq!(cells(1), [json!("b"), Value::Null, Value::Null, Value::Null]);
}

#[test]
fn the_schema_describes_the_declared_types() {
    let schema = crd::schema::<BucketCondition>();
    assert_eq!(schema["x-kubernetes-list-map-keys"], json!(["type"]));
    assert_eq!(
        schema["description"],
        "Conditions of the object. Ready summarizes the others.\n- Stored: All objects are stored.\n\
         - example.com/Bound: The bucket is bound to an instance.\n\
         - Degraded: Writes take longer than they should. True is the bad state.\n- Paused: Nothing is written on request."
    );
    // As it stands in the CRD that kube derives, down to the list type.
    let wanted: JSONSchemaProps = serde_json::from_value(schema).unwrap();
    let definition = definition();
    let root = definition.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let status = &root.properties.as_ref().unwrap()["status"];
    assert_eq!(status.properties.as_ref().unwrap()["conditions"], wanted);
}

#[test]
fn columns_are_added_once() {
    let mut definition = definition();
    let count = |definition: &CustomResourceDefinition| {
        definition.spec.versions[0].additional_printer_columns.as_ref().unwrap().len()
    };
    assert_eq!(count(&definition), 4);
    crd::add_printer_columns::<BucketCondition>(&mut definition);
    assert_eq!(count(&definition), 4);
}
