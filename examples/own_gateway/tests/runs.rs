//! The program as it is started: it asserts what it shows, and says what to paste.

use std::process::Command;

#[test]
fn its_tenant_is_served_and_it_ends_by_itself() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-own-gateway"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("curl -sk https://127.0.0.1:"), "{said}");
    assert!(said.contains("the provider has stopped"), "{said}");
}
