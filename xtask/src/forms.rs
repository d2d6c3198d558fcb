//! Short forms of campaigns and benches. The test command runs them, so that a broken long form is noticed.

/// Short form of a campaign or a bench, which the test command runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SmallForm {
    /// Names of tests that are not ignored.
    Tests(&'static [&'static str]),
    /// Benches by package and name, built without optimization. Benches with `test = true` run with the
    /// tests, other benches with a tier.
    Benches(&'static [(&'static str, &'static str)]),
    /// Benches and tests. The tests measure figures that the benches do not measure.
    Both(&'static [(&'static str, &'static str)], &'static [&'static str]),
    /// Stage of the test command, such as the simulation.
    Stage(&'static str),
}

impl SmallForm {
    const fn tests(self) -> &'static [&'static str] {
        match self {
            Self::Tests(tests) | Self::Both(_, tests) => tests,
            Self::Benches(_) | Self::Stage(_) => &[],
        }
    }

    const fn benches(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Benches(benches) | Self::Both(benches, _) => benches,
            Self::Tests(_) | Self::Stage(_) => &[],
        }
    }
}

mod tests {
    use super::*;
    use crate::workspace::{Workspace, read};
    use crate::{bench, campaign};

    /// Returns true if a Rust file contains this test without `#[ignore]`.
    fn runs(sources: &[String], test: &str) -> bool {
        let named = format!("fn {test}(");
        sources.iter().any(|source| {
            let before = source.split_once(&named).map(|(before, _)| before);
            let attributes = before.and_then(|before| before.rsplit("\n\n").next());
            let is_test = |text: &str| text.contains("#[test]") || text.contains("#[tokio::test");
            attributes.is_some_and(|text| is_test(text) && !text.contains("#[ignore"))
        })
    }

    fn faults(name: &str, form: SmallForm, sources: &[String], workspace: &Workspace) -> Vec<String> {
        let mut faults = Vec::new();
        for test in form.tests() {
            if !runs(sources, test) {
                faults.push(format!("{name}: the test command does not run `{test}`"));
            }
        }
        for (package, bench) in form.benches() {
            let member = workspace.members().find(|member| member.name == *package);
            let manifest = member.map(|member| read(&member.manifest_path).unwrap());
            let table = manifest.and_then(|text| {
                let tables = text.split("[[bench]]").skip(1).map(str::to_owned);
                tables
                    .into_iter()
                    .find(|table| table.contains(&format!("name = \"{bench}\"")))
            });
            let is_test =
                table.is_some_and(|table| table.split("\n[").next().unwrap().contains("test = true"));
            let is_of_a_tier = include_str!("tiers.rs").contains(&format!("\"--bench={bench}\""));
            if !is_test && !is_of_a_tier {
                faults.push(format!(
                    "{name}: the bench {bench} of {package} lacks `test = true`"
                ));
            }
        }
        if let SmallForm::Stage(stage) = form
            && !include_str!("test.rs").contains(&format!("\"{stage}\""))
        {
            faults.push(format!("{name}: the test command has no stage `{stage}`"));
        }
        faults
    }

    #[test]
    fn every_campaign_and_bench_has_a_small_form_that_the_test_command_runs_and_the_documents_name() {
        let workspace = Workspace::load().unwrap();
        let files = workspace.files("rs").unwrap();
        let sources: Vec<String> = files.iter().map(|file| read(file).unwrap()).collect();
        let documents = read(&workspace.root.join("docs/testing.md")).unwrap();
        let all: Vec<(String, SmallForm)> = campaign::small_forms().chain(bench::small_forms()).collect();
        assert!(all.len() > 15, "{all:?}");
        let mut found = Vec::new();
        for (name, form) in &all {
            found.extend(faults(name, *form, &sources, &workspace));
            let row = documents
                .lines()
                .find(|line| line.starts_with(&format!("| `{name}` |")));
            let tests = form.tests().iter().copied();
            let parts = tests.chain(form.benches().iter().map(|(_, bench)| *bench));
            for part in parts {
                if !row.is_some_and(|row| row.contains(&format!("`{part}`"))) {
                    found.push(format!(
                        "docs/testing.md: the row of `{name}` does not name `{part}`"
                    ));
                }
            }
            if row.is_none() {
                found.push(format!("docs/testing.md: no row for `{name}`"));
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn an_ignored_or_missing_test_is_no_small_form() {
        let source =
            "#[test]\nfn runs() {}\n\n#[test]\n#[ignore = \"long\"]\nfn waits() {}\n\nfn helps() {}\n";
        let sources = [source.to_owned()];
        assert!(runs(&sources, "runs"));
        for other in ["waits", "helps", "missing"] {
            assert!(!runs(&sources, other), "{other}");
        }
    }
}
