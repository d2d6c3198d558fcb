use super::examples::EXAMPLES;
use super::with_examples;
use crate::args::{Cli, environment, run};
use clap::{Arg, Command, CommandFactory};

/// The command line as people see it, with nothing set.
fn tree() -> Command {
    let root = with_examples(run::for_a_real_chain(Cli::command()));
    let mut root = environment::read_in(root, true, |_| None);
    root.build();
    root
}

/// Every command that is shown, with its path.
fn each(command: &Command, path: &str, visit: &mut impl FnMut(&str, &Command)) {
    visit(path, command);
    let shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands().filter(shown) {
        let name = below.get_name();
        let path = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path} {name}")
        };
        each(below, &path, visit);
    }
}

fn is_leaf(command: &Command) -> bool {
    command.get_subcommands().all(|below| below.get_name() == "help")
}

fn words(text: Option<String>) -> usize {
    text.unwrap_or_default().split_whitespace().count()
}

fn shown_args(command: &Command) -> impl Iterator<Item = &Arg> {
    let own = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    command.get_arguments().filter(own)
}

#[test]
fn every_command_and_every_flag_is_described_in_a_sentence() {
    let mut short = Vec::new();
    each(&tree(), "", &mut |path, command| {
        if words(command.get_about().map(ToString::to_string)) < 4 {
            short.push(path.to_owned());
        }
        for arg in shown_args(command) {
            if words(arg.get_help().map(ToString::to_string)) < 4 {
                short.push(format!("{path}: {arg}"));
            }
        }
    });
    assert!(
        short.is_empty(),
        "described in less than four words:\n{}",
        short.join("\n")
    );
}

#[test]
fn every_command_has_examples_and_each_is_taken_as_it_stands() {
    let mut without = Vec::new();
    let mut paths = Vec::new();
    each(&tree(), "", &mut |path, command| {
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        if is_leaf(command) && !help.contains("provider-daemon ") {
            without.push(path.to_owned());
        }
        paths.push(path.to_owned());
    });
    assert!(without.is_empty(), "no example: {without:?}");
    for (path, lines) in EXAMPLES {
        assert!(paths.iter().any(|known| known == path), "no such command: {path}");
        for line in *lines {
            assert!(line.starts_with(path), "`{line}` is no example of `{path}`");
            let parsed = tree().try_get_matches_from(["provider-daemon"].into_iter().chain(line.split(' ')));
            if let Err(error) = parsed {
                panic!("`{line}`: {error}");
            }
        }
    }
}

#[test]
fn every_flag_that_a_variable_sets_says_which() {
    let mut seen = 0;
    each(&tree(), "", &mut |path, command| {
        let read = environment::COMMANDS
            .iter()
            .any(|name| path.split(' ').next() == Some(name));
        for arg in shown_args(command).filter(|arg| read && arg.get_long().is_some()) {
            let env = arg.get_env().map(|name| name.to_string_lossy().into_owned());
            let long = arg.get_long().unwrap_or_default();
            let wanted = format!("AP_{}", long.to_ascii_uppercase().replace(['-', '.'], "_"));
            assert_eq!(env.as_deref(), Some(wanted.as_str()), "{path}: {arg}");
            seen += 1;
        }
        // And it is in the text that is shown.
        if path == "query leases" {
            let help = command.clone().render_help().to_string();
            assert!(help.contains("[env: AP_NODE]"), "{help}");
        }
    });
    assert!(seen > 100, "{seen}");
}

#[test]
fn every_command_is_named_by_whom_it_is_for() {
    let root = tree();
    let groups = root.get_after_help().unwrap().to_string();
    let named: Vec<&str> = groups.split([' ', ',', '\n']).collect();
    for command in root.get_subcommands() {
        let name = command.get_name();
        let is_meta = ["help", "version", "completions"].contains(&name);
        assert!(is_meta || named.contains(&name), "{name}");
    }
}

#[test]
fn help_fits_a_terminal() {
    let help = tree().term_width(80).render_help().to_string();
    let long = help.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
}
