//! Targets: the server interface of the runner.

use std::time::Instant;

/// Who the scripts speak as. Both servers get the same table, as a file of static tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name, and what a step's `as` says.
    pub name: &'static str,
    /// The bearer token.
    pub token: &'static str,
    /// The user's uid.
    pub uid: &'static str,
    /// The user's groups, without `system:authenticated`.
    pub groups: &'static [&'static str],
}

/// All identities. `anonymous` (no token at all) and `invalid` (a token that nobody has) are none of them.
pub const IDENTITIES: [Identity; 5] = [
    Identity { name: "admin", token: "admin-token", uid: "uid-admin", groups: &["system:masters"] },
    Identity { name: "alice", token: "alice-token", uid: "uid-alice", groups: &["developers"] },
    Identity { name: "bob", token: "bob-token", uid: "uid-bob", groups: &["developers", "testers"] },
    Identity { name: "carol", token: "carol-token", uid: "uid-carol", groups: &[] },
    Identity { name: "system:kube-scheduler", token: "scheduler-token", uid: "uid-scheduler", groups: &[] },
];

/// The identities as `kube-apiserver --token-auth-file` reads them: token, name, uid, groups.
#[must_use]
pub fn token_file() -> String {
    let line = |identity: &Identity| {
        let Identity { name, token, uid, groups } = identity;
        // An empty column would be a group without a name.
        let groups = if groups.is_empty() { String::new() } else { format!(",\"{}\"", groups.join(",")) };
        format!("{token},{name},{uid}{groups}\n")
    };
    IDENTITIES.iter().map(line).collect()
}

/// A body as it is sent.
pub type Body = Vec<u8>;

/// A request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET` and so on.
    pub method: String,
    /// Path and query, as they are sent.
    pub path: String,
    /// Whose request it is: a name of [`IDENTITIES`], `anonymous` or `invalid`.
    pub user: String,
    /// Headers, without those of the transport and without `Authorization`.
    pub headers: Vec<(String, String)>,
    /// Empty when there is none.
    pub body: Body,
}

impl Request {
    /// The value of the request's `Authorization` header.
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

/// An answer that has come to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers in their order; names in any case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Body,
}

impl Response {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// A watch that the server has answered.
pub struct Watching {
    /// Status and headers; the body too if it is no stream.
    pub head: Response,
    /// The stream, if the answer is one (status 200).
    pub lines: Option<Box<dyn Lines>>,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watching").field("head", &self.head).finish_non_exhaustive()
    }
}

/// A stream of events.
pub trait Lines: Send {
    /// The next line; nothing when the server has ended the stream.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] when no line has come until then, [`Error::Transport`] when the stream breaks.
    fn next(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Error>;
}

/// A server.
pub trait Target: Sync {
    /// Sends a request and waits for the whole answer.
    ///
    /// # Errors
    ///
    /// When there is no answer: a status code is none.
    fn send(&self, request: &Request) -> Result<Response, Error>;

    /// Sends a request for a watch and waits for the head of the answer.
    ///
    /// # Errors
    ///
    /// As [`Target::send`].
    fn watch(&self, request: &Request) -> Result<Watching, Error>;
}

/// Why there is no answer, or no case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed, or what came is not HTTP.
    #[error("transport: {0}")]
    Transport(String),
    /// Nothing came in time.
    #[error("nothing came until the deadline")]
    Deadline,
    /// A file of cases, recordings or differences is not as it must be.
    #[error("{file}: {problem}")]
    File {
        /// Which file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    pub(crate) fn file(file: &str, problem: impl std::fmt::Display) -> Self {
        Self::File { file: file.to_owned(), problem: problem.to_string() }
    }
}
