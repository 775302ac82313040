//! A listener on loopback that must not be contacted, and says so when it was.

use crate::Error;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

/// A bound listener and the log of who came.
#[derive(Debug)]
pub struct Tripwire {
    listener: TcpListener,
    log: File,
}

impl Tripwire {
    /// Binds a free port on loopback, makes the log at `log`, and writes the port to `port_file`.
    ///
    /// # Errors
    /// When binding or writing fails.
    pub fn bind(log: &Path, port_file: &Path) -> Result<Self, Error> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| Error::io(log, e))?;
        let port = listener.local_addr().map_err(|e| Error::io(log, e))?.port();
        let opened = OpenOptions::new().create(true).append(true).open(log);
        let log = opened.map_err(|e| Error::io(log, e))?;
        // Renamed into place, so that a reader never sees half a number.
        let part = port_file.with_extension("part");
        std::fs::write(&part, format!("{port}\n")).map_err(|e| Error::io(&part, e))?;
        std::fs::rename(&part, port_file).map_err(|e| Error::io(port_file, e))?;
        Ok(Self { listener, log })
    }

    /// Waits for one connection, writes a line about it to the log, and closes it.
    ///
    /// # Errors
    /// When accepting or writing fails.
    pub fn record_one(&mut self) -> std::io::Result<()> {
        let (stream, peer) = self.listener.accept()?;
        writeln!(self.log, "connection from {peer}")?;
        drop(stream);
        Ok(())
    }

    /// Records connections until the process ends.
    ///
    /// # Errors
    /// When accepting or writing fails.
    pub fn run(mut self) -> std::io::Result<()> {
        loop {
            self.record_one()?;
        }
    }
}
