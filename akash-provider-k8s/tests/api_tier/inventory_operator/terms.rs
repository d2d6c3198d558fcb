//! Several inventory operators: the election term in the annotation of a node, and late writes of a deposed
//! leader.

use super::*;
use akash_provider_k8s::cluster::LeadershipGate;
use akash_provider_k8s::labels::OPERATOR_TERM;
use akash_provider_k8s::write_client::WriteClient;
use kube::client::Body;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

const NODE: &str = "op-inv-term";
const HOUR: Duration = Duration::from_secs(3_600);

fn leading(term: u64) -> LeadershipGate {
    let gate = LeadershipGate::new(false);
    gate.set_until(term, Instant::now() + HOUR);
    gate
}

fn led(client: &Client, gate: &LeadershipGate, rules: Rules) -> InventoryOperator {
    let mut options = InventoryOperatorOptions::default();
    options.rules = rules;
    options.retry_delay = Duration::from_millis(200);
    InventoryOperator::start(&WriteClient::sharing(client.clone(), gate.clone()), options)
}

async fn term(world: &World) -> Option<String> {
    let nodes: Api<Node> = Api::all(world.admin.clone());
    let annotations = nodes.get(NODE).await.unwrap().metadata.annotations;
    annotations.unwrap_or_default().get(OPERATOR_TERM).cloned()
}

async fn furnish(world: &World) {
    clear(world).await;
    class(world, "op-inv-beta2", "true").await;
    let usual = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    node(world, NODE, json!({"example.com/rack": "7"}), usual).await;
}

#[test]
fn node_records_term_of_its_labels_and_new_leader_writes_nothing() {
    run_alone("op-inv-terms", |world, testbed| {
        async move {
            furnish(world).await;
            let _kubelets = kubelets(world);
            let client = account(world, &testbed).await;
            let first = led(&client, &leading(4), rules());
            settled(world, &first, 1).await;
            assert_eq!(term(world).await.as_deref(), Some("4"));
            assert_eq!(first.status().counts.written, 1, "one write for all labels");
            first.stop().await;
            let second = led(&client, &leading(5), rules());
            settled(world, &second, 1).await;
            assert_eq!(second.status().counts.written, 0);
            assert_eq!(term(world).await.as_deref(), Some("4"), "the term of the write");
            let taken = json!({"metadata": {"labels": {"akash.network": null}}});
            patch(world, NODE, false, taken).await;
            let is_back = || async { labels(world, NODE).await.contains_key("akash.network") };
            world.until("the label is restored", is_back).await;
            assert_eq!(term(world).await.as_deref(), Some("5"));
            assert_eq!(labels(world, NODE).await["example.com/rack"], "7");
            clear(world).await;
        }
        .boxed()
    });
}

/// Returns a client that delays each PATCH until `arrive` is notified. Also returns the status codes of the
/// PATCH requests, and a signal for each delayed PATCH. A dropped caller does not stop a delayed PATCH.
fn slow(client: &Client, arrive: &Arc<Notify>) -> (Client, mpsc::UnboundedReceiver<u16>, Arc<Notify>) {
    let (status_sender, answers) = mpsc::unbounded_channel();
    let (begun, arrive) = (Arc::new(Notify::new()), Arc::clone(arrive));
    let (client, announced) = (client.clone(), Arc::clone(&begun));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, arrive) = (client.clone(), Arc::clone(&arrive));
        let (status_sender, begun) = (status_sender.clone(), Arc::clone(&announced));
        async move {
            if request.method() != http::Method::PATCH {
                return client.send(request).await;
            }
            begun.notify_one();
            let sending = tokio::spawn(async move {
                arrive.notified().await;
                let answer = client.send(request).await.unwrap();
                status_sender.send(answer.status().as_u16()).unwrap();
                answer
            });
            Ok(sending.await.unwrap())
        }
    });
    (Client::new(service, "default"), answers, begun)
}

#[test]
fn late_write_of_deposed_leader_changes_nothing() {
    run_alone("op-inv-late", |world, testbed| {
        async move {
            furnish(world).await;
            let _kubelets = kubelets(world);
            let client = account(world, &testbed).await;
            let arrive = Arc::new(Notify::new());
            let (slow, mut answers, begun) = slow(&client, &arrive);
            let gate = leading(4);
            let deposed = led(&slow, &gate, rules());
            tokio::time::timeout(Duration::from_secs(40), begun.notified())
                .await
                .unwrap();
            gate.set(false);
            // The next leader offers no storage class.
            let next = led(&client, &leading(5), Rules::default());
            settled(world, &next, 1).await;
            let before = labels(world, NODE).await;
            assert!(!before.contains_key(&format!("{CLASS}op-inv-beta2")));
            arrive.notify_one();
            let answer = tokio::time::timeout(Duration::from_secs(40), answers.recv()).await;
            assert_eq!(answer.unwrap(), Some(409));
            assert_eq!(labels(world, NODE).await, before);
            assert_eq!(term(world).await.as_deref(), Some("5"));
            assert_eq!(next.status().counts.written, 1, "no repair was necessary");
            drop(deposed);
            clear(world).await;
        }
        .boxed()
    });
}
