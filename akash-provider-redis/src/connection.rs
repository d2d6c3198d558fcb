//! Connections to the current master.

use crate::location::Location;
use crate::position::RedisKeys;
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

/// Maximum time to connect: name lookup, sentinels, connection and handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time for the response of a sentinel. The rest of [`CONNECT_LIMIT`] remains for the connection to
/// the master.
const SENTINEL_LIMIT: Duration = Duration::from_secs(2);

/// Location of the bus, and the names of its Redis keys.
#[derive(Debug)]
pub(crate) struct RedisEndpoint {
    location: Location,
    keys: RedisKeys,
}

/// Identity of a server process and of its replication history. A change means that earlier events and
/// records may be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerId {
    run: String,
    replication: String,
}

impl RedisEndpoint {
    pub(crate) fn new(location: Location) -> Self {
        if location.is_tls() {
            // The `redis` crate panics without a default TLS provider. An error means that one is installed.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        Self {
            keys: RedisKeys::new(location.prefix()),
            location,
        }
    }

    pub(crate) const fn keys(&self) -> &RedisKeys {
        &self.keys
    }

    pub(crate) async fn connect(
        &self,
        operation: &'static str,
        response_timeout: Duration,
    ) -> Result<MultiplexedConnection, Error> {
        let unreachable = |why: String| {
            let place = &self.location;
            Error::new(
                ErrorKind::Unavailable,
                operation,
                format!("the bus at {place}: {why}"),
            )
        };
        match timeout(CONNECT_LIMIT, self.open(response_timeout)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(unreachable(error.to_string())),
            Err(_) => Err(unreachable(format!("no connection within {CONNECT_LIMIT:?}"))),
        }
    }

    async fn open(&self, response_timeout: Duration) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            .set_response_timeout(Some(response_timeout));
        let location = &self.location;
        let Some(master) = location.master() else {
            return self
                .direct()?
                .get_multiplexed_async_connection_with_config(&config)
                .await;
        };
        self.elected_master(master)
            .await?
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// Queries every sentinel, because all instances of a provider must use one master. If all responses
    /// contain the same master, returns this master. If the responses differ, more than half of all sentinels
    /// must report the returned master.
    async fn elected_master(&self, master: &str) -> RedisResult<Client> {
        let addresses: Vec<_> = self.location.addresses().collect();
        let count = addresses.len();
        let queries = addresses.into_iter().map(|address| async move {
            let mut sentinel = self.sentinel(address, master)?;
            let named = timeout(SENTINEL_LIMIT, sentinel.async_get_client()).await;
            named.unwrap_or_else(|_| {
                Err(refused(
                    "a sentinel does not respond in time",
                    format!("{SENTINEL_LIMIT:?}"),
                ))
            })
        });
        let mut votes: BTreeMap<String, (usize, Client)> = BTreeMap::new();
        let mut failed = None;
        for named in join_all(queries).await {
            match named {
                Ok(client) => {
                    let place = client.get_connection_info().addr().to_string();
                    votes.entry(place).or_insert((0, client)).0 += 1;
                }
                Err(error) => failed = Some(error),
            }
        }
        // The master named by more than half of all sentinels, including those that do not respond.
        let is_single = votes.len() == 1;
        let named: Vec<&str> = votes.keys().map(String::as_str).collect();
        let disagree = refused("the sentinels name different masters", named.join(", "));
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
        let missing =
            || RedisError::from((redis::ErrorKind::InvalidClientConfig, "no server in the location"));
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

/// Shared connection for commands, opened on demand and after failures.
pub(crate) struct SharedConnection {
    link: Arc<RedisEndpoint>,
    /// Maximum time for a response.
    response_timeout: Duration,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl std::fmt::Debug for SharedConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedConnection")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl SharedConnection {
    pub(crate) fn new(link: Arc<RedisEndpoint>, response_timeout: Duration) -> Self {
        Self {
            link,
            response_timeout,
            connection: Mutex::new(None),
        }
    }

    pub(crate) fn link(&self) -> &RedisEndpoint {
        &self.link
    }

    pub(crate) async fn connected(&self, operation: &'static str) -> Result<MultiplexedConnection, Error> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current {
            return Ok(connection.clone());
        }
        let connection = self.link.connect(operation, self.response_timeout).await?;
        *current = Some(connection.clone());
        Ok(connection)
    }

    /// Takes the connection for one call that can be cancelled. After the response, the caller [puts the
    /// connection back](Self::put_back). After a cancelled call, the next call opens a new connection.
    pub(crate) async fn taken(&self, operation: &'static str) -> Result<MultiplexedConnection, Error> {
        let taken = self.connection.lock().await.take();
        match taken {
            Some(connection) => Ok(connection),
            None => self.link.connect(operation, self.response_timeout).await,
        }
    }

    /// Stores a connection after a completed call, so that the next call can use the connection.
    pub(crate) async fn put_back(&self, connection: MultiplexedConnection) {
        *self.connection.lock().await = Some(connection);
    }

    /// Converts the result of a command. Drops the connection after an error that the server did not send.
    pub(crate) async fn check<T>(
        &self,
        operation: &'static str,
        response: Result<T, RedisError>,
    ) -> Result<T, Error> {
        let error = match response {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let unavailable_error = unavailable(operation, &error);
        if is_response(&error) {
            return Err(unavailable_error.permanent());
        }
        self.disconnect().await;
        Err(unavailable_error)
    }

    pub(crate) async fn disconnect(&self) {
        *self.connection.lock().await = None;
    }
}

impl ServerId {
    /// Returns the identity of the server, or `None` if the Redis user may not read it.
    pub(crate) async fn read(connection: &mut MultiplexedConnection) -> RedisResult<Option<Self>> {
        let mut query = redis::pipe();
        query.cmd("INFO").arg("server").cmd("INFO").arg("replication");
        let (server, replication): (String, String) = match query.query_async(connection).await {
            Ok(infos) => infos,
            Err(error) if is_response(&error) => return Ok(None),
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

/// Returns true if the server sent the error as a response, so that the connection is still usable.
pub(crate) fn is_response(error: &RedisError) -> bool {
    let is_of_another = matches!(
        error.code(),
        Some("READONLY" | "LOADING" | "MASTERDOWN" | "NOAUTH")
    );
    error.code().is_some() && !is_of_another && !error.is_io_error()
}

fn refused(what: &'static str, detail: String) -> RedisError {
    RedisError::from((redis::ErrorKind::Io, what, detail))
}

/// Returns the error for a server that rejects a command or does not respond.
pub(crate) fn unavailable(operation: &'static str, error: &RedisError) -> Error {
    Error::new(ErrorKind::Unavailable, operation, format!("the bus: {error}"))
}
