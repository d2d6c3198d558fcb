//! One connection to the server that is the master now.

use crate::location::Location;
use crate::position::Keys;
use akash_provider_core::{Error, ErrorKind};
use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, RedisError, RedisResult, TlsMode,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Longest time for a connection: a name, the sentinels, the server, its greeting.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Longest time for a sentinel and the master that it names, so that one that hangs leaves time for the connection.
const SENTINEL_LIMIT: Duration = Duration::from_secs(2);

/// Where connections lead.
#[derive(Debug)]
pub(crate) struct Link {
    location: Location,
    keys: Keys,
}

/// Which run of which server a connection leads to. Another one may lack what this one had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    run: String,
    replication: String,
}

impl Link {
    pub(crate) fn new(location: Location) -> Self {
        if location.is_tls() {
            // `redis` takes the cryptography of the process, and panics where nobody chose one. An error says that
            // somebody did, and theirs is used.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        Self {
            keys: Keys::new(location.prefix()),
            location,
        }
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// A new connection, whose answers may take so long.
    pub(crate) async fn connect(
        &self,
        operation: &'static str,
        answer: Duration,
    ) -> Result<MultiplexedConnection, Error> {
        let unreachable = |why: String| {
            let place = &self.location;
            Error::new(
                ErrorKind::Unavailable,
                operation,
                format!("the bus at {place}: {why}"),
            )
        };
        match timeout(CONNECT_LIMIT, self.open(answer)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(unreachable(error.to_string())),
            Err(_) => Err(unreachable(format!("no connection within {CONNECT_LIMIT:?}"))),
        }
    }

    async fn open(&self, answer: Duration) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            .set_response_timeout(Some(answer));
        let location = &self.location;
        let Some(master) = location.master() else {
            return self
                .direct()?
                .get_multiplexed_async_connection_with_config(&config)
                .await;
        };
        self.agreed(master)
            .await?
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// The master that the sentinels name. Each is asked, and not the first alone: instances that hear other sentinels
    /// first would follow other masters.
    async fn agreed(&self, master: &str) -> RedisResult<Client> {
        let addresses: Vec<_> = self.location.addresses().collect();
        let count = addresses.len();
        let asked = addresses.into_iter().map(|address| async move {
            let mut sentinel = self.sentinel(address, master)?;
            let named = timeout(SENTINEL_LIMIT, sentinel.async_get_client()).await;
            named.unwrap_or_else(|_| {
                Err(refused(
                    "a sentinel does not answer",
                    format!("{SENTINEL_LIMIT:?}"),
                ))
            })
        });
        let mut votes: BTreeMap<String, (usize, Client)> = BTreeMap::new();
        let mut failed = None;
        for named in join_all(asked).await {
            match named {
                Ok(client) => {
                    let place = client.get_connection_info().addr().to_string();
                    votes.entry(place).or_insert((0, client)).0 += 1;
                }
                Err(error) => failed = Some(error),
            }
        }
        // Of several masters the one that more than half of all sentinels name, those included that do not answer.
        let is_single = votes.len() == 1;
        let named: Vec<&str> = votes.keys().map(String::as_str).collect();
        let disagree = refused("the sentinels name several masters", named.join(", "));
        let most = votes.into_values().max_by_key(|(votes, _)| *votes);
        match most {
            Some((votes, client)) if is_single || votes * 2 > count => Ok(client),
            Some(_) => Err(disagree),
            None => Err(failed.unwrap_or(disagree)),
        }
    }

    fn sentinel(&self, address: ConnectionAddr, master: &str) -> RedisResult<SentinelClient> {
        let location = &self.location;
        let mut builder = SentinelClientBuilder::new([address], master, SentinelServerType::Master)?
            .set_client_to_redis_db(location.database());
        if location.is_tls() {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_redis_certificates(location.certificates())
                .set_client_to_sentinel_certificates(location.certificates());
        }
        let (name, password) = location.user();
        if let Some(name) = name {
            builder = builder.set_client_to_redis_username(name);
        }
        if let Some(password) = password {
            builder = builder.set_client_to_redis_password(password);
        }
        let (name, password) = location.sentinel_user();
        if let Some(name) = name {
            builder = builder.set_client_to_sentinel_username(name);
        }
        if let Some(password) = password {
            builder = builder.set_client_to_sentinel_password(password);
        }
        builder.build()
    }

    fn direct(&self) -> RedisResult<Client> {
        let missing = || RedisError::from((redis::ErrorKind::InvalidClientConfig, "no server is named"));
        let address = self.location.addresses().next().ok_or_else(missing)?;
        let info = address
            .into_connection_info()?
            .set_redis_settings(self.location.settings());
        match self.location.is_tls() {
            true => Client::build_with_tls(info, self.location.certificates()),
            false => Client::open(info),
        }
    }
}

/// A connection for everything that is asked, made when it is needed and again when it broke.
pub(crate) struct Line {
    link: Arc<Link>,
    /// How long an answer may take.
    answer: Duration,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Line {
    pub(crate) fn new(link: Arc<Link>, answer: Duration) -> Self {
        Self {
            link,
            answer,
            connection: Mutex::new(None),
        }
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) async fn connected(&self, operation: &'static str) -> Result<MultiplexedConnection, Error> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        let connection = self.link.connect(operation, self.answer).await?;
        *held = Some(connection.clone());
        Ok(connection)
    }

    /// Takes the connection for one call that the caller may cancel. A connection that is not [put back](Self::put_back)
    /// after the response is not used again.
    pub(crate) async fn taken(&self, operation: &'static str) -> Result<MultiplexedConnection, Error> {
        let taken = self.connection.lock().await.take();
        match taken {
            Some(connection) => Ok(connection),
            None => self.link.connect(operation, self.answer).await,
        }
    }

    /// Returns a connection on which a call got its response.
    pub(crate) async fn put_back(&self, connection: MultiplexedConnection) {
        *self.connection.lock().await = Some(connection);
    }

    /// An answer, or why there is none; after one that is no answer the connection is not used again.
    pub(crate) async fn judged<T>(
        &self,
        operation: &'static str,
        said: Result<T, RedisError>,
    ) -> Result<T, Error> {
        let error = match said {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let told = unavailable(operation, &error);
        if is_answer(&error) {
            return Err(told.permanent());
        }
        self.forget().await;
        Err(told)
    }

    /// The connection is not used again.
    pub(crate) async fn forget(&self) {
        *self.connection.lock().await = None;
    }
}

impl Server {
    /// `None` where the server does not say, as some accounts may not ask.
    pub(crate) async fn of(connection: &mut MultiplexedConnection) -> RedisResult<Option<Self>> {
        let mut asked = redis::pipe();
        asked.cmd("INFO").arg("server").cmd("INFO").arg("replication");
        let (server, replication): (String, String) = match asked.query_async(connection).await {
            Ok(said) => said,
            Err(error) if is_answer(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let field = |text: &str, name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.trim().to_owned())
        };
        let found = field(&server, "run_id").zip(field(&replication, "master_replid"));
        Ok(found.map(|(run, replication)| Self { run, replication }))
    }
}

/// True when the server itself refused, so that the connection is sound.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    let is_of_another = matches!(
        error.code(),
        Some("READONLY" | "LOADING" | "MASTERDOWN" | "NOAUTH")
    );
    error.code().is_some() && !is_of_another && !error.is_io_error()
}

fn refused(what: &'static str, detail: String) -> RedisError {
    RedisError::from((redis::ErrorKind::Io, what, detail))
}

/// The server refused, or did not answer.
pub(crate) fn unavailable(operation: &'static str, error: &RedisError) -> Error {
    Error::new(ErrorKind::Unavailable, operation, format!("the bus: {error}"))
}
