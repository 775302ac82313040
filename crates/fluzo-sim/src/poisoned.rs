//! A listener that nobody may contact.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

/// Listens on loopback, drops each connection at once and remembers who made it.
///
/// Put its address wherever a program must not go; [`Listener::finish`] then tells whether it went.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    contacts: Option<Receiver<SocketAddr>>,
}

impl Listener {
    /// Starts to listen on a port of its own.
    ///
    /// # Errors
    /// When no port or thread is to be had.
    pub fn poisoned() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (report, contacts) = channel();
        std::thread::Builder::new()
            .name("poisoned".to_owned())
            .spawn(move || {
                while let Ok((_, peer)) = listener.accept() {
                    if report.send(peer).is_err() {
                        break;
                    }
                }
            })?;
        Ok(Self {
            address,
            contacts: Some(contacts),
        })
    }

    /// The address that is listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A base URL to plant, ending in `/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Stops listening and gives the address of each client, in order.
    ///
    /// # Errors
    /// When the listener no longer listens, so that nothing can be said about who came.
    pub fn finish(mut self) -> io::Result<Vec<SocketAddr>> {
        // Connections are accepted in the order in which they were made: what comes before ours is all there is.
        let last = TcpStream::connect(self.address)?.local_addr()?;
        let contacts = self.contacts.take().ok_or(io::ErrorKind::NotConnected)?;
        Ok(contacts.iter().take_while(|peer| *peer != last).collect())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.contacts.take());
        // The thread sees that nobody reads its reports any more, and ends.
        let _ = TcpStream::connect(self.address);
    }
}
