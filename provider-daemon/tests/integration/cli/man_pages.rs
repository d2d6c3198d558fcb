//! Manual pages, formatted by `groff`.

use super::{assert_contains, run, text};
use std::process::Command;

#[test]
fn manual_pages_of_all_commands_are_formatted_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    let output = run(&["man-pages", &pages.to_string_lossy()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut names: Vec<_> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert!(names.len() > 100, "{names:?}");
    let page = std::fs::read_to_string(pages.join("provider-daemon-run.1")).unwrap();
    assert_contains(
        &page,
        &["AP_BID_PRICE_CPU_SCALE", "provider\\-daemon run \\-\\-from main"],
    );
    let mut groff = Command::new("groff");
    let formatted = groff
        .args(["-man", "-Tutf8", "-Kutf8", "-ww", "-Wbreak"])
        .args(names)
        .current_dir(&pages);
    match formatted.output() {
        Err(error) => println!("skipped: groff: {error}"),
        Ok(output) => {
            assert!(output.status.success());
            assert_eq!(text(&output.stderr), "");
            assert_contains(&text(&output.stdout), &["NAME", "provider-daemon-run"]);
        }
    }
}
