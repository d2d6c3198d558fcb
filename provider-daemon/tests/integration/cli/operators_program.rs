//! The program `provider-operators`.

use super::operator::{OperatorProcess, unavailable_cluster};
use super::{daemon, text};
use std::process::Command;

fn operators(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider-operators"));
    command.args(args);
    command
}

#[test]
fn operators_program_runs_an_operator_until_a_signal() {
    let kubeconfig = unavailable_cluster("operators-away.yaml");
    let operator = OperatorProcess::start_command(operators(&["hostname"]), &kubeconfig.path());
    operator.is_well();
    operator.awaits("/readyz", "initial list of providerhosts pending: ");
    operator.ends();
}

#[test]
fn operators_program_reports_errors_as_the_daemon_does() {
    for (args, variable, code) in [
        (&["hostname", "--zzz"][..], ("AP_REST_PORT", "0"), 2),
        (&["hostname"], ("AKASH_REST_PORT", "zzz"), 2),
        (&["hostname"], ("AP_LOG_LEVEL", "zzz=zzz"), 1),
        (&["ip", "forget", "zzz"], ("AP_REST_PORT", "0"), 2),
        (&["inventory", "--kubeconfig=/absent"], ("AP_REST_PORT", "0"), 1),
    ] {
        let outputs = [operators(args), daemon(&[&["operator"], args].concat())].map(|mut command| {
            let output = command.env(variable.0, variable.1).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
            text(&output.stderr).replace("provider-daemon operator ", "provider-operators ")
        });
        assert!(outputs[0].contains("error: "), "{outputs:?}");
        assert_eq!(outputs[0], outputs[1], "{args:?}");
    }
}
