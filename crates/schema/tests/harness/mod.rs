//! Questions about schemas, made up or written down, and our answers in the form of the oracle `conformance/schema`.

pub mod definitions;
pub mod generate;
pub mod random;

use serde_json::{Value, json};
use settled_schema::{FieldError, Schema};

fn list(mut errors: Vec<FieldError>) -> Value {
    errors
        .drain(..)
        .map(|error| json!([error.error_type.cause(), error.field.clone(), error.message()]))
        .collect()
}

/// Our answer to a question.
pub fn answer(question: &Value) -> Value {
    let mut object = question["object"].clone();
    let root = question["root"] == true;
    match question["op"].as_str().unwrap() {
        // The modules are private: a schema asks them.
        "format" => {
            let schema = json!({"type": "object", "properties": {"x": {"type": "string", "format": question["name"]}}});
            let schema = Schema::parse(&schema).unwrap();
            let texts = question["texts"].as_array().unwrap().iter();
            json!({"match": texts.map(|text| schema.validate(&json!({"x": text}), None).is_empty()).collect::<Vec<_>>()})
        }
        "pattern" => {
            let schema = json!({"type": "object", "properties": {"x": {"type": "string", "pattern": question["name"]}}});
            match Schema::parse(&schema) {
                Err(errors) => {
                    let detail = &errors[0].detail;
                    json!({"failed": detail.strip_prefix("must be a valid regular expression, but isn't: ").unwrap_or(detail)})
                }
                Ok(schema) => {
                    let texts = question["texts"].as_array().unwrap().iter();
                    json!({"match": texts.map(|text| schema.validate(&json!({"x": text}), None).is_empty()).collect::<Vec<_>>()})
                }
            }
        }
        "definition" => {
            let old = question.get("old").filter(|old| !old.is_null());
            json!({"errors": list(settled_schema::validate_definition(&object, old))})
        }
        "default_definition" => {
            settled_schema::default_definition(&mut object);
            json!({"object": object})
        }
        op => {
            let schema = match Schema::parse(&question["schema"]) {
                Ok(schema) => schema,
                Err(errors) if op == "parse" => return json!({"errors": list(errors)}),
                Err(errors) => return json!({"failed": errors[0].to_string()}),
            };
            match op {
                "parse" => json!({}),
                "prune" => {
                    let paths = schema.prune(&mut object, root);
                    json!({"object": object, "paths": paths})
                }
                "default" => {
                    schema.default(&mut object);
                    json!({"object": object})
                }
                "coerce" => match schema.coerce_metadata(&mut object, root, question["drop"] == true) {
                    Ok(paths) => json!({"object": object, "paths": paths}),
                    Err(errors) => json!({"errors": list(errors)}),
                },
                "validate" => {
                    let old = question.get("old").filter(|old| !old.is_null());
                    json!({"errors": list(schema.validate(&object, old))})
                }
                other => panic!("there is no operation {other}"),
            }
        }
    }
}

/// Whether an answer of ours is upstream's. Errors have no order there. Where upstream reports any one of several, ours has it.
pub fn same(question: &Value, ours: &Value, theirs: &Value) -> bool {
    let definition = question["op"] == "definition";
    let texts = |value: &Value, name: &str| -> Vec<String> {
        let all = value[name].as_array().into_iter().flatten();
        let mut all: Vec<String> =
            all.map(|one| if definition { settled(one) } else { one.to_string() }).collect();
        all.sort();
        all.dedup_by(|one, other| definition && one == other);
        all
    };
    if let Some(why) = theirs["failed"].as_str() {
        // Upstream fails in ways that no answer of ours can equal.
        if why.starts_with("panic: ") {
            return true;
        }
        return match question["op"].as_str().unwrap() {
            // A schema that cannot be decoded, and an error of the conversion.
            // Which of several it names is left to chance.
            "parse"
                if why.contains("is not supported")
                    || why.contains("is an array")
                    || why.contains("internal error") =>
            {
                texts(ours, "errors").len() == 1
            }
            "parse" if why.starts_with("json: ") => ours.get("errors").is_some(),
            "parse" => texts(ours, "errors")
                .iter()
                .any(|error| error.contains(&json!(why).to_string().trim_matches('"').to_owned())),
            "pattern" => ours["failed"] == why,
            _ => ours.get("failed").is_some(),
        };
    }
    if ours.get("failed").is_some() {
        return false;
    }
    let (our_errors, their_errors) = (texts(ours, "errors"), texts(theirs, "errors"));
    let errors = if question["op"] == "coerce" {
        their_errors.iter().all(|error| our_errors.contains(error))
            && our_errors.is_empty() == their_errors.is_empty()
    } else {
        our_errors == their_errors
    };
    if question["op"] == "default_definition" {
        // Go also writes fields that are empty.
        return [
            "/spec/names/singular",
            "/spec/names/listKind",
            "/spec/conversion",
            "/status/storedVersions",
        ]
        .into_iter()
        .all(|path| {
            let at = |answer: &Value| answer["object"].pointer(path).cloned().unwrap_or_default();
            loosely(&at(ours), &at(theirs))
        });
    }
    let object = theirs["object"].is_null() || loosely(&ours["object"], &theirs["object"]);
    errors
        && object
        && texts(ours, "paths") == texts(theirs, "paths")
        && (theirs["match"].is_null() || ours["match"] == theirs["match"])
}

/// An error without what upstream leaves to chance: which of several malformed fields of a default it names, and whether it has
/// rewritten the metadata of a default before it prints the whole schema.
fn settled(error: &Value) -> String {
    let (field, message) = (error[1].as_str().unwrap(), error[2].as_str().unwrap());
    let malformed = ["must be a string", "parsing time", "json: cannot unmarshal"];
    if let Some((before, _)) =
        field.split_once(".default").filter(|_| malformed.iter().any(|one| message.contains(one)))
    {
        return format!("{before}: malformed default");
    }
    if message.contains("{\"ID\":") && message.contains("\"metadata\"") {
        return format!("{field}: a schema with metadata");
    }
    error.to_string()
}

/// Whether two values are equal; Go writes whole floats without a point.
fn loosely(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| loosely(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| loosely(one, other)))
        }
        _ => one == other,
    }
}
