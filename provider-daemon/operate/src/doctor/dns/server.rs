//! DNS server with address records, for tests.

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::A;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

/// Address records by name. Each name ends with a dot; `*` as the first label is a wildcard. With `None`,
/// each query fails.
#[derive(Debug, Clone)]
pub(crate) struct Records(Arc<Mutex<Option<BTreeMap<String, Ipv4Addr>>>>);

impl Default for Records {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(BTreeMap::new()))))
    }
}

impl Records {
    pub(crate) fn set(&self, name: &str, address: &str) {
        let mut records = self.0.lock().unwrap();
        let records = records.as_mut().unwrap();
        records.insert(name.to_owned(), address.parse().unwrap());
    }

    /// Makes each query fail with SERVFAIL.
    pub(crate) fn fail(&self) {
        *self.0.lock().unwrap() = None;
    }

    /// Starts a DNS server on loopback, which runs until the handle is dropped.
    pub(crate) async fn serve(&self) -> (SocketAddr, AbortOnDropHandle<()>) {
        self.serve_at(([127, 0, 0, 1], 0).into()).await
    }

    /// Starts a DNS server at this address, as [`serve`](Self::serve) does.
    pub(crate) async fn serve_at(&self, at: SocketAddr) -> (SocketAddr, AbortOnDropHandle<()>) {
        let socket = UdpSocket::bind(at).await.unwrap();
        let at = socket.local_addr().unwrap();
        let records = self.clone();
        let serving = async move {
            let mut bytes = [0; 4_096];
            while let Ok((length, peer)) = socket.recv_from(&mut bytes).await {
                let response = records.response(&bytes[..length]);
                socket.send_to(&response, peer).await.unwrap();
            }
        };
        (at, AbortOnDropHandle::new(tokio::spawn(serving)))
    }

    fn response(&self, query: &[u8]) -> Vec<u8> {
        let message = Message::from_vec(query).unwrap();
        let query = message.queries[0].clone();
        let mut response = Message::response(message.metadata.id, OpCode::Query);
        response.add_query(query.clone());
        let name = query.name().to_utf8();
        let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        match &*self.0.lock().unwrap() {
            None => response.metadata.response_code = ResponseCode::ServFail,
            Some(records) => {
                let found = records.get(&name);
                let found = found.or_else(|| records.get(wildcard.as_deref()?));
                match found {
                    None => response.metadata.response_code = ResponseCode::NXDomain,
                    Some(address) if query.query_type() == RecordType::A => {
                        let data = RData::A(A::from(*address));
                        response.add_answer(Record::from_rdata(query.name().clone(), 60, data));
                    }
                    Some(_) => {}
                }
            }
        }
        response.to_vec().unwrap()
    }
}
