//! Refusal of plain HTTP on the HTTPS port with a readable response, because HTTP clients would otherwise report only a
//! TLS failure.

use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// First byte of a TLS connection: a handshake record.
const TLS: u8 = 22;
/// Maximum number of request bytes that are read before the connection is closed. Closing with unread bytes
/// could discard the response.
const DRAINED: usize = 64 * 1024;

/// Returns true if the first byte of the connection can start an HTTP method. Waits for this byte.
pub(super) async fn is_spoken(tcp: &TcpStream) -> io::Result<bool> {
    let mut first = [0; 1];
    // Peeked only: TLS must read the byte too.
    let read = tcp.peek(&mut first).await?;
    Ok(read == 1 && first[0] != TLS && first[0].is_ascii_uppercase())
}

/// Sends a response that names the scheme `https`, and closes the connection.
pub(super) async fn refuse(mut tcp: TcpStream) -> io::Error {
    const TEXT: &str = "this is an https port: write https:// in front of the address\n";
    let reply = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{TEXT}",
        TEXT.len()
    );
    let sending = async {
        tcp.write_all(reply.as_bytes()).await?;
        tcp.shutdown().await?;
        let (mut rest, mut read) = ([0; 1024], 0);
        // Closing with unread bytes makes the system send a reset, which may overtake and discard the response.
        while read < DRAINED {
            match tcp.read(&mut rest).await? {
                0 => break,
                some => read += some,
            }
        }
        Ok(())
    };
    let why = sending
        .await
        .err()
        .unwrap_or_else(|| io::Error::other("plain http"));
    io::Error::new(why.kind(), format!("client does not use TLS: {why}"))
}
