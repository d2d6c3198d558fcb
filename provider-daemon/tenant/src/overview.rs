//! Status of a lease as text: first the addresses, then the services.
//!
//! The size of a response is limited, but the length of its texts is not. Long cells are cut and long tables end early,
//! so that the output stays readable.

use super::json::Json;
use akash_provider_cli::plain::{self, count};

/// Maximum length of a cell; a hostname has at most 253 characters.
const CELL_CHARS_MAX: usize = 300;
/// Maximum length of the reason for an unreachable hostname.
const REASON_CHARS_MAX: usize = 500;
/// Maximum number of rows per table.
const ROWS_MAX: usize = 1000;

/// Status of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceOverview {
    pub(super) name: String,
    available: u64,
    total: u64,
    /// Number of replicas with the latest manifest; `None` if not reported.
    updated: Option<u64>,
    termination: Option<String>,
}

impl ServiceOverview {
    fn from_status(name: &str, status: &Json) -> Self {
        Self {
            name: cell(name),
            available: number(status.at("available")).unwrap_or_default(),
            total: number(status.at("total")).unwrap_or_default(),
            updated: number(status.at("updated_replicas")),
            termination: status.field("last_termination").map(termination),
        }
    }

    /// Returns true if all replicas are available and have the latest manifest. A service without replicas is
    /// unavailable.
    pub(super) fn is_available(&self) -> bool {
        self.state() == "available"
    }

    /// Returns the available and the total number of replicas, as `1/2`.
    pub(super) fn ready(&self) -> String {
        format!("{}/{}", self.available, self.total)
    }

    /// Returns the state of the service, with the last termination if the service is unavailable.
    pub(super) fn summary(&self) -> String {
        match &self.termination {
            Some(termination) if !self.is_available() => format!("{}: {termination}", self.state()),
            _ => self.state().to_owned(),
        }
    }

    pub(super) fn state(&self) -> &'static str {
        if self.available == 0 {
            "not available"
        } else if self.available < self.total {
            "partly available"
        } else if self.updated.is_some_and(|updated| updated < self.total) {
            "updating"
        } else {
            "available"
        }
    }
}

fn termination(ended: &Json) -> String {
    let reason = ended.at("reason").text().filter(|reason| !reason.is_empty());
    let code = match ended.at("exit_code") {
        Json::Number(code) => code.to_string(),
        _ => "unknown".to_owned(),
    };
    let restarts = number(ended.at("restarts")).unwrap_or_default();
    format!(
        "last container terminated by {}, exit code {code}, {}",
        cell(reason.unwrap_or("itself")),
        count(usize::try_from(restarts).unwrap_or(usize::MAX), "restart")
    )
}

/// Returns one line for each service with a terminated container.
fn terminations(status: &Json) -> Option<String> {
    let all = services(status);
    let lines = all.iter().filter_map(|service| {
        let termination = service.termination.as_ref()?;
        Some(format!("{}: {termination}\n", service.name))
    });
    let lines: String = lines.take(ROWS_MAX).collect();
    (!lines.is_empty()).then_some(lines)
}

pub(super) fn services(status: &Json) -> Vec<ServiceOverview> {
    let all = fields(status.at("services")).iter();
    all.map(|(name, service)| ServiceOverview::from_status(name, service))
        .collect()
}

/// Formats the status of one lease, or of a list of leases.
pub(super) fn text(response: &Json) -> String {
    let Json::List(entries) = response else {
        return lease_text(response);
    };
    let text = |entry: &Json| {
        let status_text = match entry.field("status") {
            Some(status) => lease_text(status),
            None => format!(
                "unknown: {}\n",
                cell(entry.at("error").text().unwrap_or_default())
            ),
        };
        format!("{}\n\n{status_text}", heading(entry.at("lease_id")))
    };
    entries.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn heading(lease: &Json) -> String {
    let part = |name: &str| match lease.at(name) {
        Json::Text(text) => cell(text),
        Json::Number(number) => number.to_string(),
        Json::Null | Json::Bool(_) | Json::List(_) | Json::Fields(_) => String::new(),
    };
    format!(
        "lease {}/{}/{} at {}",
        part("dseq"),
        part("gseq"),
        part("oseq"),
        part("provider")
    )
}

fn lease_text(status: &Json) -> String {
    let tables = [
        table(&["URL", "SERVICE"], urls(status)),
        unreachable_hostnames(status),
        table(
            &["SERVICE", "READY", "STATE"],
            services(status)
                .into_iter()
                .map(|service| [service.name.clone(), service.ready(), service.state().to_owned()]),
        ),
        terminations(status),
        table(
            &["FORWARDED PORT", "PROTOCOL", "SERVICE", "PORT"],
            endpoints(status.at("forwarded_ports"), &FORWARDED),
        ),
        table(
            &["ADDRESS", "PROTOCOL", "SERVICE", "PORT"],
            endpoints(status.at("ips"), &LEASED),
        ),
    ];
    let texts: Vec<String> = tables.into_iter().flatten().collect();
    match texts.is_empty() {
        true => "no services yet\n".to_owned(),
        false => texts.join("\n"),
    }
}

// The status does not state whether a hostname has a certificate, so the URLs use plain HTTP.
fn urls(status: &Json) -> impl Iterator<Item = [String; 2]> {
    let all = fields(status.at("services")).iter();
    all.flat_map(|(name, service)| {
        let hosts = items(service.at("uris")).iter().filter_map(Json::text);
        hosts.map(|host| {
            let url = match host.contains("://") {
                true => cell(host),
                false => format!("http://{}", cell(host)),
            };
            [url, cell(name)]
        })
    })
}

/// Returns the unreachable hostnames, each with the reason on a separate line.
fn unreachable_hostnames(status: &Json) -> Option<String> {
    let of_services = fields(status.at("services")).iter();
    let names = of_services.flat_map(|(_, service)| fields(service.at("hostnames")));
    let lines = names.filter_map(|(name, notes)| {
        let reachable = notes.at("reachable");
        let is_dead = reachable.at("state").text() == Some("no");
        let why = match (notes.at("waits_for").text(), is_dead) {
            (Some(why), _) => why.to_owned(),
            (None, true) => format!("no response: {}", reachable.at("why").text().unwrap_or_default()),
            (None, false) => return None,
        };
        let why: String = why.chars().take(REASON_CHARS_MAX).collect();
        Some(format!("{}: {}\n", cell(name), plain::line(&why)))
    });
    let listed: String = lines.take(ROWS_MAX).collect();
    (!listed.is_empty()).then_some(listed)
}

/// JSON field names of a service endpoint in the Go provider.
struct Names {
    host: &'static str,
    external: &'static str,
    protocol: &'static str,
    port: &'static str,
}

const FORWARDED: Names = Names {
    host: "host",
    external: "externalPort",
    protocol: "proto",
    port: "port",
};
const LEASED: Names = Names {
    host: "IP",
    external: "ExternalPort",
    protocol: "Protocol",
    port: "Port",
};

fn endpoints(by_service: &Json, names: &'static Names) -> impl Iterator<Item = [String; 4]> {
    fields(by_service).iter().flat_map(move |(service, all)| {
        items(all).iter().map(move |endpoint| {
            let port = |name| number(endpoint.at(name)).unwrap_or_default();
            let host = cell(endpoint.at(names.host).text().unwrap_or_default());
            // An IPv6 address needs brackets before the port.
            let host = if host.contains(':') {
                format!("[{host}]")
            } else {
                host
            };
            [
                format!("{host}:{}", port(names.external)),
                cell(endpoint.at(names.protocol).text().unwrap_or_default()),
                cell(service),
                port(names.port).to_string(),
            ]
        })
    })
}

/// Formats aligned columns; `None` without rows.
fn table<const N: usize>(titles: &[&str; N], rows: impl Iterator<Item = [String; N]>) -> Option<String> {
    let mut rows = rows;
    let first_rows: Vec<[String; N]> = rows.by_ref().take(ROWS_MAX).collect();
    if first_rows.is_empty() {
        return None;
    }
    let titles = titles.map(str::to_owned);
    let lines = || std::iter::once(&titles).chain(&first_rows);
    let widths: [usize; N] = std::array::from_fn(|column| {
        let widths = lines().filter_map(|line| line.get(column));
        widths.map(|text| text.chars().count()).max().unwrap_or_default()
    });
    let mut text = String::new();
    for line in lines() {
        let padded = line.iter().zip(widths);
        let padded: Vec<String> = padded.map(|(text, width)| format!("{text:width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    match rows.count() {
        0 => {}
        more => text.push_str(&format!("and {more} more (see `-o json`)\n")),
    }
    Some(text)
}

/// Returns an untrusted text on one line, cut to the maximum cell length.
fn cell(text: &str) -> String {
    let short: String = text.chars().take(CELL_CHARS_MAX).collect();
    let cut = if short.len() < text.len() { "…" } else { "" };
    format!("{}{cut}", plain::line(&short))
}

fn number(value: &Json) -> Option<u64> {
    match value {
        Json::Number(number) => number.as_u64(),
        Json::Null | Json::Bool(_) | Json::Text(_) | Json::List(_) | Json::Fields(_) => None,
    }
}

fn fields(value: &Json) -> &[(String, Json)] {
    match value {
        Json::Fields(fields) => fields,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => &[],
    }
}

fn items(value: &Json) -> &[Json] {
    match value {
        Json::List(items) => items,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::Fields(_) => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(json: &str) -> String {
        text(&serde_json::from_str(json).unwrap())
    }

    const GAME: &str = r#"{"services":{"game":{"name":"game","available":1,"total":2,"uris":["game.example.com"],
        "updated_replicas":1},"side":{"name":"side","available":1,"total":1,"uris":null}},
        "forwarded_ports":{"game":[{"host":"provider.localhost","port":9000,"externalPort":30375,"proto":"TCP"}]},
        "ips":{"game":[{"Port":80,"ExternalPort":8080,"Protocol":"TCP","IP":"10.0.0.1"},
        {"Port":80,"ExternalPort":80,"Protocol":"TCP","IP":"fd00::1"}]}}"#;

    #[test]
    fn prints_addresses_before_services() {
        let expected = "\
URL                      SERVICE
http://game.example.com  game

SERVICE  READY  STATE
game     1/2    partly available
side     1/1    available

FORWARDED PORT            PROTOCOL  SERVICE  PORT
provider.localhost:30375  TCP       game     9000

ADDRESS        PROTOCOL  SERVICE  PORT
10.0.0.1:8080  TCP       game     80
[fd00::1]:80   TCP       game     80
";
        assert_eq!(overview(GAME), expected);
        let lease = r#"{"dseq":7,"gseq":1,"oseq":2,"provider":"akash1p"}"#;
        let list = overview(&format!(
            r#"[{{"lease_id":{lease},"status":{GAME}}},{{"lease_id":{lease},"error":"it is\naway"}}]"#
        ));
        let expected = format!(
            "lease 7/1/2 at akash1p\n\n{expected}\nlease 7/1/2 at akash1p\n\nunknown: it is\\u000aaway\n"
        );
        assert_eq!(list, expected);
        assert_eq!(overview(r#"{"services":null}"#), "no services yet\n");
    }

    #[test]
    fn requires_all_replicas_of_the_latest_manifest_for_available() {
        let state = |text: &str| {
            let service = ServiceOverview::from_status("web", &serde_json::from_str(text).unwrap());
            (service.state(), service.is_available())
        };
        assert_eq!(state(r#"{"available":0,"total":0}"#), ("not available", false));
        assert_eq!(state(r#"{"available":1,"total":2}"#), ("partly available", false));
        assert_eq!(
            state(r#"{"available":2,"total":2,"updated_replicas":1}"#),
            ("updating", false)
        );
        assert_eq!(state(r#"{"available":2,"total":2}"#), ("available", true));
        assert_eq!(state(r#"{"available":-1,"total":"x"}"#), ("not available", false));
    }

    #[test]
    fn prints_reason_and_exit_code_of_a_terminated_container() {
        let status = r#"{"services":{"web":{"available":0,"total":1,"uris":null,
            "last_termination":{"reason":"OOMKilled","exit_code":137,"restarts":3}}}}"#;
        let line = "last container terminated by OOMKilled, exit code 137, 3 restarts";
        assert_eq!(
            overview(status),
            format!("SERVICE  READY  STATE\nweb      0/1    not available\n\nweb: {line}\n")
        );
        let service = &services(&serde_json::from_str(status).unwrap())[0];
        assert_eq!(service.summary(), format!("not available: {line}"));
    }

    #[test]
    fn prints_the_complete_reason_of_an_unreachable_hostname() {
        let wait = format!("{}end", "a TXT record ".repeat(20));
        let text = overview(&format!(
            r#"{{"services":{{"web":{{"available":1,"total":1,"uris":["a.b","c.d","e.f"],"hostnames":{{
            "a.b":{{"waits_for":"{wait}"}},
            "c.d":{{"reachable":{{"state":"no","why":"503","at":"2030-01-01T00:00:00Z"}}}},
            "e.f":{{"reachable":{{"state":"yes","why":"200","at":"2030-01-01T00:00:00Z"}}}}}}}}}}}}"#
        ));
        assert!(
            text.contains(&format!("a.b: {wait}\nc.d: no response: 503\n")),
            "{text}"
        );
        assert!(!text.contains("e.f: "), "{text}");
        let long = overview(&format!(
            r#"{{"services":{{"web":{{"hostnames":{{"a.b":{{"waits_for":"{}"}}}}}}}}}}"#,
            "x".repeat(9_999)
        ));
        assert!(long.len() < 1_000, "{}", long.len());
    }

    #[test]
    fn limits_cells_and_tables() {
        let long = "x".repeat(CELL_CHARS_MAX);
        let service =
            |uris: &str| format!(r#"{{"services":{{"web":{{"available":1,"total":1,"uris":[{uris}]}}}}}}"#);
        assert!(overview(&service(&format!("\"{long}\""))).contains(&format!("http://{long}  web\n")));
        let cut = overview(&service(&format!("\"{long}y\"")));
        assert!(cut.contains(&format!("http://{long}…  web\n")), "{cut}");
        let uris = |count: usize| vec!["\"a\""; count].join(",");
        let most = overview(&service(&uris(ROWS_MAX)));
        assert!(!most.contains("more") && most.matches("http://a").count() == ROWS_MAX);
        let more = overview(&service(&uris(ROWS_MAX + 2)));
        assert!(more.contains("and 2 more (see `-o json`)\n"), "{more}");
        assert_eq!(more.matches("http://a").count(), ROWS_MAX);
    }
}
