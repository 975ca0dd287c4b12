//! A TCP proxy that passes everything until the client has sent certain bytes. From then on it passes only what the client
//! sends: the calls are carried out, and no answer arrives.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(super) async fn before(target: SocketAddr, bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let deaf = Arc::new(AtomicBool::new(false));
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(relay(near, target, bytes, Arc::clone(&deaf)));
        }
    });
    address.to_string()
}

async fn relay(near: TcpStream, target: SocketAddr, bytes: &'static [u8], deaf: Arc<AtomicBool>) {
    let far = TcpStream::connect(target).await.unwrap();
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let heard = Arc::clone(&deaf);
    let go = async move {
        let (mut seen, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while let Ok(count @ 1..) = near_in.read(&mut buffer).await {
            seen.extend_from_slice(&buffer[..count]);
            if seen.windows(bytes.len()).any(|window| window == bytes) {
                deaf.store(true, Ordering::SeqCst);
            }
            if far_out.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    let back = async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = far_in.read(&mut buffer).await {
            if !heard.load(Ordering::SeqCst) && near_out.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(go, back);
}
