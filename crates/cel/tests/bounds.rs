//! What must not take long, or fill the memory, whatever it says.

use serde_json::{Value, json};
use settled_cel::{FieldError, Validator};

use crate::structural;

fn judge(rule: &str, text: &str) -> Vec<FieldError> {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {"s": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}},
        "x-kubernetes-validations": [{"rule": rule}],
    }}});
    let (validator, _) = Validator::compile(&structural(&schema), "schema");
    let list: Vec<Value> = (0..2000).map(|at| format!("{text}{at}").into()).collect();
    validator.unwrap().validate(&json!({"spec": {"s": text.repeat(1000), "l": list}}), None)
}

#[test]
fn costs_are_limited() {
    let bombs = [
        "self.l.all(a, self.l.all(b, self.l.all(c, a + b != c)))",
        "lists.range(900000000).size() > 1",
        "self.l.distinct().size() > self.l.sort().size()",
        "self.s.replace('', self.s).replace('', self.s).replace('', self.s).size() == 1",
        "self.l.map(a, self.l.map(b, self.s + self.s + b)).size() == 3",
        "sets.contains(self.l, self.l + self.l)",
        "self.s.matches(self.s + self.s)",
    ];
    for bomb in bombs {
        let errors = judge(bomb, "aaaaaaaaaa");
        assert_eq!(errors.len(), 1, "{bomb}");
        let message = errors[0].message();
        assert!(message.contains("cost budget") || message.contains("cost limit"), "{bomb}: {message}");
    }
}

#[test]
fn shared_values_take_no_exponential_time() {
    let mut rule = "optional.of([self.s])".to_owned();
    for _ in 0..60 {
        rule.push_str(".optMap(a, [a, a].flatten())");
    }
    rule.push_str(".value() == []");
    assert!(!judge(&rule, "a").is_empty());

    let mut rule = "optional.of(dyn(self.s))".to_owned();
    for _ in 0..60 {
        rule.push_str(".optMap(a, dyn([a, a]))");
    }
    let rule = format!("[{rule}].all(a, a == {rule})");
    assert!(!judge(&rule, "a").is_empty());
}

#[test]
fn deep_expressions_are_refused() {
    let nested = [
        "(".repeat(5000) + "true" + &")".repeat(5000),
        "[".repeat(5000),
        "!".repeat(50_000) + "true",
        "self.s + ".repeat(5000) + "'' == ''",
        "true ? true : ".repeat(5000) + "true",
        "self".to_owned() + &".s".repeat(5000),
        "self.l.all(x, ".repeat(240) + "true" + &")".repeat(240),
        "true && ".repeat(12_000) + "true",
    ];
    for rule in nested {
        judge(&rule, "a");
    }
}

#[test]
fn odd_objects_are_errors() {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.n > 1"}],
    }}});
    let (validator, errors) = Validator::compile(&structural(&schema), "schema");
    assert!(errors.is_empty());
    let validator = validator.unwrap();
    for spec in
        [json!({"n": "x"}), json!({"n": null}), json!({"n": 1.5}), json!([]), json!("text"), json!(u64::MAX)]
    {
        assert_eq!(validator.validate(&json!({"spec": spec}), None).len(), 1);
    }
    assert!(validator.validate(&json!({"spec": null}), None).is_empty());
    assert!(validator.validate(&json!([]), Some(&json!(1))).is_empty());
}
