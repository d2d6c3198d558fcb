//! The money machine, with a chain that rejects the second withdrawal of a deployment in one block.

use crate::fixture::{Clock, bid_id, order_id, price, transient};
use crate::search::{World, explore};
use akash_provider_core::engine::Call;
use akash_provider_core::engine::machines::escrow::{Escrow, EscrowAction, EscrowInput, EscrowPhase};
use akash_provider_core::types::{
    BidId, BlockTime, Dec, Deployment, DeploymentRecord, EscrowAccount, GroupId, Height, Lease, LeaseState,
    Msg, TxOutcome,
};
use std::time::Duration;

const BLOCK: Duration = Duration::from_secs(6);
const EXPIRY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum InFlight {
    Check,
    Withdraw,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EscrowWorld {
    machine: Escrow,
    clock: Clock,
    in_flight: Option<InFlight>,
    /// Block time at which the unconfirmed withdrawal expires, if any.
    flying: Option<BlockTime>,
    withdrawn_at: Option<Height>,
    leases: u8,
    empty: bool,
    blocks: u8,
    budget: u8,
    wrong: Option<&'static str>,
}

fn lease(gseq: u32) -> BidId {
    let group = GroupId {
        gseq,
        ..order_id().group
    };
    BidId {
        order: group.order(1),
        ..bid_id()
    }
}

impl EscrowWorld {
    fn start(budget: u8) -> Self {
        let clock = Clock::new();
        let world = Self {
            machine: Escrow::new(order_id().deployment(), clock.block_time),
            clock,
            in_flight: None,
            flying: None,
            withdrawn_at: None,
            leases: 2,
            empty: false,
            blocks: 7,
            budget,
            wrong: None,
        };
        let (now, due) = (clock.block_time, Some(clock.block_time.plus(BLOCK)));
        let add = |gseq| EscrowInput::LeaseAdded {
            lease: lease(gseq),
            due,
            check_at: now,
        };
        world.feed(add(1)).feed(add(2))
    }

    fn feed(mut self, input: EscrowInput) -> Self {
        let mut out = Vec::new();
        self.machine = self.machine.transition(&self.clock.cx(), input, &mut out);
        for action in out {
            let EscrowAction::Call(call) = action else {
                continue;
            };
            if self.in_flight.is_some() {
                self.wrong = Some("two calls in flight");
            }
            if call.is_write() && (!self.clock.leader || self.clock.stopping) {
                self.wrong = Some("no_write_as_standby");
            }
            self.in_flight = Some(match call {
                Call::FetchDeployment(_) => InFlight::Check,
                Call::Broadcast(Msg::WithdrawLease { .. }) => {
                    if self
                        .flying
                        .is_some_and(|expires| expires >= self.clock.block_time)
                    {
                        self.wrong = Some("a withdrawal was sent while another one was unconfirmed");
                    }
                    InFlight::Withdraw
                }
                other => panic!("unexpected call of the money machine: {other:?}"),
            });
        }
        self
    }

    fn record(&self) -> DeploymentRecord {
        let leases = (1..=u32::from(self.leases)).map(|gseq| Lease {
            id: lease(gseq),
            state: LeaseState::Active,
            price: price(10),
            created_at: 1,
            closed_on: 0,
            reason: None,
            reclamation: None,
        });
        let funds = Dec::from_int(if self.empty { 5 } else { 1_000_000 });
        DeploymentRecord {
            deployment: Deployment {
                id: order_id().deployment().clone(),
                active: true,
                hash: [0; 32],
                created_at: 1,
                reclamation_min_window: None,
            },
            groups: Vec::new(),
            escrow: EscrowAccount {
                funds: [("uact".into(), funds)].into(),
                settled_at: self.clock.height,
            },
            leases: leases.collect(),
        }
    }

    fn completions(&self, all: &mut Vec<(String, Self)>) {
        let complete = |input: EscrowInput, cost: u8, change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            next.in_flight = None;
            next.budget -= cost;
            change(&mut next);
            next.feed(input)
        };
        let expires = self.clock.block_time.plus(EXPIRY);
        match self.in_flight {
            None => {}
            Some(InFlight::Check) => {
                let read = EscrowInput::Fetched(Ok(Some(self.record())));
                all.push(("money read".to_owned(), complete(read, 0, &|_| {})));
                if self.budget > 0 {
                    all.push((
                        "unreadable".to_owned(),
                        complete(EscrowInput::Fetched(Err(transient())), 1, &|_| {}),
                    ));
                    all.push((
                        "not found".to_owned(),
                        complete(EscrowInput::Fetched(Ok(None)), 1, &|_| {}),
                    ));
                }
            }
            Some(InFlight::Withdraw) => {
                let landed = EscrowInput::Tx(Ok(TxOutcome::Committed {
                    height: self.clock.height,
                }));
                let land = |world: &mut Self| {
                    if world.withdrawn_at == Some(world.clock.height) {
                        world.wrong = Some("never_two_withdrawals_of_a_deployment_in_a_block");
                    }
                    world.withdrawn_at = Some(world.clock.height);
                };
                all.push(("paid out".to_owned(), complete(landed, 0, &land)));
                if self.budget > 0 {
                    let unknown = || EscrowInput::Tx(Ok(TxOutcome::Unknown { expires }));
                    let fly = |world: &mut Self| world.flying = Some(expires);
                    all.push((
                        "outcome unknown, unconfirmed".to_owned(),
                        complete(unknown(), 1, &fly),
                    ));
                    all.push((
                        "not sent".to_owned(),
                        complete(EscrowInput::Tx(Err(transient())), 1, &|_| {}),
                    ));
                }
            }
        }
    }
}

impl World for EscrowWorld {
    fn successors(&self) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        if *self.machine.phase() == EscrowPhase::Done {
            return all;
        }
        self.completions(&mut all);
        if self.blocks > 0 {
            let mut next = self.clone();
            next.blocks -= 1;
            next.clock.height += 1;
            let due = next.machine.block_deadline(&next.clock.cx()).unwrap_or_default();
            next.clock.block_time = next.clock.block_time.plus(BLOCK).max(due);
            let now = next.clock.block_time;
            next.flying = next.flying.filter(|expires| *expires >= now);
            all.push(("block".to_owned(), next.feed(EscrowInput::Wake)));
        }
        if self.leases > 0 {
            let mut next = self.clone();
            let gone = lease(u32::from(self.leases));
            next.leases -= 1;
            all.push((
                "a lease ends".to_owned(),
                next.feed(EscrowInput::LeaseRemoved(gone)),
            ));
        }
        if !self.empty {
            all.push((
                "funds run out".to_owned(),
                Self {
                    empty: true,
                    ..self.clone()
                },
            ));
        }
        if self.clock.leader && self.budget > 0 {
            let mut next = self.clone();
            next.clock.leader = false;
            next.budget -= 1;
            all.push(("deposed".to_owned(), next.feed(EscrowInput::Wake)));
        } else if !self.clock.leader {
            let mut next = self.clone();
            next.clock.leader = true;
            all.push(("becomes leader again".to_owned(), next.feed(EscrowInput::Wake)));
        }
        all
    }

    fn violation(&self) -> Option<String> {
        if let Some(wrong) = self.wrong {
            return Some(wrong.to_owned());
        }
        let done = *self.machine.phase() == EscrowPhase::Done;
        if done && self.leases > 0 {
            return Some("the machine ended while a lease was live".to_owned());
        }
        let asleep = !done
            && self.in_flight.is_none()
            && self.clock.leader
            && self.machine.block_deadline(&self.clock.cx()).is_none();
        asleep.then(|| "the machine has no next check of the balance".to_owned())
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the stage `exploration` runs it optimised")]
fn explores_money_machine() {
    let stats = explore("escrow", EscrowWorld::start(2));
    assert!(stats.states > 1_000, "too few states explored: {stats:?}");
}
