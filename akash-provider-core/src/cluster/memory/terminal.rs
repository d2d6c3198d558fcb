//! A terminal without a shell: it prints the input until the user exits.

use crate::cluster::ExecIo;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Maximum length of an input line, in bytes. Further input is ignored.
const LINE_BYTES_MAX: usize = 4096;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: [u8; 2] = [8, 127];
/// Exit code after Ctrl-C, as in shells: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// Serves a session until Ctrl-C, Ctrl-D, `exit` or the end of the input, and returns the exit code.
///
/// # Errors
/// Returns an error when a stream fails.
pub(super) async fn serve(banner: &str, io: ExecIo) -> io::Result<i32> {
    let mut out = io.stdout;
    let hint = "`exit`, Ctrl-D or Ctrl-C ends this";
    say(&mut out, &format!("{banner}; {hint}\r\n$ ")).await?;
    let Some(mut stdin) = io.stdin else {
        return Ok(0);
    };
    let (mut line, mut chunk) = (Vec::new(), [0; 1024]);
    loop {
        let read = stdin.read(&mut chunk).await?;
        if read == 0 {
            return Ok(0);
        }
        for byte in chunk.iter().take(read).copied() {
            match byte {
                CTRL_C => return say(&mut out, "^C\r\n").await.map(|()| INTERRUPTED),
                CTRL_D => return say(&mut out, "\r\n").await.map(|()| 0),
                b'\r' | b'\n' => {
                    let typed = String::from_utf8_lossy(&line).trim().to_owned();
                    line.clear();
                    if let Some(code) = exit(&typed) {
                        return say(&mut out, "\r\n").await.map(|()| code);
                    }
                    let answer = match typed.is_empty() {
                        true => "\r\n$ ".to_owned(),
                        false => format!("\r\n{banner}: `{typed}` was not run\r\n$ "),
                    };
                    say(&mut out, &answer).await?;
                }
                byte if BACKSPACE.contains(&byte) && line.pop().is_some() => {
                    say(&mut out, "\u{8} \u{8}").await?;
                }
                byte if BACKSPACE.contains(&byte) => {}
                byte if line.len() < LINE_BYTES_MAX => {
                    line.push(byte);
                    out.write_all(&[byte]).await?;
                    out.flush().await?;
                }
                _ => {}
            }
        }
    }
}

/// Returns the exit code of an `exit` or `exit 3` command, or `None` for other input.
fn exit(typed: &str) -> Option<i32> {
    match *typed.split_whitespace().collect::<Vec<_>>() {
        ["exit" | "logout"] => Some(0),
        ["exit", code] => code.parse().ok(),
        _ => None,
    }
}

async fn say(out: &mut (impl AsyncWriteExt + Unpin), text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes()).await?;
    out.flush().await
}
