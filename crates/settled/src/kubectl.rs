//! Unsupported options and output formats of kubectl, each with its replacement.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::CommandError;

/// Options of `kubectl wait`, `kubectl apply` and `kubectl options`.
const OPTIONS: [(&str, &str); 25] = [
    ("--all", "apply takes all objects of its files"),
    (
        "--allow-missing-template-keys",
        "there are no templates: kubectl get TYPE/NAME -o go-template=... prints fields of objects",
    ),
    ("--as-user-extra", "--as, --as-group and --as-uid say whom to act as"),
    ("--cache-dir", "nothing is cached: leave it out"),
    ("--cascade", "nothing is replaced, and --prune deletes in the background: kubectl delete has --cascade"),
    (
        "--force",
        "--force-conflicts takes over fields; kubectl replace --force deletes an object and creates it anew",
    ),
    ("--grace-period", "nothing is deleted without --prune: kubectl delete has --grace-period"),
    ("--kuberc", "preferences of kubectl are not read: leave it out"),
    ("--local", "settled status -f FILE reads files without a cluster"),
    ("--log-flush-frequency", "-v 6 prints each request at once: leave it out"),
    ("--match-server-version", "every version of Kubernetes will do: leave it out"),
    ("--openapi-patch", "apply is server-side: leave it out"),
    ("--overwrite", "apply is server-side: --force-conflicts takes over fields"),
    (
        "--password",
        "Kubernetes has no basic authentication since 1.19: --token, or --client-certificate and --client-key",
    ),
    ("--profile", "-v 6 prints how long each request took"),
    ("--profile-output", "-v 6 prints how long each request took"),
    ("--prune-allowlist", "--prune --applyset NAME deletes the members of an ApplySet"),
    ("--selector", "apply takes all objects of its files"),
    (
        "--show-managed-fields",
        "results have no managedFields: kubectl get TYPE/NAME -o yaml --show-managed-fields prints them",
    ),
    ("--subresource", "kubectl apply --server-side --subresource applies a status or a scale"),
    (
        "--template",
        "there are no templates: kubectl get TYPE/NAME -o go-template=... prints fields of objects",
    ),
    (
        "--username",
        "Kubernetes has no basic authentication since 1.19: --token, or --client-certificate and --client-key",
    ),
    ("--validate", "the server always validates strictly: unknown and duplicate fields are errors"),
    ("--vmodule", "-v 6 prints requests; there are no modules"),
    (
        "--warnings-as-errors",
        "warnings are lines `Warning: ...` on standard error: a script can look for them",
    ),
];

/// Output formats of kubectl that print objects.
const FORMATS: [&str; 10] = [
    "kyaml",
    "go-template",
    "go-template-file",
    "template",
    "templatefile",
    "jsonpath",
    "jsonpath-as-json",
    "jsonpath-file",
    "custom-columns",
    "custom-columns-file",
];

/// The error of an option or format of kubectl.
pub(crate) fn refusal(error: &clap::Error) -> Option<CommandError> {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(&**text),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let name = match argument.split(['=', ' ']).next()? {
                "-l" => "--selector",
                name => name,
            };
            let (name, hint) = OPTIONS.iter().find(|(known, _)| *known == name)?;
            Some(CommandError::usage(format!("there is no {name} here, as kubectl has it")).hint(*hint))
        }
        ErrorKind::InvalidValue if argument.starts_with("--output") => {
            let format = text(ContextKind::InvalidValue)?.split('=').next()?;
            let format = FORMATS.iter().find(|known| **known == format)?;
            Some(
                CommandError::usage(format!("there is no -o {format} here: results are printed, not objects"))
                    .hint(format!("-o json prints the result; kubectl get TYPE/NAME -o {format}=... prints fields of objects")),
            )
        }
        _ => None,
    }
}
