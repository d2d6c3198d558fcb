//! `operator … forget` and `operator … confirm`: commands that send a request to the operator process on this
//! machine.

use crate::args::operators::{ConfirmArgs, ForgetArgs};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::node::block_on;
use akash_provider_cli::output::say;
use akash_provider_cli::plain;
use anyhow::{Context, bail};
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum duration of a request to an operator.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of a response in bytes.
const ANSWER_MAX: usize = 64 * 1024;

/// Makes the operator retry the failed objects of a lease. `what` names the kind of object, for the output.
///
/// # Errors
/// Returns an error if no operator listens on this machine and port, or if the operator refuses.
pub fn forget(args: &ForgetArgs, what: &str) -> anyhow::Result<ExitCode> {
    let answer = post(args.rest_port, &format!("/forget/{}", args.lease))?;
    let count = answer["forgotten"].as_u64().unwrap_or(0);
    match args.output {
        Output::Json => say(&format!("{answer}\n")),
        Output::Text if count == 0 => say(&format!("no failed {what} of this lease\n")),
        Output::Text => say(&format!("{count} {what}s of this lease retried\n")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Confirms the deletions that the operator withholds.
///
/// # Errors
/// Returns an error in the same cases as [`forget`], and if another instance is the leader.
pub fn confirm(args: &ConfirmArgs) -> anyhow::Result<ExitCode> {
    let answer = post(args.rest_port, "/confirm")?;
    match args.output {
        Output::Json => say(&format!("{answer}\n")),
        Output::Text => say(&format!("{} deletions confirmed\n", answer["confirmed"])),
    }
    Ok(ExitCode::SUCCESS)
}

fn post(port: u16, path: &str) -> anyhow::Result<Value> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    block_on(async {
        timeout(LIMIT, ask(at, path))
            .await
            .with_context(|| format!("the operator at {at} did not respond within {LIMIT:?}"))?
    })
}

async fn ask(at: SocketAddr, path: &str) -> anyhow::Result<Value> {
    let asking = || format!("cannot query the operator at {at}");
    let stream = TcpStream::connect(at).await.with_context(|| {
        WithHelp::new(
            format!("{at}: no operator runs on this machine at that port"),
            "run this command in the pod of the operator, and set --rest-port",
        )
    })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .with_context(asking)?;
    // The connection ends with the response.
    tokio::spawn(connection);
    let request = Request::post(path).header(HOST, at.to_string());
    let request = request.body(String::new()).with_context(asking)?;
    let answer = sender.send_request(request).await.with_context(asking)?;
    let status = answer.status();
    // Another program may listen on that port, so the response is limited.
    let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
    let body = body
        .map_err(anyhow::Error::from_boxed)
        .with_context(asking)?
        .to_bytes();
    if status != StatusCode::OK {
        let words = String::from_utf8_lossy(&body);
        bail!(WithHelp::new(
            format!("{at}: the operator responded {status}: {}", plain::line(&words)),
            "check --rest-port: another program may use the port"
        ));
    }
    serde_json::from_slice(&body).with_context(|| {
        WithHelp::new(
            format!("{at}: invalid response"),
            "check --rest-port: another program listens on this port",
        )
    })
}
