//! Stalled clients: a list that is not read gives up its seat, and its HTTP/1.1 connection is closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::http::fair::Seat;

/// How long a client may read nothing of a list. Upstream aborts whatever takes more than a minute in all.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many bytes it has to read in a second, besides. Chunks have 128 KiB, or an object.
const MIN_RATE: u32 = 8 << 10;

/// The seat of a request, which is given back when the request is over or its client has stopped reading.
#[derive(Clone, Default)]
pub(crate) struct SharedSeat(Option<Arc<Mutex<Option<Seat>>>>);

impl SharedSeat {
    pub(crate) fn new(seat: Option<Seat>) -> Self {
        Self(seat.map(|seat| Arc::new(Mutex::new(Some(seat)))))
    }

    fn give_back(&self) {
        if let Some(seat) = &self.0 {
            seat.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

/// The connection that answers are sent on.
pub(crate) struct Connection {
    /// Others' answers are on it as well: it stays when one is not read.
    multiplexed: bool,
    stalled: Notify,
}

impl Connection {
    pub(crate) fn new(multiplexed: bool) -> Self {
        Self { multiplexed, stalled: Notify::new() }
    }

    /// Done when the connection is to be closed because its client reads no more.
    pub(crate) async fn stalled(&self) {
        self.stalled.notified().await;
    }
}

/// Reports that chunks of a list are taken. Dropped, the list is over.
pub(crate) struct Progress(watch::Sender<usize>);

impl Progress {
    /// Begins to watch over a list that is sent on a connection.
    pub(crate) fn begin(seat: SharedSeat, connection: &Arc<Connection>) -> Self {
        let (taken, mut chunks) = watch::channel(0);
        // A strong reference would count as an answer that is under way.
        let connection = Arc::downgrade(connection);
        tokio::spawn(async move {
            loop {
                let bytes = u32::try_from(*chunks.borrow_and_update()).unwrap_or(u32::MAX);
                let time = PATIENCE + Duration::from_secs(1) * bytes / MIN_RATE;
                match tokio::time::timeout(time, chunks.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return,
                    Err(_) => break,
                }
            }
            seat.give_back();
            if let Some(connection) = connection.upgrade().filter(|connection| !connection.multiplexed) {
                connection.stalled.notify_one();
            }
        });
        Self(taken)
    }

    /// A chunk of so many bytes was taken.
    pub(crate) fn taken(&self, bytes: usize) {
        self.0.send_replace(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::fair::{Fair, Share};

    #[tokio::test(start_paused = true)]
    async fn a_list_that_nobody_reads_gives_its_seat_back() {
        const SECOND: Duration = Duration::from_secs(1);
        // Whether it is HTTP/2; how many bytes are taken after how many seconds, again and again, if at all; after how many the
        // seat is given back, if at all; whether the connection is closed then.
        let cases = [
            (false, None, Some(30), true),
            (true, None, Some(30), false),
            (false, Some((1, 29)), None, false),
            (true, Some((1, 29)), None, false),
            (false, Some((1, 31)), Some(30), true),
        ];
        for (multiplexed, chunk, given_back, closed) in cases {
            let fair = Fair::new(Share { seats: 1, per_user: 1, reserve: 0, queue: 1 });
            let connection = Arc::new(Connection::new(multiplexed));
            let seat = SharedSeat::new(fair.seat("a").await.ok());
            let progress = Progress::begin(seat.clone(), &connection);
            let mut freed = None;
            for second in 1..=100 {
                tokio::time::sleep(SECOND).await;
                // Behind what the same moment woke.
                tokio::task::yield_now().await;
                if fair.held() == 0 && freed.is_none() {
                    freed = Some(second);
                }
                if let Some((bytes, every)) = chunk
                    && second % every == 0
                {
                    progress.taken(bytes);
                }
            }
            let case = format!("{multiplexed} {chunk:?}");
            assert_eq!(freed, given_back, "{case}");
            let notified = tokio::time::timeout(SECOND, connection.stalled()).await.is_ok();
            assert_eq!(notified, closed, "{case}");
            // Over, it is given back at once.
            drop((progress, seat));
            tokio::task::yield_now().await;
            assert_eq!(fair.held(), 0, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_chunks_buy_time() {
        for (bytes, seconds) in [(0, 30), (8 << 10, 31), (128 << 10, 46), (3 << 20, 414)] {
            let connection = Arc::new(Connection::new(false));
            let progress = Progress::begin(SharedSeat::default(), &connection);
            progress.taken(bytes);
            let start = tokio::time::Instant::now();
            connection.stalled().await;
            assert_eq!(start.elapsed().as_secs(), seconds, "{bytes}");
        }
    }
}
