//! Retries of requests that the server was too busy for, or did not answer.

use std::time::Duration;

use settled_watch::RequestError;

/// How often a request is tried again that the server was too busy for.
const MAX_RETRIES: u32 = 5;
/// How often a request is tried again that was not answered.
const MAX_RECONNECTS: u32 = 3;

/// Tries again while the server is too busy, or has not answered. Applying twice does no harm.
pub(super) async fn retry<T, F: Future<Output = Result<T, RequestError>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, RequestError> {
    let (mut tries, mut reconnects) = (0, 0);
    loop {
        match ask().await {
            Err(RequestError::Transport(_)) if reconnects < MAX_RECONNECTS => {
                reconnects += 1;
                tokio::time::sleep(Duration::from_millis(100 << reconnects)).await;
            }
            Err(RequestError::Status { code: 429 | 500 | 502..=504, retry_after, .. })
                if tries < MAX_RETRIES =>
            {
                tries += 1;
                tokio::time::sleep(retry_after.unwrap_or_else(|| Duration::from_millis(100 << tries))).await;
            }
            answer => return answer,
        }
    }
}
