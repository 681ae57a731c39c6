//! Commands whose shape is known: how long they run, how they end and what they log.

/// What a container's process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// How many seconds it runs; none for ever.
    pub(super) seconds: Option<i64>,
    /// With which code it ends.
    pub(super) code: i32,
    /// What it logs.
    pub(super) logs: Vec<String>,
    /// As the first process of a container, without a handler for SIGTERM, it has to be killed.
    pub(super) ignores_term: bool,
}

/// The process of a command, if it consists of `sleep`, `true`, `false`, `echo` and `exit`, also in a shell.
pub(super) fn process(command: &[String], args: &[String]) -> Option<Process> {
    let (program, rest) = command.split_first()?;
    let rest: Vec<&str> = rest.iter().chain(args).map(String::as_str).collect();
    let program = program.rsplit('/').next().unwrap_or_default();
    let mut process = Process { seconds: Some(0), code: 0, logs: Vec::new(), ignores_term: true };
    if matches!(program, "sh" | "bash" | "ash" | "dash") {
        let [flags, script, ..] = *rest.as_slice() else { return None };
        let is_command = flags.strip_prefix('-').is_some_and(|flags| {
            flags.ends_with('c') && flags.bytes().all(|flag| matches!(flag, b'c' | b'e' | b'x' | b'u'))
        });
        return is_command.then(|| shell(script, process))?;
    }
    run(program, &rest, &mut process).then_some(process)
}

/// A list of simple commands, joined by `;`, `&&` or line breaks.
fn shell(script: &str, mut process: Process) -> Option<Process> {
    for line in script.split([';', '\n']) {
        for command in line.split("&&") {
            let words: Vec<&str> = command.split_whitespace().collect();
            let Some((program, rest)) = words.split_first() else { continue };
            if command.contains(['|', '&', '$', '`', '>', '<', '(', '#']) {
                return None;
            }
            if *program == "exit" {
                process.code = rest.first().map_or(Some(process.code), |code| code.parse().ok())?;
                return Some(process);
            }
            if !run(program, rest, &mut process) {
                return None;
            }
            if process.seconds.is_none() {
                return Some(process);
            }
            if process.code != 0 {
                break;
            }
        }
    }
    Some(process)
}

fn run(program: &str, args: &[&str], process: &mut Process) -> bool {
    process.code = 0;
    match program {
        "true" | ":" => {}
        "false" => process.code = 1,
        "echo" => {
            let unquoted = args.join(" ");
            process.logs.push(unquoted.trim_matches(['"', '\'']).to_owned());
        }
        "sleep" => {
            let mut sum = 0;
            for arg in args {
                match sleep(arg) {
                    Some(Some(seconds)) => sum += seconds,
                    Some(None) => {
                        process.seconds = None;
                        return true;
                    }
                    None => return false,
                }
            }
            process.seconds = process.seconds.map(|seconds| seconds + sum);
        }
        _ => return false,
    }
    true
}

/// Seconds of an argument of `sleep`; the inner none is for ever.
#[expect(clippy::option_option, reason = "not a duration, or one without an end")]
fn sleep(arg: &str) -> Option<Option<i64>> {
    if matches!(arg, "infinity" | "inf") {
        return Some(None);
    }
    let (number, unit) = match arg.as_bytes().last()? {
        b's' => (arg.strip_suffix('s')?, 1.0),
        b'm' => (arg.strip_suffix('m')?, 60.0),
        b'h' => (arg.strip_suffix('h')?, 3600.0),
        b'd' => (arg.strip_suffix('d')?, 86_400.0),
        _ => (arg, 1.0),
    };
    let seconds: f64 = number.parse().ok()?;
    // A year is for ever.
    if !(0.0..3e7).contains(&(seconds * unit)) {
        return (seconds > 0.0).then_some(None);
    }
    let whole = (seconds * unit).ceil() as i64;
    Some(Some(whole))
}

#[cfg(test)]
mod tests {
    use super::process;

    #[test]
    fn known_commands_are_understood() {
        let run = |line: &[&str]| {
            let line: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            process(&line, &[]).map(|process| (process.seconds, process.code, process.logs.join("|")))
        };
        let logs = |text: &str| text.to_owned();
        assert_eq!(run(&["sleep", "3"]), Some((Some(3), 0, logs(""))));
        assert_eq!(run(&["/bin/sleep", "1m"]), Some((Some(60), 0, logs(""))));
        assert_eq!(run(&["sleep", "infinity"]), Some((None, 0, logs(""))));
        assert_eq!(run(&["false"]), Some((Some(0), 1, logs(""))));
        assert_eq!(
            run(&["sh", "-c", "echo 'bye bye'; sleep 5; exit 3"]),
            Some((Some(5), 3, logs("bye bye")))
        );
        assert_eq!(run(&["sh", "-c", "false && sleep 5"]), Some((Some(0), 1, logs(""))));
        assert_eq!(run(&["sh", "-c", "sleep infinity; exit 1"]), Some((None, 0, logs(""))));
        assert_eq!(run(&["sh", "-c", "until nslookup db; do sleep 2; done"]), None);
        assert_eq!(run(&["nginx"]), None);
        assert_eq!(run(&[]), None);
    }
}
