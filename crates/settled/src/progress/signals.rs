//! Signals during a wait: interrupts, stops, and the size of the terminal.

use tokio::signal::unix::{self, SignalKind};
#[cfg(test)]
use tokio::sync::mpsc;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End: Ctrl-C, or whoever runs the job has enough.
    Interrupt,
    /// The terminal is gone: nobody reads what is still to be said.
    Hangup,
    /// The terminal has another size.
    Resize,
    /// Ctrl-Z.
    Stop,
}

/// Where signals come from.
#[derive(Debug)]
pub(crate) enum Signals {
    /// The operating system.
    Process(Box<Process>),
    /// Nowhere.
    #[cfg(test)]
    ByHand(Option<mpsc::UnboundedReceiver<Signal>>),
}

#[derive(Debug)]
pub(crate) struct Process {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    /// Which of them asked to end.
    ended_by: Option<SignalKind>,
    resize: unix::Signal,
    stop: unix::Signal,
}

impl Signals {
    /// Those of the process, from now on.
    pub(crate) fn of_process() -> std::io::Result<Self> {
        Ok(Self::Process(Box::new(Process {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hangup: unix::signal(SignalKind::hangup())?,
            ended_by: None,
            resize: unix::signal(SignalKind::window_change())?,
            stop: unix::signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
        })))
    }

    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self::ByHand(None)
    }

    #[cfg(test)]
    pub(crate) fn by_hand() -> (mpsc::UnboundedSender<Signal>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self::ByHand(Some(receiver)))
    }

    /// What a process that was asked to end ends with, by the shell's convention: 128 and the number of the signal.
    pub(crate) fn exit_code(&self) -> u8 {
        let signal = match self {
            Self::Process(process) => process.ended_by.unwrap_or(SignalKind::interrupt()),
            #[cfg(test)]
            Self::ByHand(_) => SignalKind::interrupt(),
        };
        128 + u8::try_from(signal.as_raw_value()).unwrap_or(2)
    }

    /// Once the user wants to end, before there is anything to show.
    pub(crate) async fn interrupted(&mut self) {
        loop {
            match self.next().await {
                Signal::Interrupt | Signal::Hangup => return,
                Signal::Resize => {}
                Signal::Stop => stop(),
            }
        }
    }

    /// The next one. Never, if there is none.
    pub(crate) async fn next(&mut self) -> Signal {
        match self {
            Self::Process(process) => {
                let ended_by = tokio::select! {
                    _ = process.interrupt.recv() => SignalKind::interrupt(),
                    _ = process.terminate.recv() => SignalKind::terminate(),
                    _ = process.hangup.recv() => SignalKind::hangup(),
                    _ = process.resize.recv() => return Signal::Resize,
                    _ = process.stop.recv() => return Signal::Stop,
                };
                process.ended_by = Some(ended_by);
                match ended_by == SignalKind::hangup() {
                    true => Signal::Hangup,
                    false => Signal::Interrupt,
                }
            }
            #[cfg(test)]
            Self::ByHand(Some(receiver)) => match receiver.recv().await {
                Some(signal) => signal,
                None => std::future::pending().await,
            },
            #[cfg(test)]
            Self::ByHand(None) => std::future::pending().await,
        }
    }
}

/// Stops the process until somebody lets it go on, as Ctrl-Z does to one that does not listen.
pub(crate) fn stop() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP).ok();
}
