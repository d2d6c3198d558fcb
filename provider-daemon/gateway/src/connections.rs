//! Table of open connections. If all places of a port are taken, the table decides which connection is closed for a new
//! connection. Each port has a separate number of places. The limits of an IP network and of an account count the
//! connections of both ports together.
//!
//! | class | client | closed in favor of |
//! |---|---|---|
//! | anonymous | not authenticated | a new client |
//! | account | authenticated, no live lease | a new authenticated client, or a new client if none is anonymous |
//! | leased | authenticated, live lease | a leased client of an account with at least two connections fewer |
//!
//! In the anonymous class, connections of the IP network with the most unleased connections are closed first.
//! In the leased class, connections of the account with the most connections are closed first. Among these
//! connections, and in the account class, the least recently used connection is closed first.
//!
//! Authenticated connections never take the last places, so a new client can always connect and authenticate. Each
//! authenticated request counts as a use of its connection.

use super::budget::network;
use super::statistics::{GatewayCounters, Port};
use akash_provider_core::types::Address;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

/// Maximum number of places that each port reserves for connections without authentication. A port with fewer
/// than 256 places reserves a quarter of its places.
const RESERVED_MAX: usize = 64;
/// Maximum number of connections of one account, if the account has a live lease. Further connections count
/// as anonymous.
const LEASED_OF_ACCOUNT: usize = 512;
/// Maximum number of connections of one account, if the account has no live lease. Further connections count
/// as anonymous.
const UNLEASED_OF_ACCOUNT: usize = 32;
/// Address that represents all clients on this machine in the counts per IP network.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Classes of connections, from low to high. Lower classes are closed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionClass {
    Anonymous,
    Account,
    Leased,
}

#[derive(Debug)]
pub(crate) struct Connections {
    table: Mutex<ConnectionTable>,
    counters: GatewayCounters,
}

#[derive(Debug)]
struct ConnectionTable {
    /// Counter that increases with each new connection and each use of a connection. An entry with a higher
    /// value was used later.
    clock: u64,
    open: HashMap<u64, OpenConnection>,
    /// Number of connections without a live lease, for each IP network.
    unleased: HashMap<IpAddr, usize>,
    of_account: HashMap<Address, usize>,
    unleased_max: usize,
    ports: [Places; 2],
    counters: GatewayCounters,
}

#[derive(Debug)]
struct Places {
    authenticated: usize,
    authenticated_max: usize,
    /// Number of connections that are reserved for the local machine. Above this number, a new client can
    /// replace an anonymous local connection.
    local_reserved: usize,
}

#[derive(Debug)]
struct OpenConnection {
    port: Port,
    network: IpAddr,
    class: ConnectionClass,
    account: Option<Address>,
    used: u64,
    close: CancellationToken,
}

/// Entry in the table of connections. The entry of a stream is removed when the stream ends.
#[derive(Debug)]
pub(crate) struct Connection {
    of: Arc<Connections>,
    port: Port,
    number: u64,
    close: CancellationToken,
    _place: OwnedSemaphorePermit,
}

/// Returns the IP network of a client, for the counts per IP network.
pub(crate) fn network_of(client: IpAddr, server: Option<IpAddr>) -> IpAddr {
    let is_local = |ip: IpAddr| {
        ip == LOCAL || ip == Ipv6Addr::LOCALHOST || server.is_some_and(|server| server.to_canonical() == ip)
    };
    if is_local(client.to_canonical()) {
        LOCAL
    } else {
        network(client)
    }
}

impl Connections {
    /// Creates an empty table. `rest` and `grpc` are the maximum numbers of connections on the two ports.
    /// `unleased_max` is the maximum number of connections without a live lease, per IP network.
    pub(crate) fn new([rest, grpc]: [usize; 2], unleased_max: usize, counters: GatewayCounters) -> Arc<Self> {
        let table = ConnectionTable {
            clock: 0,
            open: HashMap::new(),
            unleased: HashMap::new(),
            of_account: HashMap::new(),
            unleased_max,
            ports: [Places::new(rest), Places::new(grpc)],
            counters: counters.clone(),
        };
        Arc::new(Self {
            table: Mutex::new(table),
            counters,
        })
    }

    /// Adds a connection. If the IP network has the maximum number of unleased connections, closes one of
    /// these connections.
    pub(crate) fn enter(
        self: &Arc<Self>,
        port: Port,
        network: IpAddr,
        place: OwnedSemaphorePermit,
    ) -> Connection {
        let mut table = self.lock();
        if table.count_of(network) >= table.unleased_max {
            table.close_least(
                |e| e.network == network && e.class < ConnectionClass::Leased,
                |e| (e.class, e.used),
            );
        }
        let (number, close) = (table.tick(), CancellationToken::new());
        table.add(
            number,
            OpenConnection {
                port,
                network,
                class: ConnectionClass::Anonymous,
                account: None,
                used: number,
                close: close.clone(),
            },
        );
        drop(table);
        self.counters.connection_opened(port);
        Connection {
            of: Arc::clone(self),
            port,
            number,
            close,
            _place: place,
        }
    }

    /// Closes a connection of a port for a new client. Returns false if no connection may be closed.
    pub(crate) fn make_room(&self, port: Port) -> bool {
        let mut table = self.lock();
        let local = table
            .open
            .values()
            .filter(|e| e.port == port && e.network == LOCAL);
        // Reserved for the probes of this machine, so that a flood from many networks does not close them.
        let keeps_local = local.count() <= table.ports[port as usize].local_reserved;
        let anonymous = table.least(
            |e| {
                e.port == port
                    && e.class == ConnectionClass::Anonymous
                    && !(keeps_local && e.network == LOCAL)
            },
            |e| (Reverse(table.count_of(e.network)), e.used),
        );
        let victim = anonymous.or_else(|| {
            table.least(
                |e| e.port == port && e.class == ConnectionClass::Account,
                |e| e.used,
            )
        });
        victim.is_some_and(|number| table.close(number))
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        // The counts are right after each step, and a panic of another task must not stop the gateway.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Records an authenticated request of an account, and whether the account has a live lease.
    pub(crate) fn used_by(&self, account: &Address, is_leased: bool) {
        let class = if is_leased {
            ConnectionClass::Leased
        } else {
            ConnectionClass::Account
        };
        self.of.lock().authenticate(self.number, account, class);
    }

    pub(crate) async fn displaced(&self) {
        self.close.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.of.lock().remove(self.number);
        self.of.counters.connection_closed(self.port);
    }
}

impl Places {
    fn new(places: usize) -> Self {
        let reserved = (places / 4).clamp(1, RESERVED_MAX);
        Self {
            authenticated: 0,
            authenticated_max: places.saturating_sub(reserved),
            local_reserved: reserved / 2,
        }
    }
}

impl ConnectionTable {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn authenticate(&mut self, number: u64, account: &Address, class: ConnectionClass) {
        let used = self.tick();
        let Some(entry) = self.open.get_mut(&number) else {
            return;
        };
        entry.used = used;
        let port = entry.port;
        if entry.class == class && entry.account.as_ref() == Some(account) {
            return;
        }
        // Anonymous until there is a place for its class.
        self.reclassify(number, ConnectionClass::Anonymous, None);
        let mine = self.count_of_account(account);
        let most = if class == ConnectionClass::Leased {
            LEASED_OF_ACCOUNT
        } else {
            UNLEASED_OF_ACCOUNT
        };
        let places = &self.ports[port as usize];
        let is_full = places.authenticated >= places.authenticated_max;
        if mine < most && (!is_full || self.displace_for(port, class, mine)) {
            self.reclassify(number, class, Some(account));
        }
    }

    /// Closes an authenticated connection on `port` in favor of a new connection of `class`. `mine` is the
    /// number of connections of the account that opens the new connection. Returns false if no connection may
    /// be closed.
    fn displace_for(&mut self, port: Port, class: ConnectionClass, mine: usize) -> bool {
        if self.close_least(
            |e| e.port == port && e.class == ConnectionClass::Account,
            |e| e.used,
        ) {
            return true;
        }
        let of = |e: &OpenConnection| {
            e.account
                .as_ref()
                .map_or(0, |account| self.count_of_account(account))
        };
        let victim = self.least(
            // The difference must be at least two. Otherwise two accounts would repeatedly close each other's last
            // connection.
            |e| {
                e.port == port
                    && class == ConnectionClass::Leased
                    && e.class == ConnectionClass::Leased
                    && of(e) > mine + 1
            },
            |e| (Reverse(of(e)), e.used),
        );
        victim.is_some_and(|number| self.close(number))
    }

    /// Returns the closable connection for which the function `order` returns the lowest value.
    fn least<K: Ord>(
        &self,
        may_close: impl Fn(&OpenConnection) -> bool,
        order: impl Fn(&OpenConnection) -> K,
    ) -> Option<u64> {
        let candidates = self.open.iter().filter(|(_, entry)| may_close(entry));
        let first = candidates.min_by_key(|(_, entry)| order(entry));
        first.map(|(number, _)| *number)
    }

    fn close_least<K: Ord>(
        &mut self,
        may_close: impl Fn(&OpenConnection) -> bool,
        order: impl Fn(&OpenConnection) -> K,
    ) -> bool {
        let first = self.least(may_close, order);
        first.is_some_and(|number| self.close(number))
    }

    fn close(&mut self, number: u64) -> bool {
        let entry = self.remove(number);
        entry.is_some_and(|entry| {
            self.counters.count_displaced(entry.port);
            entry.close.cancel();
            true
        })
    }

    fn reclassify(&mut self, number: u64, class: ConnectionClass, account: Option<&Address>) {
        if let Some(entry) = self.remove(number) {
            let account = account.cloned();
            self.add(
                number,
                OpenConnection {
                    class,
                    account,
                    ..entry
                },
            );
        }
    }

    fn count_of(&self, network: IpAddr) -> usize {
        self.unleased.get(&network).copied().unwrap_or_default()
    }

    fn count_of_account(&self, account: &Address) -> usize {
        self.of_account.get(account).copied().unwrap_or_default()
    }

    fn add(&mut self, number: u64, entry: OpenConnection) {
        if entry.class < ConnectionClass::Leased {
            *self.unleased.entry(entry.network).or_insert(0) += 1;
        }
        if let Some(account) = &entry.account {
            *self.of_account.entry(account.clone()).or_insert(0) += 1;
            self.ports[entry.port as usize].authenticated += 1;
        }
        self.open.insert(number, entry);
    }

    fn remove(&mut self, number: u64) -> Option<OpenConnection> {
        let entry = self.open.remove(&number)?;
        if entry.class < ConnectionClass::Leased {
            decrement(&mut self.unleased, &entry.network);
        }
        if let Some(account) = &entry.account {
            decrement(&mut self.of_account, account);
            self.ports[entry.port as usize].authenticated -= 1;
        }
        Some(entry)
    }
}

/// Decrements a count. Removes a zero count, so that the map does not grow with every client.
fn decrement<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
