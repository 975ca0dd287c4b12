//! A client of the HTTP door that sends what it is given, whether or not HTTP allows that.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A header; empty if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// The reason of an error; empty if there is none.
    pub(crate) fn reason(&self) -> String {
        let json = if self.header("content-type") == "application/json" {
            self.json()
        } else {
            return String::new();
        };
        let details = json["details"].as_array().cloned().unwrap_or_default();
        let info =
            details.into_iter().find(|detail| detail["type"] == "google.rpc.ErrorInfo").unwrap_or_default();
        info["debug"]["reason"].as_str().unwrap_or_default().to_owned()
    }
}

/// One connection of HTTP/1.1.
pub(crate) struct Http1 {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Http1 {
    pub(crate) async fn to(address: SocketAddr) -> Http1 {
        Http1::over(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) fn over(stream: TcpStream) -> Http1 {
        Http1 { stream, read: Vec::new() }
    }

    /// Sends bytes. A server that has closed the connection takes none.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _sent = self.stream.write_all(bytes).await;
    }

    /// The next answer; `None` if the connection is closed.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        loop {
            if let Some(reply) = self.parse() {
                return Some(reply);
            }
            let mut some = [0; 4_096];
            match self.stream.read(&mut some).await {
                Ok(0) | Err(_) => {
                    let left = String::from_utf8_lossy(&self.read);
                    assert!(self.read.is_empty(), "half an answer: {left:?}");
                    return None;
                }
                Ok(read) => self.read.extend_from_slice(&some[..read]),
            }
        }
    }

    /// Waits until the server has read the head, and waits for the body.
    pub(crate) async fn is_asked_for_its_body(&mut self) {
        const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
        let mut asked = [0; CONTINUE.len()];
        self.stream.read_exact(&mut asked).await.unwrap();
        assert_eq!(asked, CONTINUE);
    }

    fn parse(&mut self) -> Option<Reply> {
        let end = self.read.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(self.read[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        if status == 100 {
            self.read.drain(..end + 4);
            return self.parse();
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, length)| length.parse().unwrap());
        let whole = end + 4 + length;
        if self.read.len() < whole {
            return None;
        }
        let body = self.read[end + 4..whole].to_vec();
        self.read.drain(..whole);
        Some(Reply { status, headers, body })
    }

    pub(crate) async fn ask(&mut self, bytes: &[u8]) -> Reply {
        self.send(bytes).await;
        self.reply().await.expect("an answer")
    }
}

/// A whole request of HTTP/1.1.
pub(crate) fn request(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("POST {path} HTTP/1.1\r\n");
    let has = |name: &str| headers.iter().any(|(one, _)| one.eq_ignore_ascii_case(name));
    if !has("host") {
        head += "host: localhost\r\n";
    }
    if !has("content-type") {
        head += "content-type: application/json\r\n";
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(crate) async fn http1(to: SocketAddr, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    Http1::to(to).await.ask(&request(path, headers, body)).await
}

/// The same by HTTP/2.
pub(crate) async fn http2(to: SocketAddr, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let stream = TcpStream::connect(to).await.unwrap();
    over_http2(stream, path, headers, body).await
}

pub(crate) async fn over_http2(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut client, connection) = handshake.await.unwrap();
    let serving = tokio::spawn(connection);
    let host = headers.iter().find(|(name, _)| *name == "host").map_or("localhost", |(_, host)| host);
    let mut builder = http::Request::post(format!("http://{host}{path}"));
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        builder = builder.header("content-type", "application/json");
    }
    for (name, value) in headers.iter().filter(|(name, _)| *name != "host") {
        builder = builder.header(*name, *value);
    }
    let request = builder.body(Full::new(bytes::Bytes::copy_from_slice(body))).unwrap();
    let (head, body) = client.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    serving.abort();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    Reply { status: head.status.as_u16(), headers, body }
}
