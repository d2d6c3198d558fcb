//! The deployment machine with tenants that submit manifests, a chain that responds late and a cluster that
//! fails.

use crate::fixture::{Clock, bid_id, order_id, permanent, transient};
use crate::search::{World, explore};
use akash_provider_core::cluster;
use akash_provider_core::engine::machines::deployment::{
    AcceptedManifest, Deployment, DeploymentAction, DeploymentInput, DeploymentPhase, Origin, Submission,
};
use akash_provider_core::engine::{Call, Refusal, RefusalKind, RequestId};
use akash_provider_core::manifest::{Group, Manifest};
use akash_provider_core::types::{self, BlockTime, DeploymentRecord, EscrowAccount};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum InFlight {
    Fetch,
    Record,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DeploymentWorld {
    machine: Deployment,
    clock: Clock,
    in_flight: Option<InFlight>,
    lease: bool,
    deadline: BlockTime,
    /// Number of replies that each request has received.
    replies: BTreeMap<u64, u8>,
    recorded: bool,
    delivered: bool,
    claimed: bool,
    /// Whether the manifest in the cluster is unknown.
    doubt: bool,
    /// The manifest deadline has passed, and the cluster was not listed after the deadline.
    due: bool,
    /// The cluster has an unusable Manifest record of the deployment.
    unusable: bool,
    /// True if the workloads were listed after the deadline, and the list contained no object of the
    /// deployment.
    disproven: bool,
    /// Whether a Manifest record of the deployment was possibly written to the cluster.
    touched: bool,
    ended: u8,
    valid: bool,
    submissions: u64,
    /// Remaining number of times that the search lets the manifest deadline pass.
    blocks: u8,
    /// Number of times that the search can still return an unexpected list of the workloads.
    lists_left: u8,
    budget: u8,
    wrong: Option<&'static str>,
}

fn submission(id: u64) -> Submission {
    Submission {
        request: Some(RequestId(id)),
        manifest: Arc::new(Manifest { groups: Vec::new() }),
        hashes: [1; 32].into(),
    }
}

fn accepted() -> AcceptedManifest {
    let deployment = cluster::WorkloadSpec::new(bid_id(), Arc::new(Group::new("g", Vec::new())));
    AcceptedManifest {
        hash: [1; 32],
        deployments: vec![Arc::new(deployment)],
        purge: Vec::new(),
    }
}

fn record() -> DeploymentRecord {
    let id = order_id().deployment().clone();
    let deployment = types::Deployment {
        id,
        active: true,
        hash: [1; 32],
        created_at: 1,
        reclamation_min_window: None,
    };
    let escrow = EscrowAccount {
        funds: BTreeMap::new(),
        settled_at: 1,
    };
    DeploymentRecord {
        deployment,
        groups: Vec::new(),
        escrow,
        leases: Vec::new(),
    }
}

impl DeploymentWorld {
    fn start(budget: u8, origin: Origin) -> Self {
        let clock = Clock::new();
        let deadline = clock.block_time.plus(Duration::from_secs(300));
        let world = Self {
            machine: Deployment::new(order_id().deployment()),
            clock,
            in_flight: None,
            lease: true,
            deadline,
            replies: BTreeMap::new(),
            recorded: false,
            delivered: false,
            claimed: false,
            doubt: origin == Origin::Found,
            due: false,
            unusable: false,
            disproven: false,
            touched: origin == Origin::Found,
            ended: 0,
            valid: true,
            submissions: 3,
            blocks: 3,
            lists_left: 2,
            budget,
            wrong: None,
        };
        world.feed(DeploymentInput::LeaseAdded {
            lease: bid_id(),
            deadline: Some(deadline),
            origin,
        })
    }

    fn feed(mut self, input: DeploymentInput) -> Self {
        let mut out = Vec::new();
        self.touched |= matches!(input, DeploymentInput::Recorded(_));
        self.machine = self.machine.transition(&self.clock.cx(), input, &mut out);
        for action in out {
            self.act(action);
        }
        self
    }

    fn act(&mut self, action: DeploymentAction) {
        match action {
            DeploymentAction::Call(call) => {
                if self.in_flight.is_some() {
                    self.wrong = Some("two calls in flight");
                }
                self.in_flight = Some(match call {
                    Call::FetchDeployment(_) => InFlight::Fetch,
                    Call::Record(_) => InFlight::Record,
                    other => panic!("unexpected call of a deployment: {other:?}"),
                });
            }
            DeploymentAction::Check(..) => {
                let refusal = Refusal::new(RefusalKind::InvalidManifest, "wrong");
                let checked = if self.valid && self.lease {
                    Ok(accepted())
                } else {
                    Err(refusal)
                };
                self.claimed |= checked.is_ok();
                *self = self.clone().feed(DeploymentInput::Checked(checked));
            }
            DeploymentAction::Undo(_) => {
                self.claimed = false;
                self.doubt = true;
            }
            DeploymentAction::CancelEnd(_) => self.ended = 0,
            DeploymentAction::ListCluster => {
                self.due = true;
                self.disproven = false;
            }
            DeploymentAction::Reply(RequestId(id), result) => {
                *self.replies.entry(id).or_default() += 1;
                if result.is_ok() && !self.recorded {
                    self.wrong = Some("accepted before the manifest was durable");
                }
            }
            DeploymentAction::Deliver { .. } => self.delivered = true,
            DeploymentAction::EndLease(..) => {
                self.ended += 1;
                if self.delivered {
                    self.wrong = Some("a lease with a manifest was ended");
                }
                if self.in_flight == Some(InFlight::Record) {
                    self.wrong = Some("a lease was ended while its manifest was being recorded");
                }
                if !self.disproven {
                    self.wrong =
                        Some("a lease was ended although no list proved its absence from the cluster");
                }
                if self.unusable {
                    self.wrong = Some("a lease with an unreadable record was ended");
                }
                if self.doubt {
                    self.wrong = Some("a lease was ended while its manifest may be in the cluster");
                }
                if self.machine.is_bare(&self.clock.cx(), &bid_id()) == self.touched {
                    self.wrong = Some("`destroys_nothing` does not match the records of the cluster");
                }
                if self.clock.block_time < self.deadline {
                    self.wrong = Some("a lease was ended before its deadline");
                }
            }
            DeploymentAction::Publish(_) | DeploymentAction::Unexpected => {}
        }
    }

    /// Adds one next state for each possible response to the pending query of the workloads.
    fn lists(&self, all: &mut Vec<(String, Self)>) {
        let listed = |unusable: Option<&str>, conclusive| DeploymentInput::Listed {
            unusable: unusable.map(|u| (bid_id(), Arc::from(u))).into_iter().collect(),
            conclusive,
        };
        let mut next = self.clone();
        (next.doubt, next.due, next.unusable) = (false, false, false);
        let mut gone = next.clone();
        gone.disproven = true;
        // A deployment that was found gets its time from the list that lacks it.
        if self.doubt || self.unusable {
            gone.deadline = gone.deadline.min(gone.clock.block_time);
        }
        all.push(("listed: absent".to_owned(), gone.feed(listed(None, true))));
        if self.lists_left > 0 {
            let mut doubtful = self.clone();
            doubtful.lists_left -= 1;
            doubtful.due = false;
            doubtful.doubt = true;
            all.push(("listed: uncertain".to_owned(), doubtful.feed(listed(None, false))));
            let mut spoiled = next.clone();
            spoiled.lists_left -= 1;
            spoiled.unusable = !spoiled.delivered;
            spoiled.touched = true;
            all.push((
                "listed: unreadable".to_owned(),
                spoiled.feed(listed(Some("proto: SCTP"), true)),
            ));
        }
        next.delivered = true;
        let found = DeploymentInput::LeaseAdded {
            lease: bid_id(),
            deadline: None,
            origin: Origin::Recorded,
        };
        if self.lease {
            let next = next.feed(found).feed(listed(None, true));
            all.push(("listed: present".to_owned(), next));
        }
    }

    fn completions(&self, all: &mut Vec<(String, Self)>) {
        let complete = |input: DeploymentInput, cost: u8, recorded: bool| {
            let mut next = self.clone();
            next.in_flight = None;
            next.budget -= cost;
            next.recorded |= recorded;
            next.feed(input)
        };
        match self.in_flight {
            None => {}
            Some(InFlight::Fetch) => {
                all.push((
                    "record read".to_owned(),
                    complete(DeploymentInput::Fetched(Ok(Some(record()))), 0, false),
                ));
                if self.budget > 0 {
                    all.push((
                        "not found".to_owned(),
                        complete(DeploymentInput::Fetched(Ok(None)), 1, false),
                    ));
                    all.push((
                        "chain unavailable".to_owned(),
                        complete(DeploymentInput::Fetched(Err(transient())), 1, false),
                    ));
                }
            }
            Some(InFlight::Record) => {
                all.push((
                    "recorded".to_owned(),
                    complete(DeploymentInput::Recorded(Ok(())), 0, true),
                ));
                if self.budget > 0 {
                    all.push((
                        "cluster unavailable".to_owned(),
                        complete(DeploymentInput::Recorded(Err(transient())), 1, false),
                    ));
                    all.push((
                        "cluster refuses".to_owned(),
                        complete(DeploymentInput::Recorded(Err(permanent())), 1, false),
                    ));
                }
            }
        }
    }
}

impl World for DeploymentWorld {
    fn successors(&self) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        if *self.machine.phase() == DeploymentPhase::Done {
            return all;
        }
        self.completions(&mut all);
        if self.submissions > 0 {
            for valid in [true, false] {
                let mut next = self.clone();
                next.submissions -= 1;
                next.valid = valid;
                let id = next.submissions;
                next.replies.insert(id, 0);
                all.push((
                    format!("submit valid={valid}"),
                    next.feed(DeploymentInput::Submit(submission(id))),
                ));
            }
        }
        if self.lease {
            let mut next = self.clone();
            next.lease = false;
            all.push((
                "lease ended".to_owned(),
                next.feed(DeploymentInput::LeaseRemoved(bid_id()))
                    .feed(DeploymentInput::Closed),
            ));
        }
        if let Some(at) = self.machine.mono_deadline() {
            let mut next = self.clone();
            next.clock.mono = next.clock.mono.max(at);
            all.push(("clock".to_owned(), next.feed(DeploymentInput::Wake)));
        }
        if let (Some(at), 1..) = (self.machine.block_deadline(&self.clock.cx()), self.blocks) {
            let mut next = self.clone();
            next.blocks -= 1;
            next.clock.block_time = next.clock.block_time.max(at);
            all.push(("blocks".to_owned(), next.feed(DeploymentInput::Wake)));
        }
        if self.doubt || self.due || self.unusable {
            self.lists(&mut all);
        }
        if !self.clock.stopping {
            let mut next = self.clone();
            next.clock.stopping = true;
            all.push(("shutdown".to_owned(), next.feed(DeploymentInput::Shutdown)));
        }
        all
    }

    fn violation(&self) -> Option<String> {
        if let Some(wrong) = self.wrong {
            return Some(wrong.to_owned());
        }
        if self.replies.values().any(|answers| *answers > 1) {
            return Some("every_request_gets_one_reply: two replies".to_owned());
        }
        if self.ended > 1 {
            return Some("a lease was ended twice".to_owned());
        }
        let rest = self.in_flight.is_none() && self.machine.mono_deadline().is_none();
        let done = *self.machine.phase() == DeploymentPhase::Done;
        if (rest || done) && self.replies.values().any(|answers| *answers == 0) {
            return Some("every_request_gets_one_reply: no reply".to_owned());
        }
        if rest && self.claimed && !self.delivered {
            return Some("a manifest was stored in part".to_owned());
        }
        let late = self.lease && !self.delivered && self.ended == 0 && !self.clock.stopping;
        let awaited = self.doubt || self.due || self.unusable;
        let forgotten = self.machine.manifest_deadline().is_none() && !awaited;
        (rest && late && forgotten).then(|| "w6_rejected_manifest_does_not_stop_deadline".to_owned())
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the stage `exploration` runs it optimised")]
fn explores_deployment_machine() {
    for origin in [Origin::Won, Origin::Found] {
        let stats = explore("deployment", DeploymentWorld::start(2, origin));
        assert!(stats.states > 500, "too few states explored: {stats:?}");
    }
}
