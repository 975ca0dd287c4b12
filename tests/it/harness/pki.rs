//! An authority of the tests' own.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// Files of an authority, and of a certificate that it signed for a name.
pub(crate) struct Pki {
    folder: tempfile::TempDir,
    pub(crate) issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    pub(crate) fn new() -> Pki {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Pki { folder, issuer }
    }

    /// A certificate for this name, and its key.
    pub(crate) fn signed(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A file of this name in the folder, in which `ca.pem` is.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}
