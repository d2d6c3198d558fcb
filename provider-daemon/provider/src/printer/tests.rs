use super::*;
use akash_provider_core::types::OrderId;

const OWNER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

fn lease(dseq: u64) -> LeaseId {
    format!("{OWNER}/{dseq}/1/1/{OWNER}").parse().unwrap()
}

fn order(dseq: u64) -> OrderId {
    lease(dseq).order
}

/// Prints the order and the healthy state of a lease.
fn begin(printer: &Printer, dseq: u64) {
    printer.event(&Event::OrderSeen { order: order(dseq) });
    printer.event(&Event::HealthChanged {
        lease: lease(dseq),
        health: Health::Good,
    });
}

fn lengths(printer: &Printer) -> (usize, usize) {
    (
        printer.names.lock().unwrap().len(),
        printer.settled.lock().unwrap().len(),
    )
}

#[test]
fn removes_closed_leases_from_the_printer() {
    let printer = Printer::with_wall_clock(Output::Text);
    for dseq in 0..200 {
        begin(&printer, dseq);
    }
    assert_eq!(lengths(&printer), (200, 200));
    for dseq in 0..199 {
        let (lease, reason) = (lease(dseq), None);
        printer.event(&Event::LeaseClosed { lease, reason });
    }
    assert_eq!(lengths(&printer), (1, 1));
    let health = Health::Bad;
    let bad = |dseq| Event::HealthChanged {
        lease: lease(dseq),
        health,
    };
    assert!(printer.is_printed(&bad(199)), "the lease was healthy");
    assert!(!printer.is_printed(&bad(199)), "once");
    assert!(!printer.is_printed(&bad(0)), "the lease is closed");
}

#[test]
fn prints_events_beyond_the_number_of_stored_leases() {
    let printer = Printer::with_wall_clock(Output::Json);
    let healthy = |dseq| Event::HealthChanged {
        lease: lease(dseq),
        health: Health::Good,
    };
    let most = u64::try_from(SETTLED_MAX).unwrap();
    for dseq in 0..most + 5 {
        printer.is_printed(&healthy(dseq));
    }
    assert_eq!(lengths(&printer).1, SETTLED_MAX);
    let health = Health::Bad;
    let lease = lease(most + 1);
    assert!(printer.is_printed(&Event::HealthChanged { lease, health }));
}
