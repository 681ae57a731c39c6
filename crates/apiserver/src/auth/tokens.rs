//! Bearer tokens from a file: `token,user,uid,"group1,group2"`, as `--token-auth-file` reads it.

use std::collections::HashMap;
use std::fmt;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use super::User;

/// Tokens, and whose they are.
///
/// Only their hashes are kept, and a lookup compares hashes: its duration reveals nothing about a token.
///
/// ```
/// use settled_apiserver::auth::Tokens;
///
/// let tokens = Tokens::parse("s3cret,jane,uid-1,\"dev,ops\"\n").unwrap();
/// assert_eq!(tokens.user("s3cret").unwrap().groups, ["dev", "ops", "system:authenticated"]);
/// assert!(tokens.user("s3cre").is_none());
/// ```
#[derive(Clone, Default)]
pub struct Tokens {
    users: HashMap<[u8; 32], User>,
    audiences: Vec<String>,
}

/// Why a file of tokens cannot be read. It never shows a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A record has too few columns.
    #[error("line {line}: a token needs at least 3 columns (token, user name, user uid), found {found}")]
    Columns {
        /// Where the record begins.
        line: usize,
        /// How many it has.
        found: usize,
    },
    /// A quotation mark stands where none may.
    #[error(
        "line {line}: a quotation mark stands in a column that does not begin with one, or one is missing"
    )]
    Quotes {
        /// Where the record begins.
        line: usize,
    },
}

impl Tokens {
    /// Reads a file's text. As upstream, records without a token are left out, and of two with one token the last counts.
    ///
    /// # Errors
    ///
    /// If a record is not as it should be.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = Self::default();
        for (line, record) in records(text)? {
            if record.len() < 3 {
                return Err(TokenFileError::Columns { line, found: record.len() });
            }
            let mut columns = record.into_iter();
            let mut next = || columns.next().unwrap_or_default();
            let (token, name, uid, groups) = (next(), next(), next(), next());
            if token.is_empty() {
                continue;
            }
            let groups = groups.split(',').filter(|group| !group.is_empty());
            let user = User { uid, ..User::new(name, groups) };
            tokens.add(&token, user);
        }
        Ok(tokens)
    }

    /// Gives a user a token.
    pub fn add(&mut self, token: &str, user: User) {
        self.users.insert(hash(token), user.authenticated());
    }

    /// Gives a user a new random token of 256 bits: for tests, which have no use for files.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn add_random(&mut self, user: User) -> Result<String, ring::error::Unspecified> {
        let mut bytes = [0_u8; 32];
        SystemRandom::new().fill(&mut bytes)?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.add(&token, user);
        Ok(token)
    }

    /// Says for whom tokens are good: what a TokenReview asks about. Without any, the review's own are taken.
    #[must_use]
    pub fn for_audiences(mut self, audiences: Vec<String>) -> Self {
        self.audiences = audiences;
        self
    }

    /// Whose token it is.
    #[must_use]
    pub fn user(&self, token: &str) -> Option<&User> {
        self.users.get(&hash(token))
    }

    /// For whom the tokens are good.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }
}

/// Without the hashes.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("count", &self.users.len()).finish_non_exhaustive()
    }
}

/// The token in an `Authorization` header, if it holds one.
#[must_use]
pub fn bearer(header: &str) -> Option<&str> {
    let mut parts = header.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn hash(token: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    out
}

/// The records of a CSV file as Go's `encoding/csv` reads it, each with its line.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, TokenFileError> {
    let mut out = Vec::new();
    let mut chars = text.chars().filter(|c| *c != '\r').peekable();
    let mut line = 1;
    while chars.peek().is_some() {
        let start = line;
        let error = TokenFileError::Quotes { line: start };
        let mut record = Vec::new();
        loop {
            let mut column = String::new();
            let quoted = chars.next_if_eq(&'"').is_some();
            // What follows the column: a comma, the line's end, or the file's.
            let end = loop {
                match chars.next() {
                    Some('"') if !quoted => return Err(error),
                    Some('"') => match chars.next() {
                        Some('"') => column.push('"'),
                        end @ (None | Some(',' | '\n')) => break end,
                        Some(_) => return Err(error),
                    },
                    None if quoted => return Err(error),
                    end @ (None | Some(',' | '\n')) if !quoted => break end,
                    Some(c) => {
                        line += usize::from(c == '\n');
                        column.push(c);
                    }
                    None => break None,
                }
            };
            record.push(column);
            if end != Some(',') {
                line += 1;
                break;
            }
        }
        if record.iter().any(|column| !column.is_empty()) || record.len() > 1 {
            out.push((start, record));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tokens() {
        let text = "t1,other,0\nt1,jane,1\n\nt2,bob,2,\"dev,ops\"\r\n,empty,3\nt3,\"a \"\"b\"\"\",4,one\nt4,ann,5,,more,columns";
        let tokens = Tokens::parse(text).unwrap();
        let expected: &[(&str, &str, &str, &[&str])] = &[
            ("t1", "jane", "1", &["system:authenticated"]),
            ("t2", "bob", "2", &["dev", "ops", "system:authenticated"]),
            ("t3", "a \"b\"", "4", &["one", "system:authenticated"]),
            ("t4", "ann", "5", &["system:authenticated"]),
        ];
        assert_eq!(tokens.users.len(), expected.len());
        for (token, name, uid, groups) in expected {
            let user = tokens.user(token).unwrap();
            assert_eq!((user.name.as_str(), user.uid.as_str()), (*name, *uid));
            assert_eq!(user.groups, *groups);
        }
        assert_eq!(tokens.user(""), None);
    }

    #[test]
    fn files_that_are_wrong() {
        let cases = [
            ("a,b", TokenFileError::Columns { line: 1, found: 2 }),
            ("a,b,c\n\na\n", TokenFileError::Columns { line: 3, found: 1 }),
            ("a,b\"c,d", TokenFileError::Quotes { line: 1 }),
            ("a,\"b\"c,d", TokenFileError::Quotes { line: 1 }),
            ("a,b,c\nd,\"e\nf,g", TokenFileError::Quotes { line: 2 }),
            ("a,\"b\nc\",d\na,b", TokenFileError::Columns { line: 3, found: 2 }),
        ];
        for (text, expected) in cases {
            assert_eq!(Tokens::parse(text).unwrap_err(), expected, "{text:?}");
        }
    }

    #[test]
    fn headers() {
        let cases = [
            ("Bearer abc", Some("abc")),
            ("  bearer abc  ", Some("abc")),
            ("BEARER abc def", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("", None),
        ];
        for (header, expected) in cases {
            assert_eq!(bearer(header), expected, "{header:?}");
        }
    }

    #[test]
    fn random_tokens_work_and_stay_secret() {
        let mut tokens = Tokens::default();
        let one = tokens.add_random(User::new("a", ["g"])).unwrap();
        let other = tokens.add_random(User::new("b", ["g"])).unwrap();
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
        assert_eq!(tokens.user(&one).unwrap().groups, ["g", "system:authenticated"]);
        assert!(!format!("{tokens:?}").contains(&one));
    }
}
