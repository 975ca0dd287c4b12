//! Keys of TLS that a server cannot use, or some clients cannot: the reason names the kind.

use std::path::Path;
use std::process::Command;

use super::certificates::sh;
use crate::process::BINARY;

/// What `serve --check-config` says with these two files, and its exit code.
fn said(folder: &Path, certificate: &str, key: &str) -> (String, Option<i32>) {
    let path = |name: &str| folder.join(name).display().to_string();
    let output = Command::new(BINARY)
        .args(["serve", "--check-config", "--listen-tls-cert", &path(certificate)])
        .args(["--listen-tls-key", &path(key)])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (text.into_owned(), output.status.code())
}

#[test]
fn a_key_that_cannot_be_used_is_refused_by_its_kind() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    sh(
        at,
        "make() { name=$1; shift; openssl req -x509 -days 9 -nodes -subj /CN=x -addext subjectAltName=DNS:x \\
             -keyout $name.key -out $name.crt \"$@\" 2>/dev/null; chmod 600 $name.key; }
         ec() { make $1 -newkey ec -pkeyopt ec_paramgen_curve:$2; }
         ec p256 P-256; ec p384 P-384; ec p521 P-521; ec koblitz secp256k1
         make rsa1024 -newkey rsa:1024; make rsa2048 -newkey rsa:2048; make ed25519 -newkey ed25519; make ed448 -newkey ed448
         openssl pkey -in p256.key -aes256 -passout pass:x -out encrypted.key
         openssl rsa -in rsa2048.key -aes256 -passout pass:x -traditional -out old.key 2>/dev/null
         openssl pkey -in p256.key -outform DER -out der.key
         (printf '\\357\\273\\277'; cat p256.key) > mark.key
         (printf '\\357\\273\\277'; cat p256.crt) > mark.crt
         (printf '\\357\\273\\277'; cat p256.crt p384.crt) > leaf.crt
         (printf '\\357\\273\\277'; cat p384.crt p256.crt) > root.crt
         (cat p256.crt; printf '\\357\\273\\277'; cat p384.crt) > between.crt
         (printf '\\357\\273\\277'; openssl ecparam -name prime256v1; cat p256.key) > parameters.key
         make explicit -newkey ec -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit
         iconv -f UTF-8 -t UTF-16 p256.crt > wide.crt",
    );
    for (certificate, key, says) in [
        ("p256", "p256", None),
        ("p384", "p384", None),
        ("rsa2048", "rsa2048", None),
        ("p521", "p521", Some("listen_tls_cert: AT/p521.crt: is for a key of the kind EC P-521")),
        (
            "rsa1024",
            "rsa1024",
            Some("listen_tls_cert: AT/rsa1024.crt: is for a key of the kind RSA with 1024 bits"),
        ),
        ("koblitz", "koblitz", Some("of the kind secp256k1")),
        ("ed448", "ed448", Some("of the kind Ed448")),
        ("p256", "encrypted", Some("listen_tls_key: AT/encrypted.key: is encrypted")),
        ("rsa2048", "old", Some("is encrypted")),
        ("p256", "der", Some("is DER")),
        ("p256", "mark", Some("listen_tls_key: AT/mark.key: begins with a byte order mark")),
        ("mark", "p256", Some("listen_tls_cert: AT/mark.crt: begins with a byte order mark")),
        // Other certificates or keys behind the mark would do: a part of the file would be passed over.
        ("leaf", "p256", Some("listen_tls_cert: AT/leaf.crt: begins with a byte order mark")),
        ("root", "p256", Some("listen_tls_cert: AT/root.crt: begins with a byte order mark")),
        ("between", "p256", Some("listen_tls_cert: AT/between.crt: has a byte order mark before a BEGIN")),
        ("p256", "parameters", Some("listen_tls_key: AT/parameters.key: begins with a byte order mark")),
        ("wide", "p256", Some("is UTF-16")),
        ("rsa2048", "p521", Some("listen_tls_key: AT/p521.key: is of the kind EC P-521")),
        ("rsa2048", "koblitz", Some("listen_tls_key: AT/koblitz.key: is of the kind secp256k1")),
        ("rsa2048", "ed448", Some("listen_tls_key: AT/ed448.key: is of the kind Ed448")),
        ("explicit", "explicit", Some("of the kind EC with a curve that is described and not named, which")),
        ("p256", "p384", Some("does not fit the certificate, which is for EC P-256")),
    ] {
        let (text, code) = said(at, &format!("{certificate}.crt"), &format!("{key}.key"));
        assert_eq!(code, Some(if says.is_some() { 2 } else { 0 }), "{certificate} {key}: {text}");
        let says = says.unwrap_or_default().replace("AT", &at.display().to_string());
        assert!(text.contains(&says), "{certificate} {key} must say {says:?}: {text}");
        assert!(!text.contains("BoringSSL"), "{text}");
    }
    let (text, code) = said(at, "ed25519.crt", "ed25519.key");
    assert!(code == Some(0) && text.contains("WARN") && text.contains("BoringSSL"), "{text}");
}
