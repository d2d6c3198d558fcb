//! Location of the server and credentials.

use redis::{ClientTlsConfig, ConnectionAddr, RedisConnectionInfo, TlsCertificates};
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::str::FromStr;

/// Default prefix of the keys. The braces place all keys of a provider in one hash slot of a Redis cluster.
const PREFIX: &str = "{akash-provider}";
const SENTINELS_MAX: usize = 16;
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Location of the bus.
///
/// | form | meaning |
/// |---|---|
/// | `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` | one server; port 6379, database 0 |
/// | `redis-sentinel://[USER[:PASSWORD]@]HOST[:PORT],…/MASTER[/DATABASE]` | the current master; sentinel port 26379 |
///
/// The schemes `rediss` and `rediss-sentinel` use TLS. User and password are for the server;
/// [`Location::with_sentinel_user`] sets user and password for the sentinels. `Display` and `Debug` hide
/// passwords.
#[derive(Debug, Clone)]
pub struct Location {
    /// Host and port of the server, or of each sentinel.
    hosts: Vec<(String, u16)>,
    /// Name of the master at the sentinels; `None` without sentinels.
    master: Option<String>,
    database: i64,
    user: User,
    sentinel_user: User,
    is_tls: bool,
    /// CA certificates (PEM) that replace the CA certificates of the operating system.
    authorities: Option<Vec<u8>>,
    /// PEM of the client certificate and of its key.
    identity: Option<(Vec<u8>, SecretString)>,
    prefix: String,
}

#[derive(Debug, Clone, Default)]
struct User {
    name: Option<String>,
    password: Option<SecretString>,
}

/// Invalid location of a bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; expected redis://HOST[:PORT][/DATABASE] or redis-sentinel://HOST[:PORT],…/MASTER[/DATABASE], with TLS rediss:// or rediss-sentinel://"
)]
pub struct InvalidLocation(String);

impl Location {
    /// Replaces the user and the password for the server.
    #[must_use]
    pub fn with_user(mut self, name: Option<String>, password: Option<SecretString>) -> Self {
        self.user = User { name, password };
        self
    }

    /// Replaces the password for the server.
    #[must_use]
    pub fn with_password(mut self, password: SecretString) -> Self {
        self.user.password = Some(password);
        self
    }

    /// Sets user and password for the sentinels.
    #[must_use]
    pub fn with_sentinel_user(mut self, name: Option<String>, password: Option<SecretString>) -> Self {
        self.sentinel_user = User { name, password };
        self
    }

    /// Trusts only these CA certificates (PEM), not those of the operating system.
    #[must_use]
    pub fn with_authorities(mut self, pem: Vec<u8>) -> Self {
        self.authorities = Some(pem);
        self
    }

    /// Sets the client certificate and its key (PEM).
    #[must_use]
    pub fn with_identity(mut self, certificate: Vec<u8>, key: SecretString) -> Self {
        self.identity = Some((certificate, key));
        self
    }

    /// Sets the prefix of all keys, by default `{akash-provider}`. Two providers on one server need different
    /// prefixes.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    pub(crate) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) const fn database(&self) -> i64 {
        self.database
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = ConnectionAddr> {
        self.hosts.iter().map(|(host, port)| match self.is_tls {
            true => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
            false => ConnectionAddr::Tcp(host.clone(), *port),
        })
    }

    pub(crate) fn user(&self) -> (Option<&str>, Option<&str>) {
        self.user.exposed()
    }

    pub(crate) fn sentinel_user(&self) -> (Option<&str>, Option<&str>) {
        self.sentinel_user.exposed()
    }

    pub(crate) fn settings(&self) -> RedisConnectionInfo {
        let settings = RedisConnectionInfo::default().set_db(self.database);
        let (name, password) = self.user();
        let settings = match name {
            Some(name) => settings.set_username(name),
            None => settings,
        };
        match password {
            Some(password) => settings.set_password(password),
            None => settings,
        }
    }

    pub(crate) fn certificates(&self) -> TlsCertificates {
        TlsCertificates {
            client_tls: self.identity.as_ref().map(|(certificate, key)| ClientTlsConfig {
                client_cert: certificate.clone(),
                client_key: key.expose_secret().as_bytes().to_vec(),
            }),
            root_cert: self.authorities.clone(),
        }
    }
}

impl User {
    fn exposed(&self) -> (Option<&str>, Option<&str>) {
        let password = self.password.as_ref().map(ExposeSecret::expose_secret);
        (self.name.as_deref(), password)
    }
}

/// Prints the location without user and password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.is_tls { "s" } else { "" };
        let sentinel = if self.master.is_some() { "-sentinel" } else { "" };
        write!(f, "redis{tls}{sentinel}://")?;
        for (number, (host, port)) in self.hosts.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match host.contains(':') {
                true => write!(f, "{comma}[{host}]:{port}")?,
                false => write!(f, "{comma}{host}:{port}")?,
            }
        }
        if let Some(master) = &self.master {
            write!(f, "/{master}")?;
        }
        write!(f, "/{}", self.database)
    }
}

impl FromStr for Location {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, InvalidLocation> {
        let bad = |what: &str| InvalidLocation(what.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("no scheme"))?;
        let (is_tls, is_sentinel) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis-sentinel" => (false, true),
            "rediss-sentinel" => (true, true),
            other => return Err(InvalidLocation(format!("unknown scheme `{other}`"))),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // The password may contain `@`, so the last one ends it.
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (parse_user(user)?, hosts),
            None => (User::default(), authority),
        };
        let port = if is_sentinel { SENTINEL_PORT } else { PORT };
        let hosts: Vec<_> = hosts
            .split(',')
            .map(|host| parse_host(host, port))
            .collect::<Result<_, _>>()?;
        if hosts.len() > SENTINELS_MAX {
            return Err(InvalidLocation(format!("more than {SENTINELS_MAX} sentinels")));
        }
        if hosts.len() > 1 && !is_sentinel {
            return Err(bad("several servers require the scheme redis-sentinel"));
        }
        let (master, database) = match is_sentinel {
            true => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                let master = decoded(master)?;
                if master.is_empty() {
                    return Err(bad("missing name of the master in the sentinels"));
                }
                (Some(master), database)
            }
            false => (None, path),
        };
        let database = match database {
            "" => 0,
            number => number
                .parse::<u16>()
                .map_err(|_| InvalidLocation(format!("invalid database `{number}`")))?,
        };
        Ok(Self {
            hosts,
            master,
            database: i64::from(database),
            user,
            sentinel_user: User::default(),
            is_tls,
            authorities: None,
            identity: None,
            prefix: PREFIX.to_owned(),
        })
    }
}

fn parse_user(text: &str) -> Result<User, InvalidLocation> {
    let (name, password) = match text.split_once(':') {
        Some((name, password)) => (name, Some(decoded(password)?)),
        None => (text, None),
    };
    Ok(User {
        name: Some(decoded(name)?).filter(|name| !name.is_empty()),
        password: password.map(SecretString::from),
    })
}

fn parse_host(text: &str, port: u16) -> Result<(String, u16), InvalidLocation> {
    let no_port = || {
        InvalidLocation(format!(
            "invalid port in `{text}`; expected a number from 1 to 65535"
        ))
    };
    let (host, found) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest
                .split_once(']')
                .ok_or_else(|| InvalidLocation(format!("`{text}` has no closing bracket")))?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(no_port()),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(InvalidLocation("missing host name".to_owned()));
    }
    let port = match found {
        Some(found) => found.parse().ok().filter(|port| *port > 0).ok_or_else(no_port)?,
        None => port,
    };
    Ok((host.to_owned(), port))
}

/// Decodes percent-encoded characters.
fn decoded(text: &str) -> Result<String, InvalidLocation> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let byte = rest
            .get(..2)
            .and_then(|digits| data_encoding::HEXLOWER_PERMISSIVE.decode(digits).ok());
        // The text may contain a password and is not shown.
        let byte = byte.ok_or_else(|| InvalidLocation("`%` without two hexadecimal digits".to_owned()))?;
        bytes.extend(byte);
        rest = rest.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| InvalidLocation("percent-encoded text is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_parsed() {
        let one: Location = "redis://me:p%40ss@10.0.0.1/3".parse().unwrap();
        assert_eq!(one.hosts, [("10.0.0.1".to_owned(), 6379)]);
        assert_eq!(one.user(), (Some("me"), Some("p@ss")));
        assert_eq!(
            (one.database, one.is_tls, one.master.as_deref()),
            (3, false, None)
        );
        let watched: Location = "rediss-sentinel://:s3@a,b:1,[::1]:2/main/4".parse().unwrap();
        let host = |name: &str, port| (name.to_owned(), port);
        assert_eq!(watched.hosts, [host("a", 26379), host("b", 1), host("::1", 2)]);
        assert_eq!(watched.user(), (None, Some("s3")));
        assert_eq!(watched.master.as_deref(), Some("main"));
        assert_eq!((watched.database, watched.is_tls), (4, true));
        assert_eq!(
            watched.to_string(),
            "rediss-sentinel://a:26379,b:1,[::1]:2/main/4"
        );
    }

    #[test]
    fn an_invalid_location_has_a_reason() {
        for (text, expected) in [
            ("10.0.0.1:6379", "no scheme"),
            ("http://a", "unknown scheme `http`"),
            ("redis://", "missing host name"),
            ("redis://a:0", "invalid port in `a:0`"),
            ("redis://a:70000", "invalid port in `a:70000`"),
            ("redis://[::1", "no closing bracket"),
            ("redis://a,b", "several servers"),
            ("redis://a/x", "invalid database `x`"),
            ("redis-sentinel://a", "missing name of the master"),
            ("redis://u:%zz@a", "`%` without two hexadecimal digits"),
        ] {
            let message = text.parse::<Location>().unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
        let many = format!("redis-sentinel://{}/m", vec!["a"; SENTINELS_MAX + 1].join(","));
        assert!(
            many.parse::<Location>()
                .unwrap_err()
                .to_string()
                .contains("more than 16")
        );
    }

    #[test]
    fn passwords_are_hidden() {
        let one: Location = "redis://me:hunter2@10.0.0.1".parse().unwrap();
        let printed = format!("{one} {one:?}");
        assert!(!printed.contains("hunter2"), "{printed}");
        let bad = "redis://me:hunter2%z@10.0.0.1:0".parse::<Location>().unwrap_err();
        assert!(!bad.to_string().contains("hunter2"), "{bad}");
    }
}
