//! Connections that wait for a permit.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::yield_now;
use tokio_rustls::TlsConnector;

use super::*;
use crate::accounts::for_tests::{LIMITS, accounts};
use crate::identity::{OwnCertificate, Tls, Trust};

/// TLS with a new certificate, and a client that trusts this certificate alone.
fn certified() -> (Trust, TlsConnector) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let own = OwnCertificate::read(certificate.as_bytes(), key.as_bytes()).expect("they fit");
    let tls = Tls::new(&own, None).expect("TLS");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("they are supported")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Trust { tls: Some(Arc::new(tls)), ..Trust::default() }, TlsConnector::from(Arc::new(client)))
}

/// A connection may wait for hours, after which the certificate that was in force when it was accepted may have expired.
#[tokio::test]
async fn connection_that_waited_for_a_permit_has_the_tls_in_force() {
    let ((old, _), (new, client)) = (certified(), certified());
    let (guard, closing) = (Guard::new(old), CancellationToken::new());
    let limits = ConnectionLimits { per_address_max: 1, ..ConnectionLimits::default() };
    let permits = ConnectionPermits::new(0, limits);
    let options = AcceptOptions {
        protocols: Protocols::Grpc,
        permits: permits.clone(),
        limits,
        call_max: Duration::from_secs(30),
        accounts: accounts(LIMITS),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = |_: Request<Incoming>| std::future::pending::<Result<Response<AnswerBody>, Infallible>>();
    let service_of =
        move |_: Peer, _: Arc<ConnectionAccount>, _: CancellationToken| tower::service_fn(answers);
    let metrics = Metrics::new().unwrap();
    let serving = run(listener, options, guard.clone(), service_of, metrics, closing.clone());
    let connecting = async {
        let stream = TcpStream::connect(address).await.unwrap();
        // It is counted when it is accepted, and then waits for a permit.
        while permits.by_address.as_ref().unwrap().count() == 0 {
            yield_now().await;
        }
        guard.replace(new);
        permits.all.add_permits(1);
        let connected = client.connect(ServerName::try_from("localhost").unwrap(), stream).await;
        closing.cancel();
        connected.map(drop)
    };
    let ((), connected) = tokio::join!(serving, connecting);
    assert!(connected.is_ok(), "the certificate in force is not shown: {connected:?}");
}
