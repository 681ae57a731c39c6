//! Strategy of a built-in kind: everything that its file can say about its objects (`strategy.go`, `validation.go` and
//! `printers.go` of Kubernetes 1.36).
//!
//! Each kind has one `STRATEGY` in its file, `kinds/<group>/<kind>.rs`; `strategies` is the table of them. What needs the store
//! (admission, IP allocation, bindings) is above: `admission`, `state/services.rs`, `verbs/pods.rs`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::error::Cause;
use crate::features::FeatureGates;
use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::fields::Fields;
use crate::kinds::names::Part;
use crate::kinds::printers::Printer;
use crate::kinds::quota::Quota;
use crate::metadata::NameRule;
use crate::selector::FieldSelectors;

/// Paths of field names.
pub(crate) type FieldPaths = &'static [&'static [&'static str]];

/// What the server knows of a kind beyond its schema. Fields that a kind leaves out are those of [`Strategy::DEFAULT`].
#[derive(Debug)]
pub(crate) struct Strategy {
    pub(crate) behavior: Behavior,
    pub(crate) name_rule: NameRule,
    /// A text that every use of the kind is answered with.
    pub(crate) deprecation: Option<&'static str>,
    pub(crate) field_selectors: FieldSelectors,
    /// Whether this server has the subresource `status`, though Kubernetes 1.36 has not. Its fields are in `data/additions.yaml`.
    pub(crate) adds_status_subresource: bool,

    /// Defaults that neither the schema nor `defaults.yaml` has.
    pub(crate) set_defaults: fn(&mut Value),
    /// What Go writes of an object with nothing in it, besides zeros.
    pub(crate) set_empty_values: fn(&mut Fields),

    /// `PrepareForCreate`, of an object without the status that the client sent.
    pub(crate) prepare_for_create: fn(&mut Value, &Requester<'_>),
    /// `PrepareForUpdate` of the strategies of the resource and its subresources: new and old object, after the steps that all
    /// kinds share.
    pub(crate) prepare_for_update: fn(&mut Value, &Value, &UpdateContext<'_>),
    /// `Canonicalize`, after the object was found valid.
    pub(crate) canonicalize: fn(&mut Value),
    /// The fields that a write to a part never owns (`GetResetFields`), if they are not those of other kinds.
    pub(crate) reset_fields: Option<fn(Part) -> FieldPaths>,

    /// `Validate`, without metadata.
    pub(crate) validate: fn(&mut Check, &Value),
    /// Whether [`Strategy::validate`] checks metadata as well.
    pub(crate) validates_metadata: bool,
    /// `ValidateUpdate` of the new and the old object, without metadata. Absent: [`Strategy::validate`].
    pub(crate) validate_update: Option<fn(&mut Check, &Value, &Value)>,
    /// `ValidateUpdate` of the strategy of the subresource `status`.
    pub(crate) validate_status_update: fn(&mut Check, &Value, &Value),
    /// `ValidateUpdate` of the strategies of subresources that only this kind has.
    pub(crate) validate_subresource_update: fn(&mut Check, Part, &Value, &Value),
    /// `WarningsOnCreate` and `WarningsOnUpdate`.
    pub(crate) warnings: fn(&Value) -> Vec<String>,
    /// What of an object the server stores without acting on it. Absent: the kind is enforced.
    pub(crate) not_enforced: Option<fn(&Value) -> Option<&'static str>>,

    /// `CheckGracefulDelete`: the grace period in seconds, given the requested one. Absent: deletion takes no time.
    pub(crate) grace_period: Option<fn(&Value, Option<i64>) -> i64>,
    /// The first step of a deletion of kinds that have one of their own. `None`: as other kinds.
    pub(crate) begin_delete: fn(&Value, Timestamp) -> Option<DeleteStep>,
    /// May a terminating object without finalizers go?
    pub(crate) may_be_removed: fn(&Value) -> bool,
    /// Objects that are never deleted.
    pub(crate) protected_names: &'static [&'static str],
    /// The warning for a deletion that does not say what becomes of dependents.
    pub(crate) orphan_warning: Option<&'static str>,

    /// Fills the row of a table. Absent: name and age, as for all kinds without columns.
    pub(crate) print: Option<Printer>,
    /// The conditions of the row of a table.
    pub(crate) row_conditions: fn(&Value) -> Option<Value>,
    /// How objects count for ResourceQuotas.
    pub(crate) quota: Quota,
}

impl Strategy {
    /// What a kind does that says nothing of itself.
    pub(crate) const DEFAULT: Self = Self {
        behavior: Behavior::BUILTIN,
        name_rule: NameRule::Subdomain,
        deprecation: None,
        field_selectors: FieldSelectors::NONE,
        adds_status_subresource: false,
        set_defaults: |_| {},
        set_empty_values: |_| {},
        prepare_for_create: |_, _| {},
        prepare_for_update: |_, _, _| {},
        canonicalize: |_| {},
        reset_fields: None,
        validate: |_, _| {},
        validates_metadata: false,
        validate_update: None,
        validate_status_update: |_, _, _| {},
        validate_subresource_update: |_, _, _, _| {},
        warnings: |_| Vec::new(),
        not_enforced: None,
        grace_period: None,
        begin_delete: |_, _| None,
        may_be_removed: |_| true,
        protected_names: &[],
        orphan_warning: None,
        print: None,
        row_conditions: |_| None,
        quota: Quota::Counted,
    };

    /// That of custom resources.
    pub(crate) const CUSTOM: Self = Self { behavior: Behavior::CUSTOM, ..Self::DEFAULT };

    /// What is wrong with an object, or with a change of one, besides metadata.
    pub(crate) fn validate_content(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut check = Check::default();
        match (old, self.validate_update) {
            (Some(old), Some(validate_update)) => validate_update(&mut check, new, old),
            _ => (self.validate)(&mut check, new),
        }
        check.causes
    }

    /// What is wrong with a change of a subresource, besides metadata.
    pub(crate) fn validate_part(&self, part: Part, new: &Value, old: &Value) -> Vec<Cause> {
        let mut check = Check::default();
        match part {
            Part::Status => (self.validate_status_update)(&mut check, new, old),
            part => (self.validate_subresource_update)(&mut check, part, new, old),
        }
        check.causes
    }
}

/// The user who sent a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) groups: &'a [String],
    pub(crate) extra: &'a BTreeMap<String, Vec<String>>,
}

/// What an update is prepared with, besides the objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateContext<'a> {
    /// The part of the object that is updated.
    pub(crate) part: Part,
    pub(crate) now: Timestamp,
    pub(crate) gates: &'a FeatureGates,
}

/// What is to be done with an object that is deleted.
#[derive(Debug)]
pub(crate) enum DeleteStep {
    /// It is terminating already.
    Nothing,
    /// It becomes terminating.
    Mark(Box<Value>),
    /// It goes.
    Remove,
    /// Both: watchers see that its grace period was over before they see it go.
    MarkAndRemove(Box<Value>),
}
