//! TCP proxies that pass everything until the client has sent certain bytes. Then one passes only what the client sends: calls
//! are carried out, and no answer arrives. The other one closes that connection in place of the answer, once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What a proxy waits for, and what it does then.
#[derive(Clone)]
struct Wanted {
    bytes: &'static [u8],
    /// Whether the client has sent them, on any connection.
    sent: Arc<AtomicBool>,
    /// Whether a connection was closed for that; `None` where none ever is.
    cut: Option<Arc<AtomicBool>>,
}

/// The address of a proxy that goes deaf.
pub(super) async fn before(target: SocketAddr, bytes: &'static [u8]) -> String {
    proxy(target, Wanted { bytes, sent: Arc::default(), cut: None }).await
}

/// The address of a proxy that closes one connection, and whether it has.
pub(super) async fn cutting(target: SocketAddr, bytes: &'static [u8]) -> (String, Arc<AtomicBool>) {
    let cut = Arc::default();
    (proxy(target, Wanted { bytes, sent: Arc::default(), cut: Some(Arc::clone(&cut)) }).await, cut)
}

async fn proxy(target: SocketAddr, wanted: Wanted) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(relay(near, target, wanted.clone()));
        }
    });
    address.to_string()
}

async fn relay(near: TcpStream, target: SocketAddr, wanted: Wanted) {
    let far = TcpStream::connect(target).await.unwrap();
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let go = async {
        let (mut seen, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while let Ok(count @ 1..) = near_in.read(&mut buffer).await {
            seen.extend_from_slice(&buffer[..count]);
            if seen.windows(wanted.bytes.len()).any(|window| window == wanted.bytes) {
                wanted.sent.store(true, Ordering::SeqCst);
            }
            if far_out.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = far_in.read(&mut buffer).await {
            let sent = wanted.sent.load(Ordering::SeqCst);
            match &wanted.cut {
                None if sent => continue,
                Some(cut) if sent && !cut.swap(true, Ordering::SeqCst) => return,
                None | Some(_) => {}
            }
            if near_out.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = go => {}
        () = back => {}
    }
}
