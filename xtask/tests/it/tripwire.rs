//! The listener that must not be contacted.

use std::net::TcpStream;
use std::path::PathBuf;
use xtask::tripwire::Tripwire;

/// A fresh folder for one test, below the build folder.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn every_connection_leaves_a_line() {
    let folder = folder("tripwire");
    let (log, port) = (folder.join("log"), folder.join("port"));
    let mut tripwire = Tripwire::bind(&log, &port).unwrap();
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "");
    let port: u16 = std::fs::read_to_string(&port)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    for count in 1..=2 {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        tripwire.record_one().unwrap();
        drop(stream);
        assert_eq!(
            std::fs::read_to_string(&log).unwrap().lines().count(),
            count
        );
    }
}
