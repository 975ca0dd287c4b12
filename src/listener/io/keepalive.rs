//! Whether the other end of a connection is still there: the operating system asks, and finds one that has gone.
//!
//! HTTP/2 could ask, too. Its library then looks at a clock and takes a lock with each message, which is a fortieth of the
//! server's time where each call has a connection of its own.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// After so long without a byte the other end is asked, again and again; a host that is there answers by itself.
const ASKED_AFTER: Duration = Duration::from_mins(1);
const ASKED_EVERY: Duration = Duration::from_secs(10);
const ASKED_MOST: u32 = 2;
/// Whoever takes none of the bytes that are sent to it has gone after so long. Else they are sent for a quarter of an hour.
#[cfg(target_os = "linux")]
const GONE_AFTER: Duration = ASKED_AFTER.saturating_add(ASKED_EVERY.saturating_mul(ASKED_MOST));

/// How many bytes that are not sent yet the system takes into its own buffer. Without a bound it takes 4 MiB of each
/// connection whose client reads nothing, in memory of the kernel that counts as the container's.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 128 * 1_024;

/// Has the operating system end the connection once its other end has gone, and keep few bytes for one that does not read.
pub(in crate::listener) fn ask(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let asks = TcpKeepalive::new().with_time(ASKED_AFTER).with_interval(ASKED_EVERY).with_retries(ASKED_MOST);
    socket.set_tcp_keepalive(&asks)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(GONE_AFTER))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(UNSENT_MAX)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::listener::accepted;

    #[tokio::test]
    async fn a_host_that_has_gone_is_found_within_eighty_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client =
            TcpStream::connect(listener.local_addr().expect("its address")).await.expect("a connection");
        let (stream, from) = accepted(&listener).await;
        assert_eq!(from, client.local_addr().expect("its address"));
        let socket = SockRef::from(&stream);
        let (asks, after) = (socket.keepalive().expect("told"), socket.tcp_keepalive_time().expect("told"));
        let (every, most) = (socket.tcp_keepalive_interval(), socket.tcp_keepalive_retries());
        let (every, most) = (every.expect("told"), most.expect("told"));
        assert_eq!((asks, after + every * most), (true, Duration::from_secs(80)));
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().expect("told"), Some(Duration::from_secs(80)));
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_notsent_lowat().expect("told"), UNSENT_MAX);
    }
}
