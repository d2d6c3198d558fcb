//! Where the server is, and who we are there.

use redis::{ClientTlsConfig, ConnectionAddr, RedisConnectionInfo, TlsCertificates};
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::str::FromStr;

/// What keys begin with where nothing else is said. The braces keep them together in whatever shards by key.
const PREFIX: &str = "{akash-provider}";
/// Most sentinels of one place.
const SENTINELS_MAX: usize = 16;
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where the bus is.
///
/// | form | what it is |
/// |---|---|
/// | `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` | one server; port 6379, database 0 |
/// | `redis-sentinel://[USER[:PASSWORD]@]HOST[:PORT],…/MASTER[/DATABASE]` | the server that sentinels name; port 26379 |
///
/// With `rediss` for `redis` everything goes through TLS. User and password are for the server; sentinels are asked
/// with [`Location::with_sentinel_user`]. A password is never shown again.
#[derive(Debug, Clone)]
pub struct Location {
    /// One server, or the sentinels of one.
    hosts: Vec<(String, u16)>,
    /// The name by which sentinels know the server.
    master: Option<String>,
    database: i64,
    user: User,
    sentinel_user: User,
    is_tls: bool,
    /// PEM of the authorities that are trusted instead of those of the machine.
    authorities: Option<Vec<u8>>,
    /// PEM of our certificate and of its key.
    identity: Option<(Vec<u8>, SecretString)>,
    prefix: String,
}

#[derive(Debug, Clone, Default)]
struct User {
    name: Option<String>,
    password: Option<SecretString>,
}

/// A text that names no place of a bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; a bus is at redis://HOST[:PORT][/DATABASE] or redis-sentinel://HOST[:PORT],…/MASTER[/DATABASE], with TLS at rediss:// or rediss-sentinel://"
)]
pub struct BadLocation(String);

impl Location {
    /// User and password at the server, instead of those of the text.
    #[must_use]
    pub fn with_user(mut self, name: Option<String>, password: Option<SecretString>) -> Self {
        self.user = User { name, password };
        self
    }

    /// The password at the server, instead of that of the text.
    #[must_use]
    pub fn with_password(mut self, password: SecretString) -> Self {
        self.user.password = Some(password);
        self
    }

    /// User and password at the sentinels.
    #[must_use]
    pub fn with_sentinel_user(mut self, name: Option<String>, password: Option<SecretString>) -> Self {
        self.sentinel_user = User { name, password };
        self
    }

    /// Trusts these authorities (PEM) and no other.
    #[must_use]
    pub fn with_authorities(mut self, pem: Vec<u8>) -> Self {
        self.authorities = Some(pem);
        self
    }

    /// Shows this certificate to the server; both are PEM.
    #[must_use]
    pub fn with_identity(mut self, certificate: Vec<u8>, key: SecretString) -> Self {
        self.identity = Some((certificate, key));
        self
    }

    /// Keys begin with this instead of `{akash-provider}`; two providers on one server need two.
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

/// Without user and password.
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
    type Err = BadLocation;

    fn from_str(text: &str) -> Result<Self, BadLocation> {
        let bad = |what: &str| BadLocation(what.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("no scheme"))?;
        let (is_tls, is_sentinel) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis-sentinel" => (false, true),
            "rediss-sentinel" => (true, true),
            other => return Err(BadLocation(format!("the scheme `{other}` is not one of a bus"))),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A password may have any sign in it, so the last `@` is the one that ends it.
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
            return Err(BadLocation(format!("more than {SENTINELS_MAX} sentinels")));
        }
        if hosts.len() > 1 && !is_sentinel {
            return Err(bad("several servers, of which no sentinel says which one to use"));
        }
        let (master, database) = match is_sentinel {
            true => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                let master = decoded(master)?;
                if master.is_empty() {
                    return Err(bad("no name by which the sentinels know the server"));
                }
                (Some(master), database)
            }
            false => (None, path),
        };
        let database = match database {
            "" => 0,
            number => number
                .parse::<u16>()
                .map_err(|_| BadLocation(format!("the database `{number}` is no number")))?,
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

fn parse_user(text: &str) -> Result<User, BadLocation> {
    let (name, password) = match text.split_once(':') {
        Some((name, password)) => (name, Some(decoded(password)?)),
        None => (text, None),
    };
    Ok(User {
        name: Some(decoded(name)?).filter(|name| !name.is_empty()),
        password: password.map(SecretString::from),
    })
}

fn parse_host(text: &str, port: u16) -> Result<(String, u16), BadLocation> {
    let no_port = || BadLocation(format!("the port of `{text}` is no number from 1 to 65535"));
    let (host, found) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest
                .split_once(']')
                .ok_or_else(|| BadLocation(format!("`{text}` has no closing bracket")))?;
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
        return Err(BadLocation("a host without a name".to_owned()));
    }
    let port = match found {
        Some(found) => found.parse().ok().filter(|port| *port > 0).ok_or_else(no_port)?,
        None => port,
    };
    Ok((host.to_owned(), port))
}

/// What `%XX` stands for.
fn decoded(text: &str) -> Result<String, BadLocation> {
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
        // The text may hold a password, so it is not shown.
        let byte = byte.ok_or_else(|| BadLocation("a `%` without two digits after it".to_owned()))?;
        bytes.extend(byte);
        rest = rest.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| BadLocation("what is written with `%` is no text".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
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
    fn what_names_no_place_is_refused_by_name() {
        for (text, expected) in [
            ("10.0.0.1:6379", "no scheme"),
            ("http://a", "the scheme `http`"),
            ("redis://", "a host without a name"),
            ("redis://a:0", "the port of `a:0`"),
            ("redis://a:70000", "the port of `a:70000`"),
            ("redis://[::1", "no closing bracket"),
            ("redis://a,b", "several servers"),
            ("redis://a/x", "the database `x`"),
            ("redis-sentinel://a", "no name by which"),
            ("redis://u:%zz@a", "a `%` without two digits"),
        ] {
            let said = text.parse::<Location>().unwrap_err().to_string();
            assert!(said.contains(expected), "{text}: {said}");
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
    fn a_password_is_never_shown() {
        let one: Location = "redis://me:hunter2@10.0.0.1".parse().unwrap();
        let shown = format!("{one} {one:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        let bad = "redis://me:hunter2%z@10.0.0.1:0".parse::<Location>().unwrap_err();
        assert!(!bad.to_string().contains("hunter2"), "{bad}");
    }
}
