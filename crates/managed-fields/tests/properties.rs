//! What holds for any schema, objects and operations.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use settled_managed_fields::{
    Atom, ConvertError, Duplicates, FieldManager, FieldSet, ListRelationship, ListType, Managers, MapType,
    ObjectType, ObjectTypes, Path, PathElement, SameVersion, Scalar, Schema, StructField, TypeRef,
    TypedValue, Untyped, Updater,
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

/// Types by hand, as the kinds of a schema have them.
#[derive(Clone)]
struct Typed(Arc<Schema>);

impl ObjectTypes for Typed {
    fn object_type(&self, _: &str, _: &str) -> Option<ObjectType> {
        Some(ObjectType::named(self.0.clone(), "widget"))
    }

    fn convert(&self, object: &Value, _: &str) -> Result<Value, ConvertError> {
        Ok(object.clone())
    }
}

/// A kind whose `a` is a number, `b` a list by `a`, `c` a map, and `d` a set.
fn typed() -> Typed {
    let text = || TypeRef::inline(Atom::scalar(Scalar::String));
    let list =
        |element_type, relationship| TypeRef::inline(Atom::list(ListType { element_type, relationship }));
    let item = TypeRef::inline(Atom::map(MapType::of(TypeRef::deduced())));
    let spec = MapType::new([
        ("a", StructField::from(TypeRef::inline(Atom::scalar(Scalar::Numeric)))),
        ("b", list(item, ListRelationship::keyed(["a"])).into()),
        ("c", TypeRef::inline(Atom::map(MapType::of(text()))).into()),
        ("d", list(text(), ListRelationship::Set).into()),
    ]);
    let widget = MapType::new([
        ("apiVersion", StructField::from(text())),
        ("kind", text().into()),
        ("metadata", TypeRef::deduced().into()),
        ("spec", TypeRef::inline(Atom::map(spec)).into()),
    ]);
    Typed(Arc::new(Schema::new([("widget", Atom::map(widget))])))
}

/// Few values, so that many are alike.
fn small_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_u8).prop_map(Value::from),
        Just(json!(1.0)),
        "[xy]?".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abcd]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Objects that are created one after the other have the fields that each would have alone.
fn created_as_alone<T: ObjectTypes + Clone>(
    manager: &FieldManager<T>,
    specs: &[Value],
) -> Result<(), TestCaseError> {
    for (spec, second) in specs.iter().zip(1..) {
        let now = Timestamp::from_second(second).unwrap();
        let metadata = match second % 3 {
            0 => json!({"name": "x", "labels": {"app": "x"}}),
            _ => json!({"name": second.to_string()}),
        };
        let mut object = json!({"apiVersion": "v1", "kind": "Widget", "metadata": metadata, "spec": spec});
        let alone = manager.clone().update_or_forget(&manager.empty(), &object, "us", now);
        manager.create_in_place(&mut object, "us", now);
        prop_assert_eq!(object, alone);
    }
    Ok(())
}

/// Of live objects that are not checked again, updates make the same as of checked ones, be they valid or not.
fn updated_as_if_checked(specs: &[Value]) -> Result<(), TestCaseError> {
    let checking = FieldManager::new(typed(), "v1", "Widget");
    let trusting = checking.clone().with_trusted_live_objects();
    let mut live = checking.empty();
    for (spec, second) in specs.iter().zip(1..) {
        let now = Timestamp::from_second(second).unwrap();
        let manager = if second % 3 == 0 { "they" } else { "we" };
        // As clients do that know of managed fields, and as those do that do not.
        let managed = if second % 2 == 0 { live["metadata"]["managedFields"].clone() } else { Value::Null };
        let metadata = json!({"name": "x", "uid": "1", "managedFields": managed});
        let new = json!({"apiVersion": "v1", "kind": "Widget", "metadata": metadata, "spec": spec});
        let checked = checking.update_or_forget(&live, &new, manager, now);
        let trusted = trusting.update_or_forget(&live, &new, manager, now);
        prop_assert_eq!(&trusted, &checked);
        live = checked;
        if live["metadata"]["managedFields"].is_null() {
            // Begins anew.
            live = checking.empty();
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn updates_need_not_check_live_objects(specs in prop::collection::vec(small_value(), 1..20)) {
        updated_as_if_checked(&specs)?;
        let specs: Vec<_> = specs.iter().map(|spec| json!({"b": spec["b"], "c": spec["c"], "d": spec["d"]})).collect();
        updated_as_if_checked(&specs)?;
    }

    #[test]
    fn who_creates_many_objects_owns_the_fields_of_each(specs in prop::collection::vec(small_value(), 1..40)) {
        let empty = json!({"apiVersion": "v1", "kind": "Widget", "metadata": {}, "spec": {"a": 0, "b": "", "c": {"a": null}}});
        created_as_alone(&FieldManager::new(Untyped, "v1", "Widget"), &specs)?;
        created_as_alone(&FieldManager::new(Untyped, "v1", "Widget").with_empty(empty.clone()), &specs)?;
        created_as_alone(&FieldManager::new(typed(), "v1", "Widget"), &specs)?;
        let specs: Vec<_> = specs.iter().map(|spec| json!({"a": spec["a"], "b": spec["b"], "c": spec["c"], "d": spec["d"]})).collect();
        created_as_alone(&FieldManager::new(typed(), "v1", "Widget").with_empty(empty), &specs)?;
    }
}
