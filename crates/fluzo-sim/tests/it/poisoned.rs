use std::io::Read;
use std::net::TcpStream;

use fluzo_sim::Listener;

#[test]
fn nobody_came() {
    assert_eq!(Listener::poisoned().unwrap().finish().unwrap(), []);
}

#[test]
fn every_contact_is_remembered_and_dropped() {
    let listener = Listener::poisoned().unwrap();
    let clients = [(); 3].map(|()| TcpStream::connect(listener.address()).unwrap());
    let addresses = clients
        .each_ref()
        .map(|client| client.local_addr().unwrap());
    assert_eq!(listener.finish().unwrap(), addresses);
    for mut client in clients {
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}
