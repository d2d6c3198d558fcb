use std::path::{Path, PathBuf};

/// Folders of the program's sources, relative to the package.
const FOLDERS: [&str; 6] = [
    "src",
    "cli/src",
    "dev/src",
    "operate/src",
    "provider/src",
    "tenant/src",
];

/// Returns the Rust files of the program.
fn all_sources() -> Vec<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&package.join(folder), &mut files);
    }
    files
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

/// Returns the string literal at the start of `code`, or the first argument of a `format!` at the start.
/// Removes line continuations.
fn literal(code: &str) -> Option<String> {
    let mut text = String::new();
    let code = code.trim_start();
    let code = code.strip_prefix("format!(").unwrap_or(code);
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

/// Returns true for a text with a capitalized first word or a full stop at the end.
fn is_sentence(text: &str) -> bool {
    let mut start = text.chars();
    let is_capitalized =
        start.next().is_some_and(char::is_uppercase) && start.next().is_some_and(char::is_lowercase);
    let is_name = text.starts_with("Ledger ");
    (is_capitalized && !is_name) || (text.ends_with('.') && !text.ends_with(".."))
}

/// Returns true if the offset `at` is in production code: not in a comment, and not in tests.
fn builds_an_error(code: &str, at: usize) -> bool {
    let tests = code.find("#[cfg(test)]").unwrap_or(code.len());
    let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
    at < tests && !code[line..at].trim_start().starts_with("//")
}

#[test]
fn every_error_has_a_remedy() {
    // Errors without a remedy: the user cannot act, or the text is not printed as an error.
    const WITHOUT: [&str; 9] = [
        "cannot print field {}: its value is a nested list or map",
        "cannot stop the simulated chain",
        "cannot store the address of the gateway in the provider record of the dev chain",
        "cannot publish the certificate of the gateway on the dev chain",
        "cannot register the provider",
        // Outcomes of simulated tenants.
        "declined ({}): {}",
        "no bid on the order within",
        "the dev chain rejected the {what}",
        "{what} after {}",
    ];
    let files = all_sources();
    let (mut faults, mut used) = (Vec::new(), [false; WITHOUT.len()]);
    for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
        let code = std::fs::read_to_string(file).unwrap();
        for start in ["bail!(", "anyhow!(", "ensure!("] {
            for (at, _) in code.match_indices(start) {
                let Some(text) = literal(&code[at + start.len()..]) else {
                    continue;
                };
                let is_listed = |listed: &&str| text.starts_with(listed);
                match WITHOUT.iter().position(is_listed) {
                    Some(at) => used[at] = true,
                    None if builds_an_error(&code, at) => faults.push(format!("{}: {text}", file.display())),
                    None => {}
                }
            }
        }
    }
    assert!(faults.is_empty(), "use `WithHelp`:\n{}", faults.join("\n"));
    assert!(used.iter().all(|used| *used), "{used:?}");
}

#[test]
fn errors_start_in_lower_case_and_have_no_full_stop() {
    // Opening parts of the code that creates an error; the literal follows.
    const STARTS: [&str; 9] = [
        "#[error(",
        "bail!(",
        "anyhow!(",
        ".context(",
        ".with_context(|| format!(",
        ".with_context(|| {\n        format!(",
        "WithHelp::new(",
        "Err(format!(",
        "ok_or_else(|| format!(",
    ];
    let (mut faults, mut found) = (Vec::new(), 0);
    for file in all_sources() {
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
