//! Signals during a wait: interrupts, stops, and the size of the terminal.

mod signal;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(test)]
use tokio::sync::mpsc;

pub(crate) use signal::Signal;
#[cfg(unix)]
use unix::Process;
#[cfg(unix)]
pub(crate) use unix::stop;
#[cfg(windows)]
use windows::Process;
#[cfg(windows)]
pub(crate) use windows::stop;

/// Where signals come from.
#[derive(Debug)]
pub(crate) enum Signals {
    /// The operating system.
    Process(Box<Process>),
    /// Nowhere.
    #[cfg(test)]
    ByHand(Option<mpsc::UnboundedReceiver<Signal>>),
}

impl Signals {
    /// Those of the process, from now on.
    pub(crate) fn of_process() -> std::io::Result<Self> {
        Ok(Self::Process(Box::new(Process::new()?)))
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

    /// Exit code by the shell's convention: 128 + the number of the signal.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Process(process) => process.exit_code(),
            #[cfg(test)]
            Self::ByHand(_) => 130,
        }
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
            Self::Process(process) => process.next().await,
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
