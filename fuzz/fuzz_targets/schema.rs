//! Any JSON as a schema, and any as an object: reading and validating end, and to prune and default twice is to do it once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use settled_schema::Schema;

fuzz_target!(|data: &[u8]| {
    // A schema, a zero byte, an object.
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (Some(schema), Some(object)) = (parts.next(), parts.next()) else { return };
    let Ok(schema) = serde_json::from_slice::<Value>(schema) else { return };
    let Ok(mut object) = serde_json::from_slice::<Value>(object) else { return };
    let Ok(schema) = Schema::parse(&schema) else { return };
    let old = object.clone();
    let _ = schema.coerce_metadata(&mut object, true, true);
    schema.prune(&mut object, true);
    schema.default(&mut object);
    schema.prune(&mut object, true);
    let once = object.clone();
    assert!(schema.prune(&mut object, true).is_empty());
    assert_eq!(object, once);
    let _ = schema.validate(&object, Some(&old));
});
