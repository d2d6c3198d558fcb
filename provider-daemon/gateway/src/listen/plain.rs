//! Plain http at a port of https: said in words, for a connection that is merely cut tells its client nothing.

use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The first byte of every TLS connection: a record of the handshake.
const TLS: u8 = 22;
/// What is read of a request that is not answered otherwise, so that the answer is not lost with the connection.
const DRAINED: usize = 64 * 1024;

/// True where the other end begins as a method of http does; waits for its first byte.
pub(super) async fn is_spoken(tcp: &TcpStream) -> io::Result<bool> {
    let mut first = [0; 1];
    // Only peeked at: TLS has to find the byte where it was.
    let read = tcp.peek(&mut first).await?;
    Ok(read == 1 && first[0] != TLS && first[0].is_ascii_uppercase())
}

/// Says what kind of port this is, and ends the connection.
pub(super) async fn refuse(mut tcp: TcpStream) -> io::Error {
    const TEXT: &str = "this is an https port: write https:// in front of the address\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{TEXT}",
        TEXT.len()
    );
    let said = async {
        tcp.write_all(answer.as_bytes()).await?;
        tcp.shutdown().await?;
        let (mut rest, mut read) = ([0; 1024], 0);
        // Closing with unread bytes makes the system send a reset, which may overtake and discard the answer.
        while read < DRAINED {
            match tcp.read(&mut rest).await? {
                0 => break,
                some => read += some,
            }
        }
        Ok(())
    };
    let why = said.await.err().unwrap_or_else(|| io::Error::other("plain http"));
    io::Error::new(why.kind(), format!("it does not speak TLS: {why}"))
}
