//! Malformed records in responses: the other records are returned, and a record of the provider is never left
//! out without an error.

use super::{busy_market, limits};
use crate::convert::responses;
use crate::endpoints::Endpoints;
use crate::method::Method;
use crate::proto::akash::base::resources::v1beta4 as res;
use crate::proto::akash::{
    audit::v1 as audit, cert::v1 as cert, deployment::v1beta4 as dep, market::v1beta5 as mkt,
};
use crate::query::records::RecordPage;
use crate::reader::Reader;
use crate::testing::chain::{Chain, account};
use crate::testing::{Node, Reply};
use akash_provider_core::chain::{
    BidFilter, Certificate, ChainQuery, LeaseFilter, OrderFilter, Page, PageRequest,
};
use akash_provider_core::types::{Address, BidId, BidState, LeaseRecord};
use data_encoding::{BASE64, HEXLOWER};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::Message;
use serde_json::json;
use std::sync::{Arc, Mutex};

/// Malformed record that a test inserts into responses to the query `path`.
#[derive(Debug, Clone, Default)]
struct Garbage {
    path: &'static str,
    /// Bytes that a request must contain. Responses to other requests are unchanged.
    within: Vec<u8>,
    record: Vec<u8>,
    at: usize,
}

struct Scene {
    chain: Chain,
    won: BidId,
    garbage: Arc<Mutex<Garbage>>,
    reader: Reader,
    node: Node,
}

fn certificates() -> Vec<Certificate> {
    let one = |serial: &str| Certificate {
        serial: serial.to_owned(),
        valid: true,
        cert: b"PEM".to_vec(),
        pubkey: b"PEM".to_vec(),
    };
    vec![one("1"), one("2")]
}

/// Responds to queries that the in-memory market does not support.
fn account_response(path: &str) -> Option<Vec<u8>> {
    match path {
        cert::QueryCertificatesRequest::PATH => Some(
            cert::QueryCertificatesResponse {
                certificates: certificates().iter().map(responses::certificate).collect(),
                pagination: None,
            }
            .encode_to_vec(),
        ),
        audit::QueryProviderAuditorRequest::PATH => {
            let signed = audit::AuditedProvider {
                owner: account(2).to_string(),
                auditor: account(8).to_string(),
                attributes: Vec::new(),
            };
            let providers = vec![signed];
            Some(
                audit::QueryProvidersResponse {
                    providers,
                    pagination: None,
                }
                .encode_to_vec(),
            )
        }
        _ => None,
    }
}

fn insert_record(answer: Vec<u8>, path: &str, garbage: &Garbage) -> Vec<u8> {
    if path == dep::QueryDeploymentRequest::PATH {
        let field = |number: u32, bytes: &[u8], out: &mut Vec<u8>| {
            prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, out);
            prost::encoding::encode_varint(bytes.len() as u64, out);
            out.extend(bytes);
        };
        let mut out = answer;
        field(2, &garbage.record, &mut out);
        return out;
    }
    let mut page = RecordPage::decode(&*answer).unwrap();
    let at = garbage.at % (page.records.len() + 1);
    page.records.insert(at, garbage.record.clone().into());
    page.encode_to_vec()
}

async fn scene() -> Scene {
    let (chain, won) = busy_market();
    // Another provider has a lease of the same deployment.
    let other = BidId {
        order: akash_provider_core::types::OrderId {
            group: akash_provider_core::types::GroupId {
                gseq: 2,
                ..won.order.group.clone()
            },
            oseq: 1,
        },
        provider: account(3),
    };
    let create = akash_provider_core::market::TenantMsg::CreateLease { bid: other };
    assert!(chain.tenant(create));
    chain.end_block();
    let garbage: Arc<Mutex<Garbage>> = Arc::default();
    let (of_node, behavior, served) = (Arc::clone(&garbage), Arc::default(), chain.clone());
    let node = Node::start(move |method, params| {
        let garbage = of_node.lock().unwrap().clone();
        let path = params["path"].as_str().unwrap_or_default();
        let honest = match account_response(path) {
            Some(bytes) => Reply::Result(json!({"response": {
                "code": 0, "value": BASE64.encode(&bytes), "height": served.height().to_string(),
            }})),
            None => served.reply(&behavior, method, params),
        };
        let data = params["data"].as_str().unwrap_or_default().as_bytes();
        let data = HEXLOWER.decode(data).unwrap_or_default();
        let within = &garbage.within;
        let is_meant = within.is_empty() || data.windows(within.len()).any(|w| w == &within[..]);
        match honest {
            Reply::Result(mut result) if method == "abci_query" && path == garbage.path && is_meant => {
                let value = result["response"]["value"].as_str().unwrap_or_default();
                let answer = BASE64.decode(value.as_bytes()).unwrap();
                let modified = insert_record(answer, path, &garbage);
                result["response"]["value"] = BASE64.encode(&modified).into();
                Reply::Result(result)
            }
            honest => honest,
        }
    })
    .await;
    let quick = crate::EndpointLimits {
        attempts: 1,
        ..limits()
    };
    let endpoints = Endpoints::new(&[&node.url], "local", quick).unwrap();
    let reader = Reader::new(endpoints).with_account(account(2));
    Scene {
        chain,
        won,
        garbage,
        reader,
        node,
    }
}

fn leases_of_all(won: &BidId) -> LeaseFilter {
    LeaseFilter {
        deployment: Some(won.deployment().clone()),
        ..LeaseFilter::default()
    }
}

impl Scene {
    fn put(&self, garbage: Garbage) {
        *self.garbage.lock().unwrap() = garbage;
    }

    /// Queries all records, and formats the results and errors as text.
    async fn everything(&self) -> Vec<(&'static str, String)> {
        let (reader, page) = (&self.reader, PageRequest::default);
        let of_order = BidFilter {
            order: Some(self.won.order.clone()),
            ..BidFilter::default()
        };
        let mut certificates = reader.certificates(&account(1), None).await;
        if let Ok(certificates) = &mut certificates {
            // Certificates are not validated on decoding, so a malformed one may be in the result.
            certificates.retain(|c| !c.cert.is_empty());
        }
        let signed = reader.auditor_attributes(account(8).as_str(), &account(2)).await;
        let orders = reader.orders(&OrderFilter::default(), page()).await;
        vec![
            ("orders", format!("{:?}", orders.map(|p| p.items))),
            (
                "bids",
                format!("{:?}", reader.bids(&of_order, page()).await.map(|p| p.items)),
            ),
            (
                "leases",
                format!(
                    "{:?}",
                    reader
                        .leases(&leases_of_all(&self.won), page())
                        .await
                        .map(|p| p.items)
                ),
            ),
            (
                "deployment",
                format!("{:?}", reader.deployment(self.won.deployment()).await),
            ),
            ("certificates", format!("{certificates:?}")),
            ("audits", format!("{signed:?}")),
            ("snapshot", format!("{:?}", reader.snapshot(&account(2)).await)),
        ]
    }
}

fn other_bid() -> BidId {
    let (_, won) = busy_market();
    BidId {
        provider: account(3),
        ..won
    }
}

fn offer(units: &str) -> mkt::ResourceOffer {
    let cpu = res::Cpu {
        units: Some(res::ResourceValue {
            val: units.as_bytes().to_vec(),
        }),
        ..res::Cpu::default()
    };
    let resources = res::Resources {
        cpu: Some(cpu),
        ..res::Resources::default()
    };
    mkt::ResourceOffer {
        resources: Some(resources),
        count: 1,
        prices: None,
    }
}

fn wire_bid(id: &BidId) -> mkt::Bid {
    let (chain, _) = busy_market();
    let market = chain.lock().market.clone();
    let bid = market.bids().find(|b| b.id.provider == id.provider).unwrap();
    responses::bid(bid).bid.unwrap()
}

/// Returns malformed records of other accounts.
fn malformed_records() -> Vec<Vec<u8>> {
    let bid = wire_bid(&other_bid());
    let of_bid = |bid: mkt::Bid| {
        let bid = Some(bid);
        mkt::QueryBidResponse {
            bid,
            escrow_account: None,
        }
        .encode_to_vec()
    };
    let (chain, _) = busy_market();
    let market = chain.lock().market.clone();
    let order = responses::order(market.orders().next().unwrap());
    let priced = |amount: &str| {
        let mut spec = order.spec.clone().unwrap();
        spec.resources[0].price.as_mut().unwrap().amount = amount.to_owned();
        mkt::Order {
            spec: Some(spec),
            ..order.clone()
        }
        .encode_to_vec()
    };
    let mut text = order.clone().encode_to_vec();
    // A name that is not UTF-8, which the network does not check.
    let name = b"group-0";
    let at = text.windows(name.len()).position(|w| w == name).unwrap();
    text[at] = 0xff;
    vec![
        Vec::new(),
        vec![0xff; 12],
        // The first field is a number.
        vec![0x08, 0x01],
        text,
        priced("-1.5"),
        priced(&"9".repeat(60)),
        mkt::Order {
            state: 99,
            ..order.clone()
        }
        .encode_to_vec(),
        mkt::Order {
            created_at: -1,
            ..order.clone()
        }
        .encode_to_vec(),
        mkt::Order { id: None, ..order }.encode_to_vec(),
        of_bid(mkt::Bid {
            state: 77,
            ..bid.clone()
        }),
        of_bid(mkt::Bid {
            created_at: i64::MIN,
            ..bid.clone()
        }),
        of_bid(mkt::Bid { price: None, ..bid }),
    ]
}

const LISTINGS: [&str; 6] = [
    mkt::QueryOrdersRequest::PATH,
    mkt::QueryBidsRequest::PATH,
    mkt::QueryLeasesRequest::PATH,
    dep::QueryDeploymentRequest::PATH,
    cert::QueryCertificatesRequest::PATH,
    audit::QueryProviderAuditorRequest::PATH,
];

/// Returns the bytes that a request must contain to get the malformed record: for lists of bids and leases,
/// the tenant of `won`. For other paths, returns no bytes, so every request matches.
fn within(path: &str, won: &BidId) -> Vec<u8> {
    match path {
        mkt::QueryBidsRequest::PATH | mkt::QueryLeasesRequest::PATH => won.owner().as_str().into(),
        _ => Vec::new(),
    }
}

#[test]
fn malformed_record_does_not_hide_other_records() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let scene = runtime.block_on(scene());
    let honest = runtime.block_on(scene.everything());
    for (query, answer) in &honest {
        assert!(
            answer.starts_with("Ok(") && answer.len() > 40,
            "{query}: {answer}"
        );
    }
    let record = prop_oneof![
        proptest::sample::select(malformed_records()),
        proptest::collection::vec(any::<u8>(), 0..200),
    ];
    let cases = (
        proptest::sample::select(LISTINGS.to_vec()),
        record,
        any::<usize>(),
    );
    let config = Config {
        cases: 192,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&cases, |(path, record, at)| {
        let within = within(path, &scene.won);
        scene.put(Garbage {
            path,
            within,
            record,
            at,
        });
        let read = runtime.block_on(scene.everything());
        for (honest, read) in honest.iter().zip(&read) {
            prop_assert_eq!(&honest.1, &read.1, "{} with garbage in {}", honest.0, path);
        }
        Ok(())
    });
    result.unwrap();
}

#[tokio::test]
async fn malformed_offer_and_bseq_do_not_hide_a_bid_of_another_provider() {
    let scene = scene().await;
    let other = other_bid();
    let mut bid = wire_bid(&other);
    bid.resources_offer = vec![offer("-1")];
    bid.reclamation_window = Some(prost_types::Duration {
        seconds: -5,
        nanos: 0,
    });
    bid.id.as_mut().unwrap().bseq = 7;
    let bid = Some(bid);
    let record = mkt::QueryBidResponse {
        bid,
        escrow_account: None,
    };
    let all_bids = BidFilter {
        order: Some(scene.won.order.clone()),
        ..BidFilter::default()
    };
    let before = scene
        .reader
        .bids(&all_bids, PageRequest::default())
        .await
        .unwrap();
    scene.put(Garbage {
        path: mkt::QueryBidsRequest::PATH,
        record: record.encode_to_vec(),
        ..Garbage::default()
    });
    let after = scene
        .reader
        .bids(&all_bids, PageRequest::default())
        .await
        .unwrap();
    assert_eq!(
        after.items.len(),
        before.items.len() + 1,
        "the result must contain one more bid"
    );
    let of_other = |b: &&akash_provider_core::types::Bid| b.id.provider == account(3);
    let states = after.items.iter().filter(of_other).map(|b| b.state);
    assert!(states.clone().any(|s| s != BidState::Lost) && states.count() > 1);
}

#[tokio::test]
async fn leases_with_a_bseq_are_read_unless_they_name_this_provider() {
    let scene = scene().await;
    let all = leases_of_all(&scene.won);
    let listed = async |provider: &str| {
        let market = scene.chain.lock().market.clone();
        let mut record = responses::lease_record(&market.lease(&scene.won).unwrap());
        let id = record.lease.as_mut().unwrap().id.as_mut().unwrap();
        (id.provider, id.bseq) = (provider.to_owned(), 3);
        scene.put(Garbage {
            path: mkt::QueryLeasesRequest::PATH,
            record: record.encode_to_vec(),
            ..Garbage::default()
        });
        scene.reader.leases(&all, PageRequest::default()).await
    };
    let other: Address = account(3);
    let count = |page: Page<LeaseRecord>| {
        let of_other = |record: &&LeaseRecord| record.lease.id.provider == other;
        page.items.iter().filter(of_other).count()
    };
    let before = scene.reader.leases(&all, PageRequest::default()).await.unwrap();
    let with_bseq = listed(other.as_str()).await.unwrap();
    assert_eq!(count(with_bseq), count(before) + 1);
    let ours: Address = account(2);
    let error = listed(ours.as_str()).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("3 is not 0"), "{error}");
}

#[tokio::test]
async fn malformed_record_of_the_provider_is_an_error() {
    let scene = scene().await;
    let us: Address = account(2);
    let named = responses::lease_record(&scene.chain.lock().market.lease(&scene.won).unwrap());
    let mut lease = named.clone();
    lease.lease.as_mut().unwrap().state = 99;
    let ours = LeaseFilter {
        provider: Some(us.clone()),
        ..LeaseFilter::default()
    };
    let page = PageRequest::default;
    scene.put(Garbage {
        path: mkt::QueryLeasesRequest::PATH,
        record: lease.encode_to_vec(),
        ..Garbage::default()
    });
    for error in [
        scene.reader.leases(&ours, page()).await.map(drop).unwrap_err(),
        scene
            .reader
            .leases(&leases_of_all(&scene.won), page())
            .await
            .map(drop)
            .unwrap_err(),
        scene
            .reader
            .deployment(scene.won.deployment())
            .await
            .map(drop)
            .unwrap_err(),
        scene.reader.snapshot(&us).await.map(drop).unwrap_err(),
    ] {
        assert!(error.to_string().contains("lease akash1"), "{error}");
        assert!(error.is_transient(), "transient: {error}");
    }
    // The list of own bids is never incomplete, even if a record is completely unreadable.
    let bids = BidFilter {
        provider: Some(us.clone()),
        ..BidFilter::default()
    };
    scene.put(Garbage {
        path: mkt::QueryBidsRequest::PATH,
        record: vec![0xff; 9],
        ..Garbage::default()
    });
    let error = scene.reader.bids(&bids, page()).await.unwrap_err();
    assert!(error.to_string().contains("of this provider"), "{error}");
    assert!(scene.reader.snapshot(&us).await.is_err());
    // A malformed auditor signature, or a malformed certificate queried by serial, is not absent.
    scene.put(Garbage {
        path: audit::QueryProviderAuditorRequest::PATH,
        record: vec![0xff; 9],
        ..Garbage::default()
    });
    let signed = scene.reader.auditor_attributes(account(7).as_str(), &us).await;
    assert!(signed.is_err(), "{signed:?}");
    scene.put(Garbage {
        path: cert::QueryCertificatesRequest::PATH,
        record: vec![0xff; 9],
        ..Garbage::default()
    });
    let one = scene.reader.certificates(&us, Some("1")).await;
    assert!(one.is_err(), "{one:?}");
}

#[tokio::test]
async fn malformed_record_of_the_provider_causes_a_fail_over() {
    let scene = scene().await;
    scene.put(Garbage {
        path: mkt::QueryLeasesRequest::PATH,
        record: vec![0xff; 9],
        ..Garbage::default()
    });
    let good = scene.chain.node(Arc::default()).await;
    let urls = [scene.node.url.clone(), good.url.clone()];
    let reader = Reader::new(Endpoints::new(&urls, "local", limits()).unwrap());
    let ours = LeaseFilter {
        provider: Some(account(2)),
        ..LeaseFilter::default()
    };
    let leases = reader.leases(&ours, PageRequest::default()).await.unwrap();
    assert_eq!(leases.items.len(), 1);
}

#[tokio::test]
async fn malformed_deployment_does_not_hide_its_lease() {
    let scene = scene().await;
    let us = account(2);
    let honest = scene.reader.snapshot(&us).await.unwrap();
    let (garbage, behavior) = (Arc::<Mutex<bool>>::default(), Arc::default());
    let (chain, is_on) = (scene.chain.clone(), Arc::clone(&garbage));
    let node = Node::start(move |method, params| {
        if params["path"] != dep::QueryDeploymentRequest::PATH || !*is_on.lock().unwrap() {
            return chain.reply(&behavior, method, params);
        }
        // Response with an empty deployment.
        let value = BASE64.encode(&[0x0a, 0x00, 0x1a, 0x00]);
        Reply::Result(json!({"response": {"code": 0, "value": value, "height": params["height"]}}))
    })
    .await;
    let reader = Reader::new(Endpoints::new(&[&node.url], "local", limits()).unwrap());
    assert_eq!(reader.snapshot(&us).await.unwrap(), honest);
    *garbage.lock().unwrap() = true;
    let read = reader.snapshot(&us).await.unwrap();
    assert_eq!(
        (read.leases, read.orders, read.bids),
        (honest.leases, honest.orders, honest.bids)
    );
    assert!(read.deployments.is_empty());
    assert!(
        reader.deployment(scene.won.deployment()).await.is_err(),
        "a direct query is an error"
    );
}
