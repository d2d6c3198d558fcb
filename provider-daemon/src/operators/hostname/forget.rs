//! `operator hostname forget`: asks the operator that runs on this machine.

use crate::args::Output;
use crate::args::operators::ForgetArgs;
use crate::{plain, say};
use anyhow::{Context, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// The operator answers from what it knows.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest answer in bytes.
const ANSWER_MAX: u64 = 64 * 1024;

/// Has the hostnames of a lease tried again.
///
/// # Errors
/// No operator runs on this machine at that port, or it refuses.
pub fn forget(args: &ForgetArgs) -> anyhow::Result<ExitCode> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, args.rest_port));
    let answer = ask(at, &args.lease.to_string())?;
    let count = answer["forgotten"].as_u64().unwrap_or(0);
    match args.output {
        Output::Json => say(&format!("{answer}\n")),
        Output::Text if count == 0 => say("no hostname of this lease had failed\n"),
        Output::Text => say(&format!("{count} hostnames of this lease are tried again\n")),
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(at: SocketAddr, lease: &str) -> anyhow::Result<Value> {
    let asking = || format!("asking the operator at {at}");
    let stream = TcpStream::connect_timeout(&at, LIMIT);
    let mut stream = stream.with_context(|| {
        format!("{at}: no operator runs on this machine at that port; name it with --rest-port, and run this in its pod")
    })?;
    stream.set_read_timeout(Some(LIMIT)).with_context(asking)?;
    stream.set_write_timeout(Some(LIMIT)).with_context(asking)?;
    let request = format!(
        "POST /forget/{lease} HTTP/1.1\r\nHost: {at}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).with_context(asking)?;
    // Something else may listen at that port, so its answer is cut as well.
    let mut answer = String::new();
    stream
        .take(ANSWER_MAX)
        .read_to_string(&mut answer)
        .with_context(asking)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let line = head.lines().next().unwrap_or_default();
    if !line.starts_with("HTTP/1.1 200 ") {
        bail!("{at}: it answered `{}` {}", plain::line(line), plain::line(body));
    }
    serde_json::from_str(body).with_context(|| format!("{at}: what answers there is no hostname operator"))
}
