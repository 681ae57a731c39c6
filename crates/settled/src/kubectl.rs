//! Unsupported options and output formats of kubectl, each with its replacement.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::CommandError;

/// Options of `kubectl wait`, `kubectl apply` and `kubectl options`.
const OPTIONS: [(&str, &str); 25] = [
    ("--all", "apply always applies all objects of its files"),
    (
        "--allow-missing-template-keys",
        "templates are not supported: kubectl get TYPE/NAME -o go-template=... prints fields of objects",
    ),
    ("--as-user-extra", "use --as, --as-group and --as-uid"),
    ("--cache-dir", "nothing is cached: omit the option"),
    ("--cascade", "nothing is replaced, and --prune deletes in the background: kubectl delete has --cascade"),
    (
        "--force",
        "--force-conflicts takes over fields; kubectl replace --force deletes and recreates an object",
    ),
    ("--grace-period", "nothing is deleted without --prune: kubectl delete has --grace-period"),
    ("--kuberc", "kuberc is not read: omit the option"),
    ("--local", "settled status -f FILE reads files without a cluster"),
    ("--log-flush-frequency", "-v 6 prints each request immediately: omit the option"),
    ("--match-server-version", "the server version does not matter: omit the option"),
    ("--openapi-patch", "apply is always server-side: omit the option"),
    ("--overwrite", "apply is always server-side: --force-conflicts takes over fields"),
    (
        "--password",
        "Kubernetes removed basic authentication in 1.19: use --token, or --client-certificate and --client-key",
    ),
    ("--profile", "-v 6 prints the duration of each request"),
    ("--profile-output", "-v 6 prints the duration of each request"),
    ("--prune-allowlist", "use --prune --applyset NAME"),
    ("--selector", "apply always applies all objects of its files"),
    (
        "--show-managed-fields",
        "results have no managedFields: kubectl get TYPE/NAME -o yaml --show-managed-fields prints them",
    ),
    ("--subresource", "kubectl apply --server-side --subresource applies a status or a scale"),
    (
        "--template",
        "templates are not supported: kubectl get TYPE/NAME -o go-template=... prints fields of objects",
    ),
    (
        "--username",
        "Kubernetes removed basic authentication in 1.19: use --token, or --client-certificate and --client-key",
    ),
    ("--validate", "the server always validates strictly: unknown and duplicate fields are errors"),
    ("--vmodule", "-v 6 prints requests"),
    ("--warnings-as-errors", "warnings are lines `Warning: ...` on standard error"),
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
            Some(CommandError::usage(format!("{name} is not supported")).hint(*hint))
        }
        ErrorKind::InvalidValue if argument.starts_with("--output") => {
            let format = text(ContextKind::InvalidValue)?.split('=').next()?;
            let format = FORMATS.iter().find(|known| **known == format)?;
            Some(
                CommandError::usage(format!("-o {format} is not supported: results are printed, not objects"))
                    .hint(format!("-o json prints the result; kubectl get TYPE/NAME -o {format}=... prints fields of objects")),
            )
        }
        _ => None,
    }
}
