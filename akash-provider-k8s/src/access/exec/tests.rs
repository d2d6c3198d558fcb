use super::*;
use serde_json::{Value, json};

fn status(value: Value) -> Result<i32, (ErrorKind, String)> {
    let status: Status = serde_json::from_value(value).unwrap();
    outcome(&status).map_err(|e| (e.kind(), e.to_string()))
}

fn failed(message: &str, code: &str) -> Value {
    json!({
        "status": "Failure", "reason": "NonZeroExitCode", "message": message,
        "details": {"causes": [{"reason": "ExitCode", "message": code}]},
    })
}

#[test]
fn returns_the_exit_code_of_the_command() {
    assert_eq!(status(json!({"status": "Success"})), Ok(0));
    for code in [1, 3, 126, 127, 137, 255] {
        let value = failed("command terminated with non-zero exit code", &code.to_string());
        assert_eq!(status(value), Ok(code));
    }
}

/// The Go provider returns exit code 0 for such a command.
#[test]
fn a_command_that_did_not_run_has_no_exit_code() {
    let unknown = "remote command execute error: command could not be executed because it does not exist";
    let missing = r#"OCI runtime exec failed: exec: "nosuch": executable file not found in $PATH: unknown"#;
    let cases = [
        (
            json!({"status": "Failure", "reason": "InternalError", "message": missing}),
            ErrorKind::Invalid,
            unknown,
        ),
        (failed(missing, "126"), ErrorKind::Invalid, unknown),
        (failed(missing, "0"), ErrorKind::Invalid, unknown),
        (
            json!({"status": "Failure", "message": "container not running"}),
            ErrorKind::Unavailable,
            "remote command execute error: command execution failed: container not running",
        ),
        (
            failed("odd", "0"),
            ErrorKind::Unavailable,
            "remote command execute error: command execution failed: odd",
        ),
        (
            failed("odd", "x"),
            ErrorKind::Unavailable,
            "remote command execute error: command execution failed: odd",
        ),
        (
            json!({}),
            ErrorKind::Unavailable,
            "remote command execute error: command execution failed",
        ),
    ];
    for (value, kind, text) in cases {
        assert_eq!(status(value.clone()), Err((kind, text.to_owned())), "{value}");
    }
}
