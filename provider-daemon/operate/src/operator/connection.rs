//! Connection of a command to the socket of a running provider.

use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_cli::plain;
use akash_provider_service::operator::{ControlRequest, RESPONSE_MAX, Response, WORK_LIMIT, path};
use anyhow::{Context, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Maximum wait for the response, longer than the provider's own limit.
pub(super) const RESPONSE_LIMIT: Duration = WORK_LIMIT.saturating_add(Duration::from_secs(10));

pub(super) fn print(output: Output, value: &Value, text: impl FnOnce() -> String) {
    match output {
        Output::Text => say(&text()),
        Output::Json => say(&format!("{value}\n")),
    }
}

pub(super) fn granted(response: Response) -> anyhow::Result<Response> {
    match response {
        Response::Refused { message } => bail!(WithHelp::new(
            format!("the provider refused the command: {}", plain::line(&message)),
            "check the arguments; `leases` and `operators status` show the state of the provider"
        )),
        response => Ok(response),
    }
}

pub(super) fn odd() -> &'static str {
    "unexpected response of the running provider, which may have another version than this program"
}

pub(super) fn ask(home: &Path, request: &ControlRequest) -> anyhow::Result<Response> {
    ask_within(home, request, RESPONSE_LIMIT)
}

pub(super) fn ask_within(home: &Path, request: &ControlRequest, limit: Duration) -> anyhow::Result<Response> {
    let at = path(home);
    let stream = UnixStream::connect(&at).map_err(|error| {
        let (failure, help) = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => (
                "no provider runs with this home directory",
                "set --home to the home directory of the running provider",
            ),
            ErrorKind::PermissionDenied => (
                "permission denied",
                "run this command as the system user of the provider or as root",
            ),
            _ => (
                "cannot connect to the provider",
                "check --home, and restart the provider if it does not respond",
            ),
        };
        anyhow::Error::new(error).context(WithHelp::new(format!("{}: {failure}", at.display()), help))
    })?;
    exchange(stream, &at, request, limit)
}

/// Sends a request to the provider with this home directory. `None` if no provider runs.
pub(super) fn ask_if_running(
    home: &Path,
    request: &ControlRequest,
    limit: Duration,
) -> anyhow::Result<Option<Response>> {
    let error = match ask_within(home, request, limit) {
        Ok(response) => return Ok(Some(response)),
        Err(error) => error,
    };
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    match kind {
        Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        _ => Err(error),
    }
}

fn exchange(
    mut stream: UnixStream,
    at: &Path,
    request: &ControlRequest,
    limit: Duration,
) -> anyhow::Result<Response> {
    let asking = || format!("cannot query the provider at {}", at.display());
    stream.set_read_timeout(Some(limit)).with_context(asking)?;
    stream.set_write_timeout(Some(limit)).with_context(asking)?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).with_context(asking)?;
    let mut response = Vec::new();
    let mut reading = BufReader::new(stream.take(RESPONSE_MAX));
    reading.read_until(b'\n', &mut response).with_context(asking)?;
    // A final line break shows that the response is complete.
    if !response.ends_with(b"\n") {
        bail!(WithHelp::new(
            format!(
                "{}: the provider stopped, or rejected this system user, before a response",
                at.display()
            ),
            "run this command as the system user of the provider or as root"
        ));
    }
    serde_json::from_slice(&response).with_context(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(name: &str) -> std::path::PathBuf {
        let home = std::env::temp_dir().join(format!("ask-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        home
    }

    #[test]
    fn missing_provider_is_an_error_with_a_remedy() {
        let home = home("nobody");
        let error = ask(&home, &ControlRequest::Breaker).unwrap_err();
        assert!(
            format!("{error:#}").contains("no provider runs with this home directory"),
            "{error:#}"
        );
        // A leftover socket.
        drop(std::os::unix::net::UnixListener::bind(path(&home)).unwrap());
        let error = ask(&home, &ControlRequest::Breaker).unwrap_err();
        assert!(
            format!("{error:#}").contains("no provider runs with this home directory"),
            "{error:#}"
        );
        std::fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn invalid_response_of_the_provider_is_an_error() {
        let home = home("odd");
        let listener = std::os::unix::net::UnixListener::bind(path(&home)).unwrap();
        let answering = std::thread::spawn(move || {
            for response in ["", "{\"answer\":\"tomorrow\"}\n"] {
                let (stream, _) = listener.accept().unwrap();
                let mut reading = BufReader::new(stream);
                reading.read_line(&mut String::new()).unwrap();
                reading.get_mut().write_all(response.as_bytes()).unwrap();
            }
        });
        let error = ask(&home, &ControlRequest::Breaker).unwrap_err().to_string();
        assert!(error.contains("before a response"), "{error}");
        let error = ask(&home, &ControlRequest::Breaker).unwrap_err().to_string();
        assert!(error.contains("may have another version"), "{error}");
        answering.join().unwrap();
        std::fs::remove_dir_all(&home).unwrap();
    }
}
