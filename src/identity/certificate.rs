//! Reads certificates: the principal that one names, and the expiry of certificates and revocation lists.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::oid_registry::OID_X509_EXT_ISSUER_DISTRIBUTION_POINT;
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, GeneralName, X509Certificate};

use super::key_kind::{has_mark, why_not_pem};
use super::refused::Refused;

/// The scheme of a SPIFFE id.
pub(super) const SPIFFE: &str = "spiffe://";

/// More than any chain, or any list of authorities here, has.
const CERTIFICATES_MAX: usize = 256;

/// The word for the file at fault, and what is wrong with it.
pub type Wrong = (&'static str, String);

/// The names of a certificate's holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    uris: Vec<String>,
    dns: Vec<String>,
}

impl Names {
    /// The names in a verified certificate.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Names, Refused> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| Refused::Nameless)?;
        let names = parsed.subject_alternative_name().map_err(|_| Refused::Nameless)?;
        let mut found = Names::default();
        for name in names.map_or(&[][..], |names| names.value.general_names.as_slice()) {
            // Other kinds of names are not used for principals.
            if let GeneralName::URI(uri) = name {
                found.uris.push((*uri).to_owned());
            } else if let GeneralName::DNSName(name) = name {
                found.dns.push((*name).to_owned());
            }
        }
        Ok(found)
    }

    /// The principal: the one SPIFFE id, or else the first DNS name.
    pub(super) fn principal(&self) -> Result<String, Refused> {
        let mut ids = self.uris.iter().filter(|uri| uri.starts_with(SPIFFE));
        match (ids.next(), ids.next(), self.dns.first()) {
            (Some(id), None, _) if is_plain(id) => Ok(id.clone()),
            (None, None, Some(name)) if is_plain(name) => Ok(format!("dns:{name}")),
            (Some(_), None, _) | (None, None, Some(_)) => Err(Refused::Name),
            (_, Some(_), _) | (None, None, None) => Err(Refused::Nameless),
        }
    }

    /// All names, in the form of the list of trusted proxies.
    pub(super) fn all(&self) -> impl Iterator<Item = String> {
        let dns = self.dns.iter().map(|name| format!("dns:{name}"));
        self.uris.iter().cloned().chain(dns)
    }
}

/// Whether a name can be a URI or a DNS name: those have only ASCII letters, digits and signs. A trailing blank, or a bidi
/// character that reverses the line of a log, would look like another name.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The certificates of a file, as PEM.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    if let Some(why) = has_mark(pem) {
        return Err(why.into());
    }
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| format!("is not PEM: {error}"))?;
    match found.len() {
        0 => Err(why_not_pem(pem).unwrap_or("has no certificate in PEM").into()),
        1..=CERTIFICATES_MAX => Ok(found),
        many => Err(format!("has {many} certificates, must have at most {CERTIFICATES_MAX}")),
    }
}

/// When the first certificate of a chain expires, in seconds since 1970; `None` if one cannot be read.
///
/// A root in the chain does not count: clients ignore it, whenever it expires.
pub(super) fn chain_ends_at(chain: &[CertificateDer<'_>]) -> Option<i64> {
    let mut ends = i64::MAX;
    for (at, certificate) in chain.iter().enumerate() {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        if at == 0 || parsed.issuer() != parsed.subject() {
            ends = ends.min(parsed.validity().not_after.timestamp());
        }
    }
    (!chain.is_empty()).then_some(ends)
}

/// When a revocation list expires (`nextUpdate`), in seconds since 1970; `None` if it does not say.
pub(super) fn list_ends_at(list: &CertificateRevocationListDer<'_>) -> Option<i64> {
    let (_, parsed) = CertificateRevocationList::from_der(list).ok()?;
    parsed.next_update().map(|at| at.timestamp())
}

/// The scope of a revocation list: its authority and, if that has several lists, the distribution point. Of two lists with
/// the same scope only one would be used.
pub(super) fn list_scope(list: &CertificateRevocationListDer<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let (_, parsed) = CertificateRevocationList::from_der(list).ok()?;
    let point = parsed.extensions().iter().find(|one| one.oid == OID_X509_EXT_ISSUER_DISTRIBUTION_POINT);
    Some((parsed.issuer().as_raw().to_vec(), point.map(|one| one.value.to_vec()).unwrap_or_default()))
}

/// The first DNS name of a certificate that names a single host (is not a wildcard).
pub(super) fn host(certificate: &CertificateDer<'_>) -> Option<String> {
    let plain = |name: &String| name.chars().all(|one| one.is_ascii_alphanumeric() || "-._".contains(one));
    Names::of(certificate).ok()?.dns.into_iter().find(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principal_is_the_spiffe_id_or_first_dns_name() {
        for (uris, dns, principal) in [
            (&["spiffe://shop/pay"][..], &[][..], Ok("spiffe://shop/pay")),
            (&["spiffe://shop/pay"], &["pay.shop"], Ok("spiffe://shop/pay")),
            (&["https://shop/pay"], &["pay.shop", "pay"], Ok("dns:pay.shop")),
            (&["https://shop/pay", "spiffe://shop/pay"], &[], Ok("spiffe://shop/pay")),
            (&["spiffe://shop/a", "spiffe://shop/b"], &["pay.shop"], Err(Refused::Nameless)),
            (&["https://shop/pay"], &[], Err(Refused::Nameless)),
            (&["spiffe://shop/pay "], &["pay.shop"], Err(Refused::Name)),
            (&["spiffe://shop/\u{202e}yap"], &[], Err(Refused::Name)),
            (&[], &["", "pay.shop"], Err(Refused::Name)),
            (&[], &["pay shop"], Err(Refused::Name)),
            (&[], &[], Err(Refused::Nameless)),
        ] {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let names = Names { uris: owned(uris), dns: owned(dns) };
            assert_eq!(names.principal(), principal.map(str::to_owned), "{uris:?} {dns:?}");
        }
    }

    #[test]
    fn chain_ends_at_the_first_expiry() {
        use rcgen::{
            BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
        };

        let params = |name: &str, until| {
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.not_after = date_time_ymd(until, 1, 1);
            params
        };
        let issuer = |name, until| {
            let mut params = params(name, until);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let key = || KeyPair::generate().unwrap();
        let root = CertifiedIssuer::self_signed(issuer("root", 2027), key()).unwrap();
        let between = CertifiedIssuer::signed_by(issuer("between", 2029), key(), &root).unwrap();
        let own = |until| params("own", until).signed_by(&key(), &between).unwrap().der().clone();
        let (sooner, later) = (own(2028), own(2030));
        for (chain, ends) in [
            (vec![sooner.clone(), between.der().clone()], Some(2028)),
            (vec![later.clone(), between.der().clone()], Some(2029)),
            (vec![later.clone(), between.der().clone(), root.der().clone()], Some(2029)),
            (vec![later.clone()], Some(2030)),
            (vec![root.der().clone()], Some(2027)),
            (vec![later, CertificateDer::from(&b"0"[..])], None),
            (vec![], None),
        ] {
            let ends = ends.map(|year| date_time_ymd(year, 1, 1).unix_timestamp());
            assert_eq!(chain_ends_at(&chain), ends);
        }
    }

    #[test]
    fn file_of_certificates_is_bounded() {
        let one = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (count, says) in [
            (0, Some("has no certificate in PEM")),
            (1, None),
            (CERTIFICATES_MAX, None),
            (CERTIFICATES_MAX + 1, Some("has 257 certificates, must have at most 256")),
        ] {
            let read = certificates(one.repeat(count).as_bytes());
            assert_eq!(read.as_ref().map(Vec::len).ok(), says.is_none().then_some(count), "{count}");
            assert_eq!(read.err().as_deref(), says, "{count}");
        }
    }

    #[test]
    fn malformed_certificate_is_refused() {
        for bytes in [&b""[..], b"0", &[0x30, 0x82, 0xff, 0xff]] {
            let certificate = CertificateDer::from(bytes);
            assert_eq!(Names::of(&certificate), Err(Refused::Nameless));
            assert_eq!(chain_ends_at(&[certificate]), None);
            assert_eq!(list_ends_at(&CertificateRevocationListDer::from(bytes)), None);
        }
    }
}
