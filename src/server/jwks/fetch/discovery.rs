//! The discovery document of an issuer (`OpenID` Connect Discovery 1.0): where it is, and which URL of keys it names.

use serde::Deserialize;

/// The path of the discovery document, appended to an issuer without its trailing slash.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The fields that are read; a document has many others.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
}

/// The URL of an issuer's document.
///
/// # Errors
/// The issuer is not a URL that can have one; in words.
pub(super) fn document_of(issuer: &str) -> Result<String, String> {
    let is_place = issuer.starts_with("https://") && !issuer.contains(['?', '#']);
    if !is_place {
        return Err("its issuer is not an HTTPS URL without a query, so that it has no discovery document: set jwks_url or \
                    jwks_file"
            .to_owned());
    }
    Ok(format!("{}{WELL_KNOWN}", issuer.strip_suffix('/').unwrap_or(issuer)))
}

/// The URL of the keys that the document of this issuer names.
///
/// # Errors
/// It is not a discovery document, or that of another issuer; in words.
pub(super) fn jwks_uri(document: &[u8], issuer: &str) -> Result<String, String> {
    let found: Document = serde_json::from_slice(document)
        .map_err(|_| "it is not a discovery document: issuer or jwks_uri is missing".to_owned())?;
    // Otherwise a host could name the keys by which tokens of another issuer are accepted.
    if found.issuer != issuer {
        return Err(
            "it is the discovery document of another issuer: `issuer` must be the same, to the letter"
                .to_owned(),
        );
    }
    Ok(found.jwks_uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_of_an_issuer_is_at_its_well_known_place() {
        for (issuer, url) in [
            ("https://a.example", Some("https://a.example/.well-known/openid-configuration")),
            ("https://a.example/", Some("https://a.example/.well-known/openid-configuration")),
            (
                "https://a.example/realms/b",
                Some("https://a.example/realms/b/.well-known/openid-configuration"),
            ),
            ("http://a.example", None),
            ("a.example", None),
            ("https://a.example?b=c", None),
            ("https://a.example/#b", None),
            ("", None),
        ] {
            assert_eq!(document_of(issuer).ok().as_deref(), url, "{issuer}");
        }
    }

    #[test]
    fn document_of_another_issuer_is_refused() {
        let document =
            |issuer: &str| format!(r#"{{"issuer": "{issuer}", "jwks_uri": "https://b.example/k", "x": []}}"#);
        assert_eq!(
            jwks_uri(document("https://a.example").as_bytes(), "https://a.example").unwrap(),
            "https://b.example/k"
        );
        for other in ["https://a.example/", "https://A.example", "https://b.example", ""] {
            let error = jwks_uri(document(other).as_bytes(), "https://a.example").unwrap_err();
            assert!(error.contains("another issuer"), "{other}: {error}");
        }
        for text in [
            "",
            "[]",
            r#"{"issuer": "https://a.example"}"#,
            r#"{"issuer": "a", "issuer": "a", "jwks_uri": "b"}"#,
        ] {
            assert!(
                jwks_uri(text.as_bytes(), "https://a.example")
                    .unwrap_err()
                    .contains("not a discovery document"),
                "{text}"
            );
        }
    }
}
