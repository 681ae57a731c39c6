//! Any text as a selector, a JSON path or a header: no panic, no hang; what is read is written back as the same; an object
//! and what is kept of it say the same to a selector.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use settled_apiserver::testing;

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses what the rest is.
    let Some((choice, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match choice {
        b'l' => labels(&text),
        b'f' => fields(&text),
        b'p' => {
            // An object of the input's own may come behind a line break.
            let (path, object) = text.split_once('\n').unwrap_or((&text, ""));
            let object = serde_json::from_str(object).unwrap_or_else(|_| {
                json!({"a": {"b": [1, 2.5, "x", {"c": null, "type": "Ready"}], "c": "text"}, "b": [[[1], []]]})
            });
            let _ = testing::json_path(path, &object);
            let columns = json!([{"name": "A", "type": "string", "jsonPath": path}]);
            let now = jiff::Timestamp::UNIX_EPOCH;
            let _ = testing::table("example.com", "Widget", Some(&columns), &[object], now);
        }
        b'a' => {
            let _ = testing::accept(&text);
            let _ = testing::accept_clauses(&text);
        }
        b'c' => {
            let _ = testing::is_body(&text);
        }
        b's' => {
            if let Ok(selector) = serde_json::from_str::<Value>(&text)
                && let Ok(written) = testing::object_selector(&selector)
                && !selector.is_null()
            {
                assert!(testing::label_selector(&written).is_ok(), "{written}");
            }
        }
        _ => {
            // A table of whatever object, as if it were of a kind with much code.
            let Ok(object) = serde_json::from_str::<Value>(&text) else { return };
            let now = jiff::Timestamp::UNIX_EPOCH;
            let kinds =
                [("", "Pod"), ("", "Event"), ("", "Service"), ("autoscaling", "HorizontalPodAutoscaler")];
            for (group, kind) in kinds {
                let _ = testing::table(group, kind, None, std::slice::from_ref(&object), now);
            }
        }
    }
});

fn labels(text: &str) {
    let object = json!({"metadata": {"labels": {"a": "b", "n": "5", "x/y": "", "app": "web"}}});
    if let Some([whole, kept]) = testing::label_selector_matches(text, &object) {
        assert_eq!(whole, kept);
    }
    if let Ok(written) = testing::label_selector(text) {
        assert_eq!(testing::label_selector(&written), Ok(written.clone()));
        let again = testing::label_selector_matches(&written, &object);
        assert_eq!(testing::label_selector_matches(text, &object), again);
    }
}

fn fields(text: &str) {
    if let Ok(written) = testing::field_terms(text) {
        let again = testing::field_terms(&written).expect("what was written can be read");
        let sorted = |text: &str| {
            let mut terms: Vec<String> = text.split(',').map(str::to_owned).collect();
            terms.sort();
            terms
        };
        assert_eq!(sorted(&again), sorted(&written));
    }
    let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
    let _ = testing::field_selector_matches(text, "", "Pod", &pod);
}
