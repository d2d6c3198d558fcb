//! TXT and address lookups with the resolvers of the system, or with configured resolvers.

use akash_provider_operators::hostname::proof::TxtLookup;
use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::RData;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Maximum duration of each attempt of a DNS query. A query has three attempts.
const LIMIT: Duration = Duration::from_secs(3);
/// Maximum number of DNS records that one query returns. Further records are ignored.
const RECORDS_MAX: usize = 256;

/// DNS client without a cache. The caller limits the query rate.
pub struct Dns(TokioResolver);

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dns")
    }
}

impl Dns {
    /// Creates a client for these servers, or for those in `/etc/resolv.conf` if `servers` is empty.
    pub fn new(servers: &[SocketAddr]) -> anyhow::Result<Self> {
        let mut builder = if servers.is_empty() {
            TokioResolver::builder_tokio()?
        } else {
            let servers = servers.iter().map(|server| {
                let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                    connection.port = server.port();
                    connection
                });
                NameServerConfig::new(server.ip(), true, connections.into())
            });
            let config = ResolverConfig::from_name_servers(servers.collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        (options.timeout, options.attempts) = (LIMIT, 2);
        Ok(Self(builder.build()?))
    }

    /// Creates a client that uses `/etc/hosts` and the servers of `/etc/resolv.conf`.
    pub fn from_system(limit: Duration) -> anyhow::Result<Self> {
        let mut builder = TokioResolver::builder_tokio()?;
        let options = builder.options_mut();
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Always;
        (options.timeout, options.attempts) = (limit, 1);
        Ok(Self(builder.build()?))
    }

    /// Returns the addresses of a name; empty if the name does not exist.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        match self.0.lookup_ip(format!("{name}.")).await {
            Ok(found) => Ok(found.iter().take(RECORDS_MAX).collect()),
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns true if the DNS server reports that the name or the record does not exist.
fn is_absent(error: &NetError) -> bool {
    matches!(
        error,
        NetError::Dns(DnsError::NoRecordsFound(none))
            if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
    )
}

#[async_trait]
impl TxtLookup for Dns {
    async fn txt(&self, name: &str) -> Result<Vec<String>, String> {
        // The final dot prevents the search domains of the machine.
        match self.0.txt_lookup(format!("{name}.")).await {
            Ok(found) => {
                let texts = found.answers().iter().filter_map(|record| match &record.data {
                    RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
                    _ => None,
                });
                Ok(texts.take(RECORDS_MAX).collect())
            }
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_resolver::proto::op::{Message, OpCode};
    use hickory_resolver::proto::rr::rdata::TXT;
    use hickory_resolver::proto::rr::{Name, Record, RecordType};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, UdpSocket};
    use tokio_util::task::AbortOnDropHandle;

    fn answer(question: &[u8], may_be_long: bool) -> Vec<u8> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        assert_eq!(query.query_type(), RecordType::TXT);
        let mut answer = Message::response(question.metadata.id, OpCode::Query);
        answer.add_query(query.clone());
        let name = query.name().clone();
        let mut add = |name: &Name, texts: Vec<String>| {
            answer.add_answer(Record::from_rdata(name.clone(), 60, RData::TXT(TXT::new(texts))));
        };
        match name.to_utf8().as_str() {
            "_akash-challenge.two.example.com." => {
                add(&name, vec!["v=spf1 -all".to_owned()]);
                add(&name, vec!["akash-owner=".to_owned(), "akash1abc".to_owned()]);
            }
            "_akash-challenge.long.example.com." if may_be_long => {
                for number in 0..300 {
                    add(&name, vec![format!("{number:0100}")]);
                }
            }
            "_akash-challenge.long.example.com." => answer.metadata.truncation = true,
            "_akash-challenge.none.example.com." => {}
            "_akash-challenge.counts.example.com." => {
                static ASKED: AtomicUsize = AtomicUsize::new(0);
                add(&name, vec![ASKED.fetch_add(1, Ordering::Relaxed).to_string()]);
            }
            "_akash-challenge.broken.example.com." => answer.metadata.response_code = ResponseCode::ServFail,
            // An unassigned response code.
            "_akash-challenge.odd.example.com." => answer.metadata.response_code = ResponseCode::Unknown(12),
            "_akash-challenge.refused.example.com." => answer.metadata.response_code = ResponseCode::Refused,
            _ => answer.metadata.response_code = ResponseCode::NXDomain,
        }
        answer.to_vec().unwrap()
    }

    async fn server() -> (SocketAddr, Vec<AbortOnDropHandle<()>>) {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = udp.local_addr().unwrap();
        let tcp = TcpListener::bind(at).await.unwrap();
        let by_udp = async move {
            let mut bytes = [0; 4_096];
            while let Ok((length, peer)) = udp.recv_from(&mut bytes).await {
                udp.send_to(&answer(&bytes[..length], false), peer).await.unwrap();
            }
        };
        let by_tcp = async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                while let Ok(length) = stream.read_u16().await {
                    let mut bytes = vec![0; usize::from(length)];
                    stream.read_exact(&mut bytes).await.unwrap();
                    let answer = answer(&bytes, true);
                    stream
                        .write_u16(u16::try_from(answer.len()).unwrap())
                        .await
                        .unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
            }
        };
        let tasks = vec![
            AbortOnDropHandle::new(tokio::spawn(by_udp)),
            AbortOnDropHandle::new(tokio::spawn(by_tcp)),
        ];
        (at, tasks)
    }

    #[tokio::test]
    async fn only_an_authoritative_negative_response_means_absence() {
        let (at, _server) = server().await;
        let dns = Dns::new(&[at]).unwrap();
        let ask = async |label: &str| dns.txt(&format!("_akash-challenge.{label}.example.com")).await;
        let two = ask("two").await.unwrap();
        assert_eq!(
            two,
            ["v=spf1 -all", "akash-owner=akash1abc"],
            "strings of a record are joined"
        );
        assert_eq!(ask("none").await, Ok(Vec::new()));
        let first = ask("counts").await.unwrap();
        assert_ne!(ask("counts").await.unwrap(), first, "no response is cached");
        assert_eq!(ask("missing").await, Ok(Vec::new()));
        for unknown in ["broken", "refused", "odd"] {
            assert!(ask(unknown).await.is_err(), "{unknown}");
        }
        assert_eq!(
            ask("long").await.unwrap().len(),
            RECORDS_MAX,
            "read over TCP up to the limit"
        );
    }

    #[tokio::test]
    async fn unreachable_server_is_an_error() {
        let gone = UdpSocket::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let dns = Dns::new(&[gone]).unwrap();
        assert!(dns.txt("_akash-challenge.two.example.com").await.is_err());
        assert!(dns.txt("..").await.is_err(), "an invalid name is not absent");
    }
}
