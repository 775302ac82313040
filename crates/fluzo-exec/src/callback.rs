//! The loopback address to which a browser brings the answer of a sign-in (RFC 8252, 7.3).
//!
//! One request is taken: a GET of the path that is expected, with a `Host` that names this
//! listener, so that a page elsewhere cannot reach it under another name. Everything else gets
//! a refusal and is forgotten.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longest head of a request; codes and states are far shorter.
const HEAD: usize = 16 << 10;
/// How long one connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits for the browser.
#[derive(Debug)]
pub struct CallbackListener {
    listener: TcpListener,
    address: SocketAddr,
    path: String,
}

impl CallbackListener {
    /// Listens at `host` and `port` (0: any that is free) for `path`, which begins with `/`.
    ///
    /// # Errors
    ///
    /// When `host` is no loopback address, the port is taken, or the system refuses.
    pub async fn bind(host: IpAddr, port: u16, path: &str) -> io::Result<Self> {
        if !host.is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{host}` is no loopback address"),
            ));
        }
        let listener = TcpListener::bind((host, port)).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            path: path.to_owned(),
        })
    }

    /// The redirect address to give to the server.
    pub fn redirect_uri(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// The query of the first request that is meant for this listener; the browser is shown a
    /// line that says to go back. Dropping the future, and the end of it, close the port.
    ///
    /// # Errors
    ///
    /// When the system takes no connections any more.
    pub async fn query(self) -> io::Result<String> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            // One that says nothing must not keep the browser out for long.
            let taken = tokio::time::timeout(PATIENCE, self.take(stream)).await;
            if let Ok(Some(query)) = taken {
                return Ok(query);
            }
        }
    }

    async fn take(&self, mut stream: TcpStream) -> Option<String> {
        let head = head(&mut stream).await?;
        let wanted = self.wanted(&head);
        let (status, text) = match wanted {
            Some(_) => ("200 OK", "Done. You can close this page and go back."),
            None => ("404 Not Found", "Nothing is here."),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
            text.len()
        );
        // The code has arrived, whether or not the browser reads on.
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        wanted.map(str::to_owned)
    }

    /// The query in a head that is meant for this listener.
    fn wanted<'a>(&self, head: &'a str) -> Option<&'a str> {
        let mut lines = head.split("\r\n");
        let target = lines
            .next()?
            .strip_prefix("GET ")?
            .split(' ')
            .next()
            .filter(|target| target.len() > self.path.len())?;
        let query = target.strip_prefix(self.path.as_str())?.strip_prefix('?')?;
        let mut hosts = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        });
        let (host, more) = (hosts.next()?, hosts.next());
        let port = self.address.port();
        let own = [self.address.to_string(), format!("localhost:{port}")];
        let named = own.iter().any(|own| own.eq_ignore_ascii_case(host));
        (named && more.is_none()).then_some(query)
    }
}

/// The head of a request up to its empty line.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|part| part == b"\r\n\r\n") {
        if bytes.len() >= HEAD || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8(bytes).ok()
}
