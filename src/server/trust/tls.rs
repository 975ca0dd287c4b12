//! The files of TLS: the server's own certificate and key, and the authorities of its clients.

use std::path::PathBuf;

use super::modes::warn_if_open;
use super::reloadable::Reloadable;
use crate::identity::{ClientAuthority, OwnCertificate, Wrong};
use crate::server::config::TlsFiles;

/// Files of TLS that belong together: `make` gets their texts, in this order.
fn tls_files<T: 'static>(
    files: Vec<(String, PathBuf)>,
    make: impl Fn(&[Vec<u8>]) -> Result<T, Wrong> + Send + 'static,
) -> Result<Reloadable<T>, Vec<String>> {
    let paths = files.clone();
    Reloadable::new(files, move |texts| {
        make(texts).map_err(|(which, problem)| {
            let setting = format!("listen_tls_{which}");
            let path = paths.iter().find(|(one, _)| one == &setting);
            let path = path.map_or_else(String::new, |(_, path)| path.display().to_string());
            vec![format!("{setting}: {path}: {problem}")]
        })
    })
}

pub(super) fn own_certificate(files: &TlsFiles) -> Result<Reloadable<OwnCertificate>, Vec<String>> {
    let all = vec![
        ("listen_tls_cert".to_owned(), files.cert.clone()),
        ("listen_tls_key".to_owned(), files.key.clone()),
    ];
    let key_path = files.key.clone();
    // Built at the start, and whenever one of the two files has changed.
    tls_files(all, move |texts| {
        let made = match texts {
            [certificate, key] => OwnCertificate::read(certificate, key),
            _ => OwnCertificate::read(b"", b""),
        }?;
        warn_if_open("listen_tls_key", &key_path);
        if made.uses_ed25519() {
            tracing::warn!(
                setting = "listen_tls_cert",
                "the certificate, or its signature, is of the kind Ed25519: clients on BoringSSL (gRPC of Python, Ruby, \
                 PHP and C++, Envoy, Chrome) cannot connect; EC P-256 is taken by all"
            );
        }
        Ok(made)
    })
}

pub(super) fn client_authority(files: &TlsFiles) -> Option<Result<Reloadable<ClientAuthority>, Vec<String>>> {
    let mut all = vec![("listen_tls_client_ca".to_owned(), files.client_ca.clone()?)];
    all.extend(files.client_crl.clone().map(|path| ("listen_tls_client_crl".to_owned(), path)));
    Some(tls_files(all, |texts| {
        let authority = texts.first().map_or(&b""[..], Vec::as_slice);
        ClientAuthority::read(authority, texts.get(1).map(Vec::as_slice))
    }))
}
