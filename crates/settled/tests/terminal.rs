//! Live view in a pseudo terminal.

use std::io::{Read as _, Write as _};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::live::{AVAILABLE, Cluster, timeless};

/// How long something may take that does not depend on us.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal with a program in it.
struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl Terminal {
    fn run(cluster: &Cluster, arguments: &str, (rows, cols): (u16, u16)) -> Self {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_settled"));
        command.env_clear();
        command.env("TERM", "xterm-256color");
        command.env("KUBECONFIG", &cluster.server.kubeconfig);
        command.cwd(cluster.directory.path());
        command.args(arguments.split_whitespace());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let screen = vt100::Parser::new(rows.try_into().unwrap(), cols.try_into().unwrap(), 1000);
        Self { child, master: pair.master, output, screen }
    }

    /// Waits until the screen looks so.
    fn until(&mut self, what: &str, looks: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !looks(self.screen.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(error) => panic!("no {what}: {error}\n{}", self.contents()),
            }
        }
    }

    fn until_text(&mut self, text: &str) {
        self.until(text, |screen| screen.contents().contains(text));
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.set_size(rows.try_into().unwrap(), cols.try_into().unwrap());
        self.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    fn contents(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads to the end, and gives the exit code.
    fn end(&mut self) -> u32 {
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.screen.process(&bytes);
        }
        self.child.wait().unwrap().exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_wait_from_its_first_frame_to_its_end() {
    let cluster = Cluster::with_objects();
    let mut terminal = Terminal::run(&cluster, "wait deploy/web cm/web -n shop --color never", (12, 70));
    terminal.until_text("1/2 done");
    assert!(terminal.screen.screen().hide_cursor());
    assert!(terminal.contents().contains("✓ done already: ConfigMap/web"), "{}", terminal.contents());

    // Smaller and larger again: nothing is there twice.
    for (rows, cols) in [(12, 40), (4, 20), (20, 100)] {
        terminal.resize(rows, cols);
        terminal.until("frame after a change of size", |screen| {
            screen.contents().matches(" of 5m").count() == 1 && screen.contents().contains("Deploy")
        });
    }
    cluster.report_status(AVAILABLE);
    assert_eq!(terminal.end(), 0, "{}", terminal.contents());
    assert!(!terminal.screen.screen().hide_cursor());
    let contents = terminal.contents();
    assert!(!contents.contains("of 5m"), "the view is gone: {contents}");
    let last: Vec<&str> = contents.lines().rev().take(2).collect();
    assert_snapshot!(timeless(&format!("{}\n{}", last[1], last[0])), @"
    ✓ Deployment/web  [T]
    ✓ settled after [T] in shop: 2/2 done
    ");
}

#[test]
fn a_log_on_the_terminal_takes_the_place_of_the_view() {
    let cluster = Cluster::with_objects();
    let arguments = "wait cm/web -n shop --log-level info --color never";
    let mut terminal = Terminal::run(&cluster, arguments, (30, 200));
    assert_eq!(terminal.end(), 0, "{}", terminal.contents());
    let contents = terminal.contents();
    // Whole lines, and those of the wait among them.
    let is_logged = |line: &str| line.contains(" INFO settled_");
    assert!(contents.lines().filter(|line| is_logged(line)).count() >= 4, "{contents}");
    assert!(contents.lines().any(|line| !is_logged(line) && line.contains("1/1 done")), "{contents}");
    assert!(!contents.contains(" of 5m"), "there is a view: {contents}");
}

#[test]
fn ctrl_c_leaves_the_terminal_clean_and_says_what_is_open() {
    let cluster = Cluster::with_objects();
    let mut terminal = Terminal::run(&cluster, "wait deploy/web -n shop --color never", (12, 70));
    terminal.until_text("0/1 done");
    let mut keys = terminal.master.take_writer().unwrap();
    // What is typed is not seen.
    keys.write_all(b"hello\n").unwrap();
    keys.write_all(b"\x03").unwrap();
    assert_eq!(terminal.end(), 130);
    assert!(!terminal.screen.screen().hide_cursor());
    let contents = terminal.contents();
    assert!(!contents.contains("hello") && !contents.contains("of 5m"), "{contents}");
    assert!(contents.contains("Deployment/web  InProgress"), "{contents}");
    assert!(contents.contains("✗ interrupted after"), "{contents}");
}

#[test]
fn ctrl_z_gives_the_terminal_back_for_a_while() {
    let cluster = Cluster::with_objects();
    let mut terminal = Terminal::run(&cluster, "wait deploy/web -n shop", (12, 70));
    terminal.until_text("0/1 done");
    let mut keys = terminal.master.take_writer().unwrap();
    keys.write_all(b"\x1a").unwrap();
    terminal.until("cursor", |screen| !screen.hide_cursor() && !screen.contents().contains("of 5m"));
    // Not before it has really stopped.
    let pid = Pid::from_raw(terminal.child.process_id().unwrap().try_into().unwrap()).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped());
    kill_process(pid, Signal::CONT).unwrap();
    terminal.until("view again", |screen| screen.hide_cursor() && screen.contents().contains("of 5m"));
    keys.write_all(b"\x03").unwrap();
    assert_eq!(terminal.end(), 130);
}

#[test]
fn a_signal_that_ends_it_is_the_exit_code() {
    let cluster = Cluster::with_objects();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut terminal = Terminal::run(&cluster, "wait deploy/web -n shop", (12, 70));
        terminal.until_text("0/1 done");
        let pid = Pid::from_raw(terminal.child.process_id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(terminal.end(), code, "{}", terminal.contents());
        assert!(!terminal.screen.screen().hide_cursor());
        assert!(!terminal.contents().contains("of 5m"), "the view is gone: {}", terminal.contents());
    }
}

#[test]
fn a_tree_is_watched_until_ctrl_c() {
    let cluster = Cluster::with_objects();
    let mut terminal = Terminal::run(&cluster, "tree deploy/web cm/web -n shop --watch", (12, 90));
    terminal.until_text("NotObserved");
    cluster.report_status(AVAILABLE);
    // Ctrl-C in the middle of a frame is no harm, and what is typed is not seen.
    terminal.until("news", |screen| !screen.contents().contains("NotObserved"));
    assert_eq!(terminal.contents().matches("Deployment/web").count(), 1, "{}", terminal.contents());
    terminal.master.take_writer().unwrap().write_all(b"hello\n\x03").unwrap();
    assert_eq!(terminal.end(), 130);
    assert!(!terminal.screen.screen().hide_cursor());
    // What was seen last stays.
    let contents = terminal.contents();
    assert_eq!(contents.matches("Deployment/web").count(), 1, "{contents}");
    assert!(
        contents.contains("OBJECT") && !contents.contains("hello") && !contents.contains("^C"),
        "{contents}"
    );
}

#[test]
fn an_overview_is_watched_in_place() {
    let cluster = Cluster::with_objects();
    for (command, news) in [("status", "NotObserved"), ("why", "has not observed")] {
        let mut terminal = Terminal::run(&cluster, &format!("{command} -n shop -w"), (12, 90));
        terminal.until_text(news);
        cluster.report_status(AVAILABLE);
        terminal.until_text("everything is done");
        assert!(!terminal.contents().contains(news), "{}", terminal.contents());
        terminal.master.take_writer().unwrap().write_all(b"\x03").unwrap();
        assert_eq!(terminal.end(), 130);
        assert!(!terminal.screen.screen().hide_cursor());
        assert!(terminal.contents().contains("everything is done"), "{}", terminal.contents());
        cluster.report_status(r#"{"status":null}"#);
    }
}

#[test]
fn in_ci_a_terminal_gets_lines() {
    let cluster = Cluster::with_objects();
    let mut terminal = Terminal::run(&cluster, "wait cm/web -n shop --plain", (12, 70));
    assert_eq!(terminal.end(), 0);
    assert!(terminal.contents().contains("✓ done already: ConfigMap/web"), "{}", terminal.contents());
}
