//! What holds for any text as a rule.

use proptest::prelude::*;
use serde_json::json;
use settled_cel::Validator;

use crate::structural;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_a_rule_or_an_error(
        rule in prop_oneof![
            ".{0,40}",
            "[a-z0-9.()\\[\\]{}'\"?:!<>=+*/%&|, -]{0,60}",
            "(self|self\\.s|self\\.l|'a'|1|x|\\.all\\(|\\.map\\(|x, |\\)| == | \\+ |\\[|\\]|\\?| : ){0,20}",
        ],
        text in ".{0,10}",
    ) {
        let schema = json!({"type": "object", "properties": {"s": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}},
            "x-kubernetes-validations": [{"rule": rule, "messageExpression": rule}]});
        let (validator, _) = Validator::compile(&structural(&schema), "schema");
        if let Some(validator) = validator {
            let (_, cost) = validator.validate_with_cost(&json!({"s": text, "l": [text, "b"]}), None);
            prop_assert!(cost <= 10_000_000);
        }
    }
}
