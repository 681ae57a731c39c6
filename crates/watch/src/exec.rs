//! Exec credential plugins (`client.authentication.k8s.io`), with a bound on their output. They end with their caller.
//!
//! kube-client would run them twice, without a bound, on the thread that does everything else.

use std::io::IsTerminal as _;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_client::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

/// How much a plugin may print: certificates and keys are some KB.
const OUTPUT_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Puts the credentials that the plugin prints in the place of the plugin. When they have expired, the server refuses them, and
/// everything is read anew. Without a terminal, the plugin can neither ask nor print messages.
pub(crate) async fn fill(credentials: &mut AuthInfo, terminal: bool) -> Result<(), String> {
    let Some(plugin) = credentials.exec.take() else { return Ok(()) };
    let command = plugin.command.clone().ok_or("the kubeconfig's exec plugin names no command")?;
    let wrong = |what: String| format!("exec plugin {command}: {what}");
    let printed = run(&plugin, &command, terminal).await.map_err(wrong)?;
    // client-go takes YAML, too.
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(&printed, &mut json)
        .map_err(|error| wrong(format!("it printed no ExecCredential: {error}")))?;
    let credential: ExecCredential = serde_json::from_slice(&json)
        .map_err(|error| wrong(format!("it printed no ExecCredential: {error}")))?;
    let status = credential.status.ok_or_else(|| wrong("its ExecCredential has no status".to_owned()))?;
    match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => {
            credentials.client_certificate_data = Some(STANDARD.encode(certificate));
            credentials.client_key_data = Some(STANDARD.encode(key).into());
        }
        (None, None) if status.token.is_some() => {}
        (None, None) => return Err(wrong("it printed neither a token nor a certificate".to_owned())),
        _ => return Err(wrong("it printed a certificate or a key without the other".to_owned())),
    }
    if let Some(token) = status.token {
        credentials.token = Some(token.into());
    }
    Ok(())
}

async fn run(plugin: &ExecConfig, command: &str, terminal: bool) -> Result<Vec<u8>, String> {
    let interactive = match plugin.interactive_mode {
        Some(ExecInteractiveMode::Always) if !terminal => return Err("it needs a terminal".to_owned()),
        _ if !terminal => false,
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) => true,
        Some(ExecInteractiveMode::IfAvailable) | None => std::io::stdin().is_terminal(),
    };
    let mut spec = json!({"interactive": interactive});
    if plugin.provide_cluster_info {
        spec["cluster"] = serde_json::to_value(&plugin.cluster).map_err(|error| error.to_string())?;
    }
    let info = json!({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec});
    let mut process = Command::new(command);
    process.args(plugin.args.iter().flatten());
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            process.env(name, value);
        }
    }
    process.env("KUBERNETES_EXEC_INFO", info.to_string());
    process.stdin(if interactive { Stdio::inherit() } else { Stdio::null() });
    process.stderr(if terminal { Stdio::inherit() } else { Stdio::null() });
    process.stdout(Stdio::piped()).kill_on_drop(true);
    // Neither its arguments nor what it prints: they may be credentials.
    tracing::debug!(command, "running the credential plugin");
    let mut child = process.spawn().map_err(|error| match &plugin.install_hint {
        Some(hint) => format!("cannot start it: {error}\n{hint}"),
        None => format!("cannot start it: {error}"),
    })?;
    let mut printed = Vec::new();
    if let Some(output) = child.stdout.take() {
        let read = output.take(OUTPUT_MAX + 1).read_to_end(&mut printed).await;
        read.map_err(|error| format!("cannot read what it prints: {error}"))?;
    }
    if printed.len() as u64 > OUTPUT_MAX {
        return Err(format!("it prints more than {} MiB", OUTPUT_MAX >> 20));
    }
    match child.wait().await {
        Ok(status) if status.success() => Ok(printed),
        Ok(status) => Err(format!("it failed with {status}")),
        Err(error) => Err(format!("cannot wait for it: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// What comes of a plugin that is this shell command: the credentials as a kubeconfig has them, or the error.
    async fn filled(script: &str) -> Result<Value, String> {
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
            "env": [{"name": "TOKEN", "value": "abc"}], "interactiveMode": "Never",
        });
        let mut credentials: AuthInfo = serde_json::from_value(json!({ "exec": exec })).unwrap();
        fill(&mut credentials, true).await?;
        assert!(credentials.exec.is_none(), "it would run once more");
        Ok(serde_json::to_value(&credentials).unwrap())
    }

    #[tokio::test]
    async fn without_a_terminal_no_plugin_asks() {
        for (mode, expected) in [
            ("Never", Ok(())),
            ("IfAvailable", Ok(())),
            ("Always", Err("exec plugin sh: it needs a terminal".to_owned())),
        ] {
            let script = r#"echo "status: {token: '$KUBERNETES_EXEC_INFO'}""#;
            let exec = json!({
                "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
                "interactiveMode": mode,
            });
            let mut credentials: AuthInfo = serde_json::from_value(json!({ "exec": exec })).unwrap();
            assert_eq!(fill(&mut credentials, false).await, expected, "{mode}");
            if expected.is_ok() {
                let token = serde_json::to_value(&credentials).unwrap()["token"].to_string();
                assert!(token.contains(r#"interactive\":false"#), "{mode}: {token}");
            }
        }
    }

    #[tokio::test]
    async fn plugins_print_tokens_and_certificates() {
        let printed = |status: &str| format!(r#"echo '{{"kind":"ExecCredential","status":{status}}}'"#);
        let token = filled(r#"echo "{\"status\": {\"token\": \"$TOKEN\"}}""#).await.unwrap();
        assert_eq!(token["token"], "abc");
        let info = filled(r#"echo "status: {token: '$KUBERNETES_EXEC_INFO'}""#).await.unwrap();
        let info: Value = serde_json::from_str(info["token"].as_str().unwrap()).unwrap();
        assert_eq!(info["apiVersion"], "client.authentication.k8s.io/v1");
        assert_eq!(info["spec"], json!({"interactive": false}));
        let both =
            filled(&printed(r#"{"clientCertificateData":"cert","clientKeyData":"key"}"#)).await.unwrap();
        assert_eq!(both["client-certificate-data"], STANDARD.encode("cert"));
        let cases = [
            ("exit 3", "exec plugin sh: it failed with exit status: 3"),
            (&printed("{}"), "exec plugin sh: it printed neither a token nor a certificate"),
            (
                &printed(r#"{"clientKeyData":"key"}"#),
                "exec plugin sh: it printed a certificate or a key without the other",
            ),
            ("echo '{}'", "exec plugin sh: its ExecCredential has no status"),
            ("yes", "exec plugin sh: it prints more than 1 MiB"),
        ];
        for (script, error) in cases {
            assert_eq!(filled(script).await, Err(error.to_owned()), "{script}");
        }
    }
}
