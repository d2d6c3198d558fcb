//! `operator hostname` as a process, while its cluster is away.

use super::operator::{Serving, away};

#[test]
fn an_operator_whose_cluster_is_away_runs_says_so_and_ends_in_order() {
    let kubeconfig = away("away.yaml");
    let operator = Serving::start(&["hostname"], &kubeconfig);
    operator.is_well();
    operator.awaits("/readyz", "initial list of providerhosts pending: ");
    operator.ends();
}
