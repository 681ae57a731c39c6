//! What holds for any schema, objects and operations.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use settled_managed_fields::{
    Duplicates, FieldSet, Managers, ObjectType, Path, PathElement, SameVersion, TypedValue, Updater,
};

use crate::harness::generate;
use crate::harness::merge::State;
use crate::harness::random::Random;

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        ".*".prop_map(PathElement::field),
        (".*", ".*", any::<i32>()).prop_map(|(name, text, number)| PathElement::key([
            (name, text.into()),
            ("n".into(), number.into())
        ])),
        ".*".prop_map(PathElement::value),
        any::<f32>()
            .prop_map(|float| if float.is_finite() { float } else { 0.0 })
            .prop_map(PathElement::value),
        any::<i64>().prop_map(PathElement::index),
    ]
}

fn set() -> impl Strategy<Value = FieldSet> {
    let path = prop::collection::vec(element(), 1..4).prop_map(Path::from);
    prop::collection::vec(path, 0..8).prop_map(|paths| paths.into_iter().collect())
}

#[test]
fn of_two_key_fields_with_one_name_the_last_counts() {
    let twice = PathElement::key([("n", Value::from("")), ("a", 1.into()), ("n", 0.into())]);
    let once = PathElement::key([("a", Value::from(1)), ("n", 0.into())]);
    assert_eq!(twice, once);
}

proptest! {
    #[test]
    fn fields_v1_is_read_as_written(set in set()) {
        prop_assert_eq!(&FieldSet::from_json(&set.to_json()).unwrap(), &set);
        prop_assert_eq!(&FieldSet::from_value(&set.to_value()).unwrap(), &set);
    }

    #[test]
    fn sets_are_sets(left in set(), right in set()) {
        let (union, both) = (left.union(&right), left.intersection(&right));
        prop_assert_eq!(&right.union(&left), &union);
        prop_assert_eq!(union.len() + both.len(), left.len() + right.len());
        prop_assert_eq!(&left.difference(&right).union(&both), &left);
        for path in left.iter() {
            prop_assert!(left.contains(&path) && union.contains(&path));
            prop_assert_eq!(both.contains(&path), right.contains(&path));
        }
    }

    /// Sets of very different sizes are walked in another way than sets of the same size.
    #[test]
    fn few_fields_meet_many(few in prop::collection::btree_set(0..3000_u16, 0..5), many in prop::collection::btree_set(0..3000_u16, 0..900)) {
        let set = |numbers: &BTreeSet<u16>| -> FieldSet {
            let path = |number: &u16| Path::fields(["data", &format!("{number:05}")]);
            let nested = |number: &u16| Path::fields(["deep", &format!("{number:05}"), "x"]);
            numbers.iter().flat_map(|number| [path(number), nested(number)]).collect()
        };
        for (left, right) in [(&few, &many), (&many, &few)] {
            let difference: BTreeSet<u16> = left.difference(right).copied().collect();
            let both: BTreeSet<u16> = left.intersection(right).copied().collect();
            prop_assert_eq!(set(left).difference(&set(right)), set(&difference));
            prop_assert_eq!(set(left).recursive_difference(&set(right)), set(&difference));
            prop_assert_eq!(set(left).intersection(&set(right)), set(&both));
        }
    }

    /// A field that is forced and then dropped goes, unless another manager owns it as well.
    #[test]
    fn a_dropped_field_goes_with_its_only_owner(theirs in 0..3_u8, ours in 0..3_u8, again: bool) {
        let typed = |value| TypedValue::new(value, ObjectType::deduced(), Duplicates::Reject).unwrap();
        let updater = Updater::new(SameVersion);
        let apply = |live: &TypedValue, config, managers: &Managers, name| {
            let applied = updater.apply(live, &typed(config), "v1", managers, name, true).unwrap();
            (applied.object.unwrap_or_else(|| live.clone()), applied.managers)
        };
        let config = json!({"a": theirs, "b": 1});
        let (mut live, mut managers) = apply(&typed(json!({})), config, &Managers::new(), "them");
        (live, managers) = apply(&live, json!({"a": ours}), &managers, "us");
        if again {
            (live, managers) = apply(&live, json!({"a": ours, "b": 1}), &managers, "them");
        }
        (live, _) = apply(&live, json!({}), &managers, "us");
        prop_assert_eq!(live.value().get("a").is_some(), again || theirs == ours);
    }
}

/// Objects of one version and schema: applying the same again changes nothing. As upstream, a map of which the first
/// apply leaves nothing is null, and `{}` in its place is a change, so it may take one apply more.
#[test]
fn to_apply_twice_is_to_apply_once() {
    let mut random = Random::new(99);
    let mut applied = 0;
    for _ in 0..600 {
        let case = generate::merge(&mut random);
        let plain = case["schemas"].as_array().unwrap().len() == 1 && case["renames"] == json!({});
        if !plain || case.get("managers").is_some() {
            continue;
        }
        let mut state = State::new(&case);
        for operation in case["operations"].as_array().unwrap() {
            let first = state.run(operation);
            if operation["apply"] == true && first.get("error").is_none() {
                state.run(operation);
                let managers = state.managers.clone();
                let second = state.run(operation);
                assert_eq!(second["same"], Value::Bool(true), "{operation} in\n{case}\n{second}");
                assert_eq!(state.managers, managers);
                applied += 1;
            }
        }
    }
    assert!(applied > 500, "only {applied} were applied");
}
