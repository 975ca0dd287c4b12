//! The certificate authorities of clients, and their revocation lists.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};

use super::LEEWAY;
use super::certificate::{self, Wrong, certificates};
use super::key_kind::has_mark;

/// See the module.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    /// When the first of the revocation lists expires (`nextUpdate`), in seconds since 1970.
    pub(super) lists_end_at: Option<i64>,
}

impl ClientAuthority {
    /// Reads the texts of two files, as PEM. An error begins with the word for the file at fault, `client_ca` or `client_crl`.
    ///
    /// An expired list stays in force: what it revoked stays revoked, and no other certificate is refused.
    ///
    /// # Errors
    /// The file at fault, and what is wrong with it.
    pub fn read(authority: &[u8], revoked: Option<&[u8]>) -> Result<ClientAuthority, Wrong> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority).map_err(|text| ("client_ca", text))? {
            roots
                .add(certificate)
                .map_err(|error| ("client_ca", format!("has no usable authority: {error}")))?;
        }
        let provider = Arc::new(ring::default_provider());
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let mut lists_end_at = None;
        if let Some(revoked) = revoked {
            // A list that the PEM reader skips would revoke nothing.
            if let Some(why) = has_mark(revoked) {
                return Err(("client_crl", why.into()));
            }
            let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(revoked).collect();
            let lists = lists.map_err(|error| ("client_crl", format!("is not PEM: {error}")))?;
            if lists.is_empty() {
                return Err(("client_crl", "has no revocation list in PEM".into()));
            }
            let mut scopes: Vec<_> = lists.iter().filter_map(certificate::list_scope).collect();
            scopes.sort();
            if scopes.windows(2).any(|two| two[0] == two[1]) {
                let text = "has two revocation lists of the same authority, of which only one would count: keep the later";
                return Err(("client_crl", text.into()));
            }
            lists_end_at = lists.iter().filter_map(certificate::list_ends_at).min();
            builder = builder.with_crls(lists);
        }
        let which = if revoked.is_some() { "client_crl" } else { "client_ca" };
        // A client without a certificate may connect, and the services then require another credential: a health check does
        // not have a certificate.
        let verifier = builder.allow_unauthenticated().build();
        let verifier = verifier.map_err(|error| (which, format!("cannot be used: {error}")))?;
        Ok(ClientAuthority { verifier: Arc::new(Lenient(verifier)), lists_end_at })
    }
}

/// Verifies the validity times of certificates with the leeway of all credentials; everything else is as strict as before.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
        let verified = self.0.verify_client_cert(own, between, now);
        let at = match &verified {
            Err(Error::InvalidCertificate(Expired | ExpiredContext { .. })) => {
                now.as_secs().saturating_sub(LEEWAY)
            }
            Err(Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. })) => {
                now.as_secs().saturating_add(LEEWAY)
            }
            _ => return verified,
        };
        // Verifies the whole chain again, at another instant: all other errors remain.
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
        self.0.verify_client_cert(own, between, at)
    }

    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa,
        KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
    };

    use super::*;

    type Signer = CertifiedIssuer<'static, KeyPair>;

    fn authority() -> Signer {
        named("authority")
    }

    fn named(name: &str) -> Signer {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A certificate with this serial number, for the whole year 2030.
    fn of_2030(signer: &Signer, serial: u64) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["pay.shop".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        (params.not_before, params.not_after) = (date_time_ymd(2030, 1, 1), date_time_ymd(2031, 1, 1));
        params.signed_by(&KeyPair::generate().unwrap(), signer).unwrap().der().clone()
    }

    /// A list that expires when this year begins.
    fn list(signer: &Signer, serial: u64, until: i32) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(signer).unwrap().pem().unwrap()
    }

    fn second(year: i32) -> i64 {
        date_time_ymd(year, 1, 1).unix_timestamp()
    }

    #[test]
    fn verify_only_times_have_a_minute_of_leeway() {
        let (ours, theirs) = (authority(), authority());
        // The list has expired in all of these rows.
        let lists = list(&ours, 7, 2027);
        let known = ClientAuthority::read(ours.pem().as_bytes(), Some(lists.as_bytes())).unwrap();
        let (good, revoked, foreign) = (of_2030(&ours, 1), of_2030(&ours, 7), of_2030(&theirs, 1));
        for (at, valid) in [
            (second(2030) - 61, false),
            (second(2030) - 60, true),
            (second(2030), true),
            (second(2031), true),
            (second(2031) + 60, true),
            (second(2031) + 61, false),
            (0, false),
        ] {
            let now = UnixTime::since_unix_epoch(Duration::from_secs(at.try_into().unwrap()));
            let is_valid = |own| known.verifier.verify_client_cert(own, &[], now).is_ok();
            assert_eq!(
                (is_valid(&good), is_valid(&revoked), is_valid(&foreign)),
                (valid, false, false),
                "{at}"
            );
        }
    }

    #[test]
    fn lists_end_at_is_the_first_expiry() {
        let (one, other) = (named("one"), named("other"));
        let both = list(&one, 7, 2029) + &list(&other, 7, 2028);
        for (revoked, ends) in
            [(None, None), (Some(list(&one, 7, 2027)), Some(second(2027))), (Some(both), Some(second(2028)))]
        {
            let revoked = revoked.as_ref().map(String::as_bytes);
            let read = ClientAuthority::read(one.pem().as_bytes(), revoked).unwrap();
            assert_eq!(read.lists_end_at, ends);
        }
    }

    #[test]
    fn read_two_lists_of_one_authority_is_refused() {
        let one = named("one");
        let both = list(&one, 7, 2029) + &list(&one, 8, 2030);
        let refused = ClientAuthority::read(one.pem().as_bytes(), Some(both.as_bytes())).unwrap_err();
        assert_eq!(refused.0, "client_crl");
        assert!(refused.1.contains("two revocation lists of the same authority"), "{}", refused.1);
    }
}
