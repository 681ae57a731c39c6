//! Network of namespace hosts: a bridge, and for each host a namespace that a pair of interfaces connects with it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

const NAMESPACES: &str = "/run/netns";

/// A call of `ip` that failed.
#[derive(Debug, thiserror::Error)]
#[error("`ip {command}` failed: {message}")]
pub(super) struct IpError {
    command: String,
    message: String,
}

/// The network of all hosts of a provider.
#[derive(Clone, Debug)]
pub(super) struct Network {
    prefix: String,
    /// The first two bytes of all addresses.
    subnet: [u8; 2],
}

/// Names in the network of a host.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) namespace: String,
    /// Its interface outside of the namespace.
    pub(super) link: String,
}

impl Names {
    /// Where the namespace is.
    pub(super) fn path(&self) -> PathBuf {
        Path::new(NAMESPACES).join(&self.namespace)
    }
}

/// FNV-1a: short names for what has a long one. Names of interfaces have at most 15 characters.
pub(super) fn hash(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

impl Network {
    pub(super) const fn new(prefix: String, subnet: [u8; 2]) -> Self {
        Self { prefix, subnet }
    }

    pub(super) fn names(&self, uid: &str) -> Names {
        Names {
            namespace: format!("{}-{uid}", self.prefix),
            link: format!("{}{:08x}", self.prefix, hash(uid.as_bytes())),
        }
    }

    fn bridge(&self) -> String {
        format!("{}br", self.prefix)
    }

    /// Where hosts reach the machine.
    pub(super) const fn gateway(&self) -> Ipv4Addr {
        Self::gateway_of(self.subnet)
    }

    /// Where hosts of a subnet reach the machine.
    pub(super) const fn gateway_of(subnet: [u8; 2]) -> Ipv4Addr {
        Ipv4Addr::new(subnet[0], subnet[1], 0, 1)
    }

    /// The address of a host.
    pub(super) const fn address(&self, index: u16) -> Ipv4Addr {
        let [high, low] = index.to_be_bytes();
        Ipv4Addr::new(self.subnet[0], self.subnet[1], high, low)
    }

    /// Makes the bridge, unless there is one.
    pub(super) async fn start(&self) -> Result<(), IpError> {
        let bridge = self.bridge();
        if Path::new("/sys/class/net").join(&bridge).exists() {
            return Ok(());
        }
        let gateway = self.gateway();
        batch(
            &[],
            &format!(
                "link add {bridge} type bridge\naddr add {gateway}/16 dev {bridge}\nlink set {bridge} up\n"
            ),
        )
        .await
    }

    /// Removes the bridge.
    pub(super) async fn stop(&self) -> Result<(), IpError> {
        let bridge = self.bridge();
        match Path::new("/sys/class/net").join(&bridge).exists() {
            true => batch(&[], &format!("link del {bridge}\n")).await,
            false => Ok(()),
        }
    }

    /// Makes the namespace of a host, and connects it.
    pub(super) async fn connect(&self, names: &Names, index: u16) -> Result<(), IpError> {
        let Names { namespace, link } = names;
        let (bridge, gateway, address) = (self.bridge(), self.gateway(), self.address(index));
        let outside = format!(
            "netns add {namespace}\nlink add {link} type veth peer name eth0 netns {namespace}\n\
             link set {link} master {bridge}\nlink set {link} up\n"
        );
        batch(&[], &outside).await?;
        let inside = format!(
            "addr add {address}/16 dev eth0\nlink set lo up\nlink set eth0 up\nroute add default via {gateway}\n"
        );
        batch(&["-n", namespace], &inside).await
    }

    /// Removes what is left of the network of a host.
    pub(super) async fn disconnect(&self, names: &Names) -> Result<(), IpError> {
        // With its namespace the interface would go as well, some time later.
        let link = Path::new("/sys/class/net").join(&names.link);
        remove(&link, &format!("link del {}\n", names.link)).await?;
        remove(&names.path(), &format!("netns del {}\n", names.namespace)).await
    }

    /// Cuts a host off, or connects it again.
    pub(super) async fn set_up(&self, names: &Names, is_up: bool) -> Result<(), IpError> {
        let state = if is_up { "up" } else { "down" };
        batch(&[], &format!("link set {} {state}\n", names.link)).await
    }

    /// Namespaces and interfaces of hosts, of whatever host.
    pub(super) fn existing(&self) -> Vec<String> {
        let names = |directory: &str| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let own = format!("{}-", self.prefix);
        let namespaces = names(NAMESPACES).into_iter().filter(|name| name.starts_with(&own));
        let is_link = |name: &String| {
            let rest = name.strip_prefix(&self.prefix).unwrap_or_default();
            rest.len() == 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        namespaces.chain(names("/sys/class/net").into_iter().filter(is_link)).collect()
    }
}

/// Removes something, unless it is gone. It may go by itself at any time.
async fn remove(path: &Path, command: &str) -> Result<(), IpError> {
    if !path.exists() {
        return Ok(());
    }
    match batch(&[], command).await {
        Err(_) if !path.exists() => Ok(()),
        result => result,
    }
}

/// Runs commands of `ip`, of which the first that fails ends the call.
async fn batch(options: &[&str], commands: &str) -> Result<(), IpError> {
    let failed = |message: String| IpError {
        command: commands.trim().replace('\n', "; "),
        message: message.trim().to_owned(),
    };
    let run = async {
        let mut child = Command::new("ip")
            .args(options)
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(commands.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    match run.await {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}
