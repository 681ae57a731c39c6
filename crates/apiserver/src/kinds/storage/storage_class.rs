//! StorageClasses.

use serde_json::Value;
use settled_apimachinery::unstructured::{given, string};
use settled_apimachinery::validation;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::printers::{Read as _, Row, cells, name_with_default_mark};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { returns_deleted: true, ..Behavior::BUILTIN },
    validate: validate_storage_class,
    validate_update: Some(|check, new, old| {
        for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            check.immutable(name, given(new, name), given(old, name));
        }
    }),
    print: Some(print_storage_class),
    ..Strategy::DEFAULT
};

fn validate_storage_class(check: &mut Check, new: &Value) {
    check.required_form(
        "provisioner",
        &string(new, "provisioner").to_lowercase(),
        validation::is_qualified_name,
    );
    for (name, words) in [
        ("reclaimPolicy", &["Delete", "Retain"] as &[&str]),
        ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ] {
        if let Some(word) = given(new, name)
            && !words.contains(&word.as_str().unwrap_or_default())
        {
            check.not_supported(name, word, words);
        }
    }
}

fn print_storage_class(row: Row<'_>) -> Vec<Value> {
    let marks =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    cells![
        name_with_default_mark(row, &marks),
        row.text("/provisioner"),
        row.text_or("/reclaimPolicy", "Delete"),
        row.text_or("/volumeBindingMode", "Immediate"),
        row.flag("/allowVolumeExpansion"),
        row.age(),
    ]
}
