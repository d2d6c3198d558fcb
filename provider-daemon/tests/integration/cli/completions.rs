//! Shell completions in a real bash.

use crate::cli::{run, text};
use std::path::Path;
use std::process::Command;

/// Returns bash completions for the last argument, in the order in which bash lists them.
fn offered(args: &[&str]) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_provider-daemon")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let script = text(&run(&["completions", "bash"]).stdout);
    let asking = r#"
source "$1"; shift
function_name=$(complete -p provider-daemon | sed 's/.*-F \([^ ]*\).*/\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"$function_name" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;
    let file = crate::cli::Scratch::new(&format!("completions-{}.bash", args.join("-")), script.as_bytes());
    let output = Command::new("bash")
        .args(["-c", asking, "bash", &file.path(), "provider-daemon"])
        .args(args)
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_flags_at_every_level() {
    for (args, wanted) in [
        (vec![""], vec!["run", "query", "lease-status"]),
        (vec!["query", ""], vec!["provider", "market", "params"]),
        (vec!["query", "market", ""], vec!["order", "bid", "lease"]),
        (
            vec!["query", "market", "lease", "get", "--"],
            vec!["--dseq", "--provider", "--node"],
        ),
        (vec!["tx", "cert", "generate", "s"], vec!["server"]),
        (vec!["lease-status", "--"], vec!["--wait", "--dseq", "--provider"]),
        (vec!["breaker", "release", "--o"], vec!["--owner", "--output"]),
        (vec!["query", "leases", "--output", "j"], vec!["json"]),
        (vec!["q"], vec!["query"]),
        (
            vec!["run", "--bid-pr"],
            vec!["--bid-price-strategy", "--bid-price-cpu-scale"],
        ),
    ] {
        let offered = offered(&args);
        for expected in wanted {
            assert!(
                offered.iter().any(|o| o == expected),
                "{args:?}: no `{expected}` in {offered:?}"
            );
        }
    }
    // Arguments of other commands are not offered.
    let typed = offered(&["query", "market", "or"]);
    assert_eq!(typed, ["order"]);
    let all = offered(&["query", ""]);
    let first_flag = all.iter().position(|word| word.starts_with('-')).unwrap();
    let is_last = all[first_flag..].iter().all(|word| word.starts_with('-'));
    assert!(first_flag > 10 && is_last, "commands before flags: {all:?}");
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        let script = text(&output.stdout);
        assert!(
            output.status.success() && script.contains("provider-daemon"),
            "{shell}: {script}"
        );
        assert!(script.len() < 10_000, "{shell}: {} bytes", script.len());
    }
}
