//! Quota evaluation: what the objects of a kind count for (`pkg/quota/v1` upstream). `admission::quota` charges it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use settled_apimachinery::quantity::Quantity;

use crate::kinds::names::Part;

/// How objects of a kind count for ResourceQuotas. Each kind is limited by `count/<resource>.<group>`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quota {
    /// By their number alone.
    Counted,
    /// By their number, which has this older name as well.
    Named(&'static str),
    /// By what an object says.
    Evaluator(&'static Evaluator),
    /// Writes are not charged.
    Exempt,
}

/// What is known of a kind whose objects use more than their number says.
#[derive(Debug)]
pub(crate) struct Evaluator {
    /// What an object uses.
    pub(crate) usage: fn(&Value, Timestamp) -> Amounts,
    /// Is a limit of this name one on the kind?
    pub(crate) matches_resource: fn(&str) -> bool,
    /// Is an object in a scope?
    pub(crate) matches_scope: fn(&ScopeSelector<'_>, &Value) -> bool,
    /// May an update of a part change what is used?
    pub(crate) handles_update: fn(Part, &Value, &Value) -> bool,
    /// What a new object does not say although a quota with these limits wants to know.
    pub(crate) constraints: fn(&Value, &[&str]) -> Option<String>,
}

impl Evaluator {
    pub(crate) const DEFAULT: Self = Self {
        usage: |_, _| Amounts::new(),
        matches_resource: |_| false,
        matches_scope: |_, _| false,
        handles_update: |_, _, _| false,
        constraints: |_, _| None,
    };
}

/// A scope of a quota, and the values that it selects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeSelector<'a> {
    pub(crate) name: &'a str,
    pub(crate) operator: &'a str,
    pub(crate) values: &'a [Value],
}

impl ScopeSelector<'_> {
    /// Does it select a value? Empty: there is none.
    pub(crate) fn selects(&self, value: &str) -> bool {
        let named = self.values.iter().any(|wanted| wanted == value);
        match self.operator {
            "In" => !value.is_empty() && named,
            "NotIn" => !named,
            "DoesNotExist" => value.is_empty(),
            _ => !value.is_empty(),
        }
    }
}

/// Amounts by the name of the resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Amounts as an object has them.
pub(crate) fn amounts(map: Option<&Value>) -> Amounts {
    let members = map.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), Quantity::from_value(value)?))).collect()
}

/// Adds amounts up.
pub(crate) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, quantity) in more {
        match sum.get_mut(name) {
            Some(total) => total.add(quantity),
            None => drop(sum.insert(name.clone(), quantity.clone())),
        }
    }
}

/// The larger of each.
pub(crate) fn larger(sum: &mut Amounts, other: &Amounts) {
    for (name, quantity) in other {
        if sum.get(name).is_none_or(|before| quantity > before) {
            sum.insert(name.clone(), quantity.clone());
        }
    }
}
