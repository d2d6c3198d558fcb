//! Parameters of a stream, from the query of its URL.

use crate::rest::path::bad_number;
use crate::rest::reply;
use crate::rest::reply::RejectionReply;
use akash_provider_core::cluster::{EventOptions, ExecRequest, LogOptions};
use axum::extract::Request;
use http::StatusCode;

/// Maximum number of parameters. Each argument of a command is a parameter.
const PAIRS_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellRequest {
    pub(super) request: ExecRequest,
    pub(super) stdin: bool,
}

fn bad(words: impl std::fmt::Display) -> RejectionReply {
    reply::text(StatusCode::BAD_REQUEST, words).into()
}

impl Query {
    pub(super) fn from_request(request: &Request) -> Self {
        Self::parse(request.uri().query().unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let pairs = url::form_urlencoded::parse(text.as_bytes());
        Self(pairs.take(PAIRS_MAX).map(|(k, v)| (k.into(), v.into())).collect())
    }

    /// Returns the first value of the parameter `name`, or `None` if the parameter is missing or empty.
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    pub(super) fn log_options(&self) -> Result<LogOptions, RejectionReply> {
        let follow = self.follow()?;
        let tail = match self.get("tail") {
            None => None,
            Some(text) => tail(text)?,
        };
        let mut options = LogOptions::default();
        options.services = self.services()?;
        options.follow = follow;
        options.tail_lines = tail;
        Ok(options)
    }

    pub(super) fn event_options(&self) -> Result<EventOptions, RejectionReply> {
        let mut options = EventOptions::default();
        options.follow = self.follow()?;
        options.services = self.services()?;
        Ok(options)
    }

    fn follow(&self) -> Result<bool, RejectionReply> {
        match self.get("follow") {
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
            Some(other) => Err(bad(bad_number("Bool", other, "invalid syntax"))),
        }
    }

    /// Returns the requested services from the parameters `service` and `services`.
    fn services(&self) -> Result<Vec<String>, RejectionReply> {
        let mut all = Vec::new();
        for name in ["service", "services"] {
            let Some(text) = self.get(name) else { continue };
            // As in the Go provider, which does not read a trailing comma as an empty name.
            if text.ends_with(',') {
                return Err(bad(format!(
                    "parameter \"{name}\" must not contain trailing comma"
                )));
            }
            all.extend(text.split(',').map(ToOwned::to_owned));
        }
        Ok(all)
    }

    pub(super) fn shell(&self) -> Result<ShellRequest, RejectionReply> {
        let command = self.command();
        command.ok_or_else(|| reply::empty(StatusCode::BAD_REQUEST).into())
    }

    fn command(&self) -> Option<ShellRequest> {
        let mut command = Vec::new();
        while let Some(word) = self.get(&format!("cmd{}", command.len())) {
            command.push(word.to_owned());
        }
        let flag = |name| Some(self.get(name)? == "1");
        let mut request = ExecRequest::default();
        request.service = self.get("service")?.to_owned();
        request.replica = replica(self.get("podIndex")?)?;
        request.command = command;
        request.tty = flag("tty")?;
        let stdin = flag("stdin")?;
        (!request.command.is_empty()).then_some(ShellRequest { request, stdin })
    }
}

/// Parses the number of log lines to return; -1 means all lines.
fn tail(text: &str) -> Result<Option<u64>, RejectionReply> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad(bad_number("Int", text, "invalid syntax")));
    }
    let Ok(lines) = text.parse::<i32>() else {
        return Err(bad(bad_number("Int", text, "value out of range")));
    };
    match lines {
        -1 => Ok(None),
        lines => u64::try_from(lines)
            .map(Some)
            .map_err(|_| bad("parameter \"tail\" contains invalid value")),
    }
}

/// Parses the index of a replica. Accepts the prefixes `0x`, `0o`, `0b` and `0`, as Go does.
fn replica(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let (digits, base) = match lower.as_bytes() {
        [b'0', b'x', ..] => (lower.get(2..)?, 16),
        [b'0', b'o', ..] => (lower.get(2..)?, 8),
        [b'0', b'b', ..] => (lower.get(2..)?, 2),
        [b'0', _, ..] => (lower.get(1..)?, 8),
        _ => (lower.as_str(), 10),
    };
    // `from_str_radix` accepts a sign, so `0x-1` would be read as a number.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = u32::from_str_radix(digits, base).ok()?;
    // The network's field is signed, so a larger index is invalid.
    i32::try_from(number).is_ok().then_some(number)
}

/// Parses any text as a query and checks the invariants of the result.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(text: &str) {
    let query = Query::parse(text);
    assert!(query.0.len() <= PAIRS_MAX);
    if let Ok(command) = query.shell() {
        let words = &command.request.command;
        assert!(!words.is_empty() && words.iter().all(|w| !w.is_empty()));
        assert!(words.len() <= PAIRS_MAX && !command.request.service.is_empty());
        assert!(i32::try_from(command.request.replica).is_ok());
    }
    if let Ok(options) = query.log_options() {
        assert!(
            options
                .tail_lines
                .is_none_or(|lines| i32::try_from(lines).is_ok())
        );
        let events = query.event_options().ok();
        assert_eq!(
            events.map(|e| (e.follow, e.services)),
            Some((options.follow, options.services))
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;

    fn status(refused: Result<impl Sized, RejectionReply>) -> Option<u16> {
        refused.err().map(|r| r.into_response().status().as_u16())
    }

    #[test]
    fn log_options_are_parsed_and_invalid_values_refused() {
        let options = |text: &str| Query::parse(text).log_options();
        let all = options("follow=T&tail=-1&service=a,b&services=c&other=1").unwrap();
        assert_eq!((all.follow, all.tail_lines), (true, None));
        assert_eq!(all.services, ["a", "b", "c"]);
        let none = options("follow=&tail=&service=").unwrap();
        assert_eq!(none, LogOptions::default());
        assert_eq!(options("tail=7").unwrap().tail_lines, Some(7));
        for wrong in [
            "follow=x",
            "follow=yes",
            "tail=x",
            "tail=-2",
            "tail=2147483648",
            "tail=1.5",
            "service=a,",
        ] {
            assert_eq!(status(options(wrong)), Some(400), "{wrong}");
        }
    }

    #[test]
    fn a_command_without_a_required_parameter_is_refused() {
        let right = "cmd0=sh&cmd1=-c&cmd2=a%20b&cmd4=x&tty=0&stdin=1&service=web&podIndex=0x1";
        let command = Query::parse(right).shell().unwrap();
        assert_eq!(command.request.command, ["sh", "-c", "a b"]);
        assert_eq!(
            (command.request.replica, command.request.tty, command.stdin),
            (1, false, true)
        );
        for part in ["cmd0=sh&", "tty=0&", "stdin=1&", "service=web&"] {
            let without = right.replace(part, "");
            assert_eq!(status(Query::parse(&without).shell()), Some(400), "{without}");
        }
        for index in ["", "x", "-1", "+1", "2147483648", "0x"] {
            let wrong = right.replace("0x1", index);
            assert_eq!(status(Query::parse(&wrong).shell()), Some(400), "{wrong}");
        }
    }

    #[test]
    fn parameters_beyond_the_limit_are_ignored() {
        let bomb: String = (0..5000).map(|n| format!("cmd{n}=x&")).collect();
        assert_eq!(Query::parse(&bomb).0.len(), PAIRS_MAX);
    }
}
