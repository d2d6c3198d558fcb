//! Servers and sentinels of a test, on unused ports of loopback.

use akash_provider_redis::Location;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::Path;
use tempfile::TempDir;
use testbed::{Redis, free_port};

pub(crate) struct Server {
    pub(crate) redis: Redis,
    pub(crate) port: u16,
    folder: TempDir,
}

impl Server {
    /// Starts a server. Prints the reason and returns `None` if no server is installed.
    pub(crate) fn start() -> Option<Self> {
        Self::on(free_port().unwrap(), &[])
    }

    pub(crate) fn on(port: u16, more: &[&str]) -> Option<Self> {
        Self::run("redis-server", port, |_| {
            let fixed = [
                "--save",
                "",
                "--appendonly",
                "no",
                "--repl-diskless-sync-delay",
                "0",
            ];
            let own = ["--port", &port.to_string()].map(str::to_owned);
            own.into_iter()
                .chain(fixed.iter().chain(more).map(|word| (*word).to_owned()))
                .collect()
        })
    }

    /// Starts a server with TLS and one user, without access for others.
    pub(crate) fn secured() -> Option<Self> {
        let port = free_port().unwrap();
        Self::run("redis-server", port, |folder| {
            certify(folder);
            let file = |name: &str| folder.join(name).display().to_string();
            let port = port.to_string();
            let words = [
                "--port",
                "0",
                "--tls-port",
                &port,
                "--tls-auth-clients",
                "no",
                "--tls-cert-file",
                &file("server.pem"),
                "--tls-key-file",
                &file("server.key"),
                "--tls-ca-cert-file",
                &file("authority.pem"),
                "--user",
                "default",
                "off",
                "--user",
                "provider",
                "on",
                ">right",
                "~*",
                "&*",
                "+@all",
            ];
            words.map(str::to_owned).to_vec()
        })
    }

    /// Starts a sentinel with a quorum of one. The sentinel monitors the master at the port `master` under
    /// the name `main`.
    pub(crate) fn sentinel(master: u16) -> Option<Self> {
        let port = free_port().unwrap();
        Self::run("redis-sentinel", port, |folder| {
            let file = folder.join("sentinel.conf");
            let text = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {master} 1\n\
                 sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
            );
            std::fs::write(&file, text).unwrap();
            vec![file.display().to_string()]
        })
    }

    fn run(name: &str, port: u16, words: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut words = words(folder.path());
        if name == "redis-server" {
            let dir = folder.path().display().to_string();
            words.extend([
                "--bind".to_owned(),
                "127.0.0.1".to_owned(),
                "--dir".to_owned(),
                dir,
            ]);
        }
        let redis = Redis::start(name, port, folder.path(), &words).unwrap()?;
        Some(Self { redis, port, folder })
    }

    pub(crate) fn location(&self) -> Location {
        format!("redis://127.0.0.1:{}", self.port).parse().unwrap()
    }

    pub(crate) fn secured_location(&self, password: &str) -> Location {
        let authority = std::fs::read(self.folder.path().join("authority.pem")).unwrap();
        self.untrusting_location()
            .with_user(Some("provider".to_owned()), Some(password.to_owned().into()))
            .with_authorities(authority)
    }

    pub(crate) fn untrusting_location(&self) -> Location {
        format!("rediss://localhost:{}", self.port).parse().unwrap()
    }

    pub(crate) async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query_async(&mut connection).await.unwrap()
    }
}

fn certify(folder: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&authority_key).unwrap();
    std::fs::write(folder.join("authority.pem"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&key, &issuer).unwrap();
    std::fs::write(folder.join("server.pem"), own.pem()).unwrap();
    std::fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
}
