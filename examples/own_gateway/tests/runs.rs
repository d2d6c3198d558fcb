//! Runs the example program and checks its output.

use std::process::Command;

#[test]
fn tenant_is_served_and_program_ends() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-own-gateway"))
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{errors}");
    assert!(stdout.contains("curl -sk https://127.0.0.1:"), "{stdout}");
    assert!(stdout.contains("the provider has stopped"), "{stdout}");
}
