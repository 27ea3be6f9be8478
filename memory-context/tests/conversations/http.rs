//! A client of HTTP.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Posts to the route `/messages`, with one more header; returns the status and the body of the answer.
pub(crate) async fn posts(address: SocketAddr, header: &str, body: &Value) -> (u16, Value) {
    let mut connection = TcpStream::connect(address).await.expect("a listener");
    let body = body.to_string();
    let head = format!(
        "POST /messages HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {}\r\n{header}\r\n\
         content-type: application/json\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("answered");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    (status, serde_json::from_str(body).expect("JSON"))
}
