//! Hosts of other kinds: with systemd, and with a user that is not root. Both programs are stand-ins, which show how they are called.

use std::fs;
use std::path::Path;

use serde_json::json;
use settled_machines::provider::{HostKey, HostState, Observed, Progress, Provider as _, Step};

use super::hosts::{Machine, Network};
use super::world::{World, desired, request, write_program};

/// Starts the process of a unit, as `systemctl` does.
const SYSTEMCTL: &str = r#"
echo "$*" >>/run/systemctl.log
unit=/etc/systemd/system/settled-agent.service
stop() { [ ! -f /run/unit.pid ] || kill "$(cat /run/unit.pid)" || true; rm -f /run/unit.pid; }
case "$1" in
restart)
  stop
  env $(sed -n 's/^Environment=//p' "$unit") setsid $(sed -n 's/^ExecStart=//p' "$unit") </dev/null >/dev/null 2>&1 9<&- &
  echo $! >/run/unit.pid ;;
is-active) [ -f /run/unit.pid ] && kill -0 "$(cat /run/unit.pid)" ;;
disable) stop ;;
esac
"#;

#[tokio::test(flavor = "multi_thread")]
async fn with_systemd_the_agent_is_a_unit() {
    let Some(network) = Network::new() else { return };
    if !Path::new("/etc/systemd").is_dir() {
        eprintln!("SKIPPED: there is no /etc/systemd, which the host would get its own of");
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "with CI=true nothing is skipped");
        return;
    }
    let machines = [network.host()];
    let machine = &machines[0];
    machine.shell("mkdir -p /run/systemd/system /etc/systemd/system");
    write_program(&machine.path("/run/bin/systemctl"), SYSTEMCTL);
    let world = World::start(&network, &machines).await;
    let provider = world.provider();
    let request = request("uid-1", desired("v1.36.0"));
    assert_eq!(provider.create(&request).await, Ok(Progress::Done));
    let unit = machine.path("/etc/systemd/system/settled-agent.service");
    let text = fs::read_to_string(&unit).expect("a unit");
    let command =
        "ExecStart=/var/lib/settled/bin/kubelet-v1.36.0 kubelet --dir /var/lib/settled --version v1.36.0";
    assert!(text.contains(command), "{text}");
    assert_eq!(provider.apply_step(&request, &Step::new("kubelet", "v1.37.1")).await, Ok(Progress::Done));
    match provider.observe(&HostKey::new("uid-1")).await {
        Ok(Observed::Host(host)) => {
            assert_eq!((host.state, host.versions.kubelet.as_str()), (HostState::Running, "v1.37.1"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(provider.delete(&HostKey::new("uid-1")).await, Ok(Progress::Done));
    assert!(!unit.exists());
    let calls = fs::read_to_string(machine.path("/run/systemctl.log")).expect("calls");
    for call in [
        "enable settled-agent.service",
        "restart settled-agent.service",
        "disable --now settled-agent.service",
    ] {
        assert!(calls.contains(call), "{calls}");
    }
    assert_eq!(machine.leftovers(), Vec::<String>::new());
    machines.into_iter().for_each(Machine::end);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_than_root_uses_sudo() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host()];
    let machine = &machines[0];
    machine.shell("chown 1234 /var/lib; chmod 711 /run /run/bin");
    write_program(&machine.path("/run/bin/sudo"), r#"[ "$1" = -n ] || exit 1; shift; exec "$@""#);
    let world = World::start(&network, &machines).await;
    world.patch("Host", "h1", json!({"spec": {"user": "operator"}})).await;
    let provider = world.provider();
    assert_eq!(provider.create(&request("uid-1", desired("v1.36.0"))).await, Ok(Progress::Done));
    assert_eq!(machine.shell("stat -c %u /var/lib/settled/claim"), "1234\n");
    assert_eq!(provider.delete(&HostKey::new("uid-1")).await, Ok(Progress::Done));
    assert_eq!(machine.leftovers(), Vec::<String>::new());
    machines.into_iter().for_each(Machine::end);
}
