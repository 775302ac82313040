//! What this crate asks of the world, as small traits.

use std::fmt;
use std::io;
use std::time::Duration;

use fluzo_llm::{BoxFuture, Secret};

/// The file with stored credentials. Every method blocks for as long as a small file takes.
pub trait CredentialFile: Send + Sync {
    /// The path, for messages.
    fn path(&self) -> String;

    /// The content; `None` when there is no file.
    ///
    /// # Errors
    ///
    /// When there is one that cannot be read.
    fn read(&self) -> io::Result<Option<StoredText>>;

    /// Takes the lock that all processes share, or says with `None` that another one has it.
    /// It is free again once the value is dropped, and when its process dies in any way.
    ///
    /// # Errors
    ///
    /// When the file system gives no lock.
    fn try_lock(&self) -> io::Result<Option<Box<dyn Send>>>;

    /// Makes sure that `bytes` can be written, without any change to the file. To be called
    /// before something that must not be lost is fetched. Dropping it leaves nothing behind.
    ///
    /// # Errors
    ///
    /// When they cannot, on a full disk for one.
    fn reserve(&self, bytes: usize) -> io::Result<Box<dyn ReservedFile>>;
}

/// Room for a new content of the file.
pub trait ReservedFile: Send {
    /// Makes `text` the content, readable by the owner only. Readers see the old or the new
    /// content and nothing else; when it returns, the new one outlives a loss of power.
    ///
    /// # Errors
    ///
    /// When that failed; the old content is still there.
    fn commit(self: Box<Self>, text: &str) -> io::Result<()>;
}

/// The content of the file of credentials.
#[derive(Clone)]
pub struct StoredText {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl fmt::Debug for StoredText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "StoredText({} bytes, mode {:o})",
            self.bytes.len(),
            self.mode
        )
    }
}

/// Runs the commands of values such as `!pass show key`.
pub trait SecretCommands: Send + Sync {
    /// Standard output of `sh -c COMMAND`. What it says on standard error is shown nowhere.
    /// It ends after ten seconds at the latest. Dropping the future kills the command.
    ///
    /// # Errors
    ///
    /// When it could not be run, failed, or took too long.
    fn output<'a>(&'a self, command: &'a str) -> BoxFuture<'a, Result<Secret, CommandFailed>>;
}

/// A command gave no secret. What it wrote is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the command failed")]
pub struct CommandFailed;

/// The wall clock, and waits.
pub trait Clock: Send + Sync {
    /// Unix milliseconds.
    fn now_ms(&self) -> i64;

    /// Waits. Dropping the future ends the wait.
    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()>;
}

/// Work that must come to its end also when whoever asked for it has gone.
pub trait Background: Send + Sync {
    /// Starts `work`. The program waits a while for it before it ends.
    fn spawn(&self, work: BoxFuture<'static, ()>);
}

/// Requests to authorisation servers: over HTTPS (or HTTP on loopback), each sent once,
/// redirects not followed, ended within a finite time.
pub trait FormPost: Send + Sync {
    /// Sends `request`. Dropping the future closes the connection; whether the server has
    /// acted on it is unknown then.
    fn exchange(&self, request: TokenRequest)
    -> BoxFuture<'static, Result<TokenAnswer, PostError>>;
}

/// One request to an authorisation server, which answers with JSON.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Where it goes.
    pub url: String,
    /// Further headers; `accept: application/json` is always sent.
    pub headers: Vec<(String, Secret)>,
    /// Fields of a form to be posted; `None` asks with GET.
    pub form: Option<Vec<(String, Secret)>>,
}

/// What an authorisation server answered.
#[derive(Clone)]
pub struct TokenAnswer {
    /// Status of HTTP.
    pub status: u16,
    /// The body, cut to a megabyte.
    pub body: Vec<u8>,
}

impl fmt::Debug for TokenAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenAnswer({}, {} bytes)", self.status, self.body.len())
    }
}

/// No whole answer came. The text says why, without the path, query or body of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PostError(pub String);
