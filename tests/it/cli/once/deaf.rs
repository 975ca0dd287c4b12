//! TCP proxies that pass everything until certain bytes are sent. Then one passes only what the client sends: calls are carried
//! out, and no answer arrives. The others close that connection, once: in place of the answer to the client's bytes, so that the
//! call may or may not be carried out; or in place of the server's bytes, so that it was carried out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The sender of the bytes that a proxy waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Client,
    Server,
}

/// What a proxy waits for, and what it does then.
#[derive(Clone)]
struct Wanted {
    by: By,
    bytes: &'static [u8],
    /// Whether they were sent, on any connection.
    sent: Arc<AtomicBool>,
    /// Whether a connection was closed for that; `None` where none ever is.
    cut: Option<Arc<AtomicBool>>,
}

impl Wanted {
    /// Takes in bytes of one sender; `seen` are those that it has sent before on this connection.
    fn look(&self, by: By, seen: &mut Vec<u8>, new: &[u8]) {
        seen.extend_from_slice(new);
        if by == self.by && seen.windows(self.bytes.len()).any(|window| window == self.bytes) {
            self.sent.store(true, Ordering::SeqCst);
        }
    }
}

/// The address of a proxy that goes deaf.
pub(super) async fn before(target: SocketAddr, bytes: &'static [u8]) -> String {
    proxy(target, Wanted { by: By::Client, bytes, sent: Arc::default(), cut: None }).await
}

/// The address of a proxy that closes one connection in place of the answer to these bytes, and whether it has.
pub(in crate::cli) async fn cutting(target: SocketAddr, bytes: &'static [u8]) -> (String, Arc<AtomicBool>) {
    cuts(target, By::Client, bytes).await
}

/// The address of a proxy that closes one connection in place of these bytes of an answer, and whether it has.
pub(in crate::cli) async fn losing(target: SocketAddr, bytes: &'static [u8]) -> (String, Arc<AtomicBool>) {
    cuts(target, By::Server, bytes).await
}

async fn cuts(target: SocketAddr, by: By, bytes: &'static [u8]) -> (String, Arc<AtomicBool>) {
    let cut = Arc::default();
    (proxy(target, Wanted { by, bytes, sent: Arc::default(), cut: Some(Arc::clone(&cut)) }).await, cut)
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
            wanted.look(By::Client, &mut seen, &buffer[..count]);
            if far_out.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let (mut seen, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while let Ok(count @ 1..) = far_in.read(&mut buffer).await {
            wanted.look(By::Server, &mut seen, &buffer[..count]);
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
