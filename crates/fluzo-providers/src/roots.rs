//! Which certificate authorities are trusted: the built-in ones, and those of files besides.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// A file of certificates in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootFile {
    /// What an error calls it: its path and where it was named.
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
}

/// Reads the files, at the first request that needs them.
///
/// Its error is the text for the user: which file, named where, and what is wrong.
pub type ReadRootFiles = Arc<dyn Fn() -> Result<Vec<RootFile>, String> + Send + Sync>;

/// Authorities that are trusted besides the built-in ones.
#[derive(Clone, Default)]
pub struct ExtraRoots(Option<ReadRootFiles>);

impl ExtraRoots {
    /// Those of the files that `read` returns.
    pub fn from_files(read: ReadRootFiles) -> Self {
        Self(Some(read))
    }
}

impl fmt::Debug for ExtraRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtraRoots({})", self.0.is_some())
    }
}

/// How servers are authenticated. Without `secure` none is: right for a client that speaks
/// plain HTTP only, and saves loading the authorities.
pub(crate) fn tls(secure: bool, extra: &ExtraRoots) -> Result<ClientConfig, String> {
    let store = match secure {
        true => trusted(extra)?,
        false => RootCertStore::empty(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = config.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The built-in authorities and those of `extra`.
fn trusted(extra: &ExtraRoots) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(read) = &extra.0 {
        for file in read()? {
            add(&mut store, &file)?;
        }
    }
    Ok(store)
}

/// Adds every certificate of `file`. A bundle may hold some that cannot be an authority; a
/// file without any that can is an error.
fn add(store: &mut RootCertStore, file: &RootFile) -> Result<(), String> {
    let unusable = |why: &str| {
        format!(
            "the certificate file {} cannot be used: {why}; name a PEM file of certificate authorities",
            file.name
        )
    };
    let (mut added, mut refused) = (0_usize, None);
    for certificate in CertificateDer::pem_slice_iter(&file.content) {
        let certificate = certificate.map_err(|error| unusable(&error.to_string()))?;
        match store.add(certificate) {
            Ok(()) => added += 1,
            Err(error) => refused = Some(error.to_string()),
        }
    }
    match (added, refused) {
        (0, Some(error)) => Err(unusable(&error)),
        (0, None) => Err(unusable("it holds no certificate")),
        (_, Some(error)) => {
            tracing::warn!(file = file.name, error, "certificate left out");
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusting(content: &str) -> Result<ClientConfig, String> {
        let file = RootFile {
            name: "`/ca.pem` (SSL_CERT_FILE)".into(),
            content: content.into(),
        };
        let read: ReadRootFiles = Arc::new(move || Ok(vec![file.clone()]));
        tls(true, &ExtraRoots::from_files(read))
    }

    #[test]
    fn a_broken_file_is_named_with_its_cause() {
        let rows = [
            ("", "it holds no certificate"),
            ("hello", "it holds no certificate"),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "Encoding",
            ),
            (
                "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n",
                "base64",
            ),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "section"),
        ];
        for (content, cause) in rows {
            let text = trusting(content).unwrap_err();
            let begin = "the certificate file `/ca.pem` (SSL_CERT_FILE) cannot be used: ";
            assert!(text.starts_with(begin), "{text}");
            assert!(text.contains(cause), "{content:?}: {text}");
        }
    }

    #[test]
    fn the_built_in_authorities_stay_beside_those_of_files() {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let own = params.self_signed(&rcgen::KeyPair::generate().unwrap());
        let file = RootFile {
            name: "own".into(),
            content: own.unwrap().pem().into_bytes(),
        };
        let read: ReadRootFiles = Arc::new(move || Ok(vec![file.clone()]));
        let alone = trusted(&ExtraRoots::default()).unwrap().roots;
        let both = trusted(&ExtraRoots::from_files(read)).unwrap().roots;
        assert_eq!(alone, webpki_roots::TLS_SERVER_ROOTS);
        assert_eq!(
            (&both[..alone.len()], both.len()),
            (&alone[..], alone.len() + 1)
        );
    }

    #[test]
    fn files_are_read_only_for_secure_connections() {
        let read: ReadRootFiles = Arc::new(|| Err("was read".to_owned()));
        let extra = ExtraRoots::from_files(read);
        assert!(tls(false, &extra).is_ok());
        assert_eq!(tls(true, &extra).unwrap_err(), "was read");
    }
}
