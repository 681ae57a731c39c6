//! Targets: the server interface of the runner.

use std::time::Instant;

/// User of requests. Both servers get the same table, as a static token file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User name, and the value of `as` in a step.
    pub name: &'static str,
    /// The bearer token.
    pub token: &'static str,
    /// The user's uid.
    pub uid: &'static str,
    /// The user's groups, without `system:authenticated`.
    pub groups: &'static [&'static str],
}

/// All identities except `anonymous` (no token) and `invalid` (an unknown token).
pub const IDENTITIES: [Identity; 5] = [
    Identity { name: "admin", token: "admin-token", uid: "uid-admin", groups: &["system:masters"] },
    Identity { name: "alice", token: "alice-token", uid: "uid-alice", groups: &["developers"] },
    Identity { name: "bob", token: "bob-token", uid: "uid-bob", groups: &["developers", "testers"] },
    Identity { name: "carol", token: "carol-token", uid: "uid-carol", groups: &[] },
    Identity { name: "system:kube-scheduler", token: "scheduler-token", uid: "uid-scheduler", groups: &[] },
];

/// The identities in the format of `kube-apiserver --token-auth-file`: token, name, UID, groups.
#[must_use]
pub fn token_file() -> String {
    let line = |identity: &Identity| {
        let Identity { name, token, uid, groups } = identity;
        // An empty column would be a group with an empty name.
        let groups = if groups.is_empty() { String::new() } else { format!(",\"{}\"", groups.join(",")) };
        format!("{token},{name},{uid}{groups}\n")
    };
    IDENTITIES.iter().map(line).collect()
}

/// Encodes a body.
pub type Body = Vec<u8>;

/// A request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// HTTP method.
    pub method: String,
    /// Path and query, verbatim.
    pub path: String,
    /// Identity: a name of [`IDENTITIES`], `anonymous` or `invalid`.
    pub user: String,
    /// Headers, except those of the transport and `Authorization`.
    pub headers: Vec<(String, String)>,
    /// Body, possibly empty.
    pub body: Body,
}

impl Request {
    /// The value of the `Authorization` header.
    #[must_use]
    pub fn authorization(&self) -> Option<String> {
        match self.user.as_str() {
            "anonymous" => None,
            user => {
                let token = IDENTITIES.iter().find(|identity| identity.name == user);
                Some(format!("Bearer {}", token.map_or("nobody-has-this-token", |identity| identity.token)))
            }
        }
    }
}

/// A complete response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers in order; names in any case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Body,
}

impl Response {
    /// The first header with that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Response to a watch request.
pub struct Watching {
    /// Status and headers, and the body if it is not a stream.
    pub head: Response,
    /// The stream, if the status is 200.
    pub lines: Option<Box<dyn Lines>>,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watching").field("head", &self.head).finish_non_exhaustive()
    }
}

/// A stream of events.
pub trait Lines: Send {
    /// The next line; `None` when the server has closed the stream.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] if no line has arrived by then, [`Error::Transport`] if the stream fails.
    fn next(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Error>;
}

/// A server.
pub trait Target: Sync {
    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    ///
    /// There is no response. A response with any status code is not an error.
    fn send(&self, request: &Request) -> Result<Response, Error>;

    /// Sends a watch request and reads the head of the response.
    ///
    /// # Errors
    ///
    /// As [`Target::send`].
    fn watch(&self, request: &Request) -> Result<Watching, Error>;
}

/// Error of sending a request or of reading a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed, or the response is not HTTP.
    #[error("transport: {0}")]
    Transport(String),
    /// The deadline is exceeded.
    #[error("deadline exceeded")]
    Deadline,
    /// A file of cases, recordings or differences is invalid.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// The error.
        problem: String,
    },
}

impl Error {
    pub(crate) fn file(file: &str, problem: impl std::fmt::Display) -> Self {
        Self::File { file: file.to_owned(), problem: problem.to_string() }
    }
}
