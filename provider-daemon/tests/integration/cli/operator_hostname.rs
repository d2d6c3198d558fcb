//! `operator hostname` as a process while its cluster is unavailable.

use super::operator::{OperatorProcess, unavailable_cluster};

#[test]
fn hostname_operator_reports_unavailable_cluster_and_stops_cleanly() {
    let kubeconfig = unavailable_cluster("away.yaml");
    let operator = OperatorProcess::start(&["hostname"], &kubeconfig);
    operator.is_well();
    operator.awaits("/readyz", "initial list of providerhosts pending: ");
    operator.ends();
}
