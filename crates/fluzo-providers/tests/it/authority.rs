//! A certificate authority of the test's own, and servers that it vouches for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use fluzo_providers::{ExtraRoots, RootFile};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub type Secure = StreamOwned<ServerConnection, TcpStream>;

/// An authority that nobody else knows.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        Self::named("test authority")
    }

    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// The file that makes a client trust it.
    pub fn file(&self) -> RootFile {
        RootFile {
            name: "`/ca.pem` (SSL_CERT_FILE)".into(),
            content: self.0.pem().into_bytes(),
        }
    }

    pub fn roots(&self) -> ExtraRoots {
        let file = self.file();
        ExtraRoots::from_files(Arc::new(move || Ok(vec![file.clone()])))
    }

    /// What a server for `host` shows, speaking one of `protocols`.
    pub fn server(&self, host: &str, protocols: &[&str]) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// Serves every connection with `serve`; returns where.
pub fn serve_tls(
    config: Arc<ServerConfig>,
    serve: impl Fn(&mut Secure) + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut secure = StreamOwned::new(connection, stream.unwrap());
            serve(&mut secure);
            secure.conn.send_close_notify();
            let _ = secure.flush();
        }
    });
    address
}

/// One frame of HTTP/2: type, flags, stream and payload (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

/// Answers every request of one HTTP/2 connection with status 200 and `body`, until the
/// client leaves; returns how many there were.
pub fn serve_http2(secure: &mut Secure, body: &[u8]) -> usize {
    let mut preface = [0; 24];
    if secure.read_exact(&mut preface).is_err() {
        return 0;
    }
    assert_eq!(preface, PREFACE);
    secure.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    let mut answered = 0;
    let mut head = [0; 9];
    while secure.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        secure.read_exact(&mut payload).unwrap();
        let (kind, flags) = (head[3], head[4]);
        match (kind, flags & 1) {
            (SETTINGS, 0) => secure.write_all(&frame(SETTINGS, 1, 0, &[])).unwrap(),
            (HEADERS | DATA, 1) => {
                // `:status: 200` is entry 8 of the static table (RFC 7541, appendix A).
                let mut bytes = frame(HEADERS, 4, stream, &[0x88]);
                bytes.extend(frame(DATA, 1, stream, body));
                secure.write_all(&bytes).unwrap();
                answered += 1;
            }
            _ => {}
        }
    }
    answered
}
