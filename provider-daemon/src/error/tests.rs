use super::*;
use anyhow::Context;
use std::path::{Path, PathBuf};

#[test]
fn prints_the_remedy_of_a_cause_after_all_causes() {
    let failed = Err::<(), _>(WithHelp::new("no certificate", "run `tx cert publish client`"));
    let error = failed.context("cannot query the status").unwrap_err();
    assert_eq!(
        error_text(&error),
        "error: cannot query the status: no certificate\nhelp: run `tx cert publish client`"
    );
    assert_eq!(error_text(&anyhow::anyhow!("no space")), "error: no space");
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// Returns the string literal at the start of `code`, with Rust line continuations removed.
fn literal(code: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = code.trim_start().strip_prefix('"')?.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Some(text),
            '\\' if chars.next_if_eq(&'\n').is_some() => {
                while chars.next_if(|c| c.is_whitespace()).is_some() {}
            }
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    None
}

/// Returns whether an error text starts with a capitalized word or ends with a full stop.
fn is_sentence(text: &str) -> bool {
    let mut start = text.chars();
    let is_capitalized =
        start.next().is_some_and(char::is_uppercase) && start.next().is_some_and(char::is_lowercase);
    let is_name = text.starts_with("Ledger ");
    (is_capitalized && !is_name) || (text.ends_with('.') && !text.ends_with(".."))
}

#[test]
fn errors_start_in_lower_case_and_have_no_full_stop() {
    // Opening parts of the code that creates an error; the literal follows.
    const STARTS: [&str; 10] = [
        "#[error(",
        "bail!(",
        "anyhow!(",
        ".context(",
        ".with_context(|| format!(",
        ".with_context(|| {\n        format!(",
        "WithHelp::new(",
        "WithHelp::new(\n        format!(",
        "Err(format!(",
        "ok_or_else(|| format!(",
    ];
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let (mut faults, mut found) = (Vec::new(), 0);
    for file in files {
        let code = std::fs::read_to_string(&file).unwrap();
        for start in STARTS {
            for (at, _) in code.match_indices(start) {
                let Some(text) = literal(&code[at + start.len()..]) else {
                    continue;
                };
                found += 1;
                if is_sentence(&text) {
                    faults.push(format!("{}: {text}", file.display()));
                }
            }
        }
    }
    assert!(found > 300, "{found}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for bad in ["Cannot open", "cannot open."] {
        assert!(is_sentence(bad), "{bad}");
    }
}
