//! The examples of the standards: keys and signatures of other implementations.

use super::*;

/// RFC 7515, A.2.
const MODULUS: &str = "\
    ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SF\
    d2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo\
    7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkM\
    Ls91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const RS256: &str = "\
    eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb29\
    0Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5\
    jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0Gar\
    ZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rq\
    Vt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
/// RFC 7515, A.3.
const P256: (&str, &str) =
    ("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
const ES256: &str = "\
    eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb29\
    0Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
/// RFC 8037, A.4.
const ED25519: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const EDDSA: &str = "\
    eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbh\
    ijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

/// The key of each.
fn keys() -> Keys {
    let rsa = format!(r#"{{"kty":"RSA","n":"{MODULUS}","e":"AQAB"}}"#);
    let p256 = format!(r#"{{"kty":"EC","crv":"P-256","x":"{}","y":"{}"}}"#, P256.0, P256.1);
    let ed25519 = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{ED25519}"}}"#);
    Keys::of_jwks(signer::jwks(&[rsa, p256, ed25519]).as_bytes()).unwrap()
}

#[test]
fn verifies_signatures_of_the_standards() {
    let keys = keys();
    for (algorithm, token) in
        [(Algorithm::Rs256, RS256), (Algorithm::Es256, ES256), (Algorithm::EdDsa, EDDSA)]
    {
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let verifies = |signed: &str, signature: &[u8]| {
            keys.verify(None, algorithm, |key| key.verifies(signed.as_bytes(), signature)).is_ok()
        };
        assert!(verifies(signed, &signature), "{algorithm:?}");
        assert!(!verifies(&signed[1..], &signature), "{algorithm:?}");
        assert!(!verifies(signed, &signature[1..]), "{algorithm:?}");
    }
}

/// Their claims are not valid for this server. That it checks them shows that the signature is valid.
#[test]
fn verify_reads_tokens_of_the_standards() {
    let joe = [Issuer::new("joe", "joe", &["ledger".to_owned()], Arc::new(keys())).unwrap()];
    for token in [RS256, ES256] {
        assert_eq!(verify(&joe, token, 1_300_819_000), Err(Refused::Missing("aud")), "{token}");
    }
}
