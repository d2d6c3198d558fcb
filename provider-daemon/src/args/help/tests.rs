#[path = "../../../tests/common/snapshot.rs"]
mod snapshot;

use super::examples::sections;
use super::with_examples;
use crate::args::{Cli, environment};
use akash_provider_cli::setting::NoVariable;
use clap::{Arg, ArgAction, Command, CommandFactory};

/// Returns the command line with all visible options, without environment variables.
fn tree() -> Command {
    let mut root = Cli::documented();
    root.build();
    root
}

/// Calls `visit` for each visible command with its path.
fn each(command: &Command, path: &str, visit: &mut impl FnMut(&str, &Command)) {
    visit(path, command);
    let is_visible = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands().filter(is_visible) {
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

fn visible_args(command: &Command) -> impl Iterator<Item = &Arg> {
    let own = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    command.get_arguments().filter(own)
}

#[test]
fn describes_every_command_and_flag() {
    let mut short = Vec::new();
    each(&tree(), "", &mut |path, command| {
        if words(command.get_about().map(ToString::to_string)) < 4 {
            short.push(path.to_owned());
        }
        for arg in visible_args(command) {
            if words(arg.get_help().map(ToString::to_string)) < 4 {
                short.push(format!("{path}: {arg}"));
            }
        }
    });
    assert!(
        short.is_empty(),
        "help of less than four words:\n{}",
        short.join("\n")
    );
}

fn fault(text: &str) -> Option<&'static str> {
    const CHARS_MAX: usize = 120;
    if text.contains('\n') || text.contains(". ") {
        return Some("more than one line or sentence");
    }
    if text.ends_with('.') {
        return Some("full stop");
    }
    if text.chars().count() > CHARS_MAX {
        return Some("more than 120 characters");
    }
    let lower = |text: &str| text.starts_with(char::is_lowercase);
    (lower(text) && !text.starts_with("provider.yaml")).then_some("lower-case start")
}

#[test]
fn helps_are_single_lines_without_a_full_stop() {
    let mut faults = Vec::new();
    let mut root = with_examples(Cli::for_a_real_chain());
    root.build();
    each(&root, "", &mut |path, command| {
        let about = command.get_about().map(ToString::to_string);
        let mut texts = vec![(path.to_owned(), about.unwrap_or_default())];
        for arg in command.get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            texts.push((format!("{path}: {arg}"), help));
            let is_own = !["help", "version"].contains(&arg.get_id().as_str());
            assert!(!is_own || arg.get_long_help().is_none(), "{path}: {arg}");
            for value in arg.get_possible_values() {
                let help = value.get_help().map(ToString::to_string).unwrap_or_default();
                texts.push((format!("{path}: {arg}={}", value.get_name()), help));
            }
        }
        for (place, text) in texts {
            if let Some(fault) = fault(&text) {
                faults.push(format!("{place}: {fault}: {text}"));
            }
        }
    });
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn help_of_main_commands_matches_the_snapshots() {
    const PATHS: [&str; 11] = [
        "",
        "run",
        "dev",
        "devnet",
        "explain",
        "keys add",
        "query leases",
        "tx deployment create",
        "send-manifest",
        "lease-status",
        "operator hostname",
    ];
    let mut found = 0;
    each(&tree().term_width(100), "", &mut |path, command| {
        if PATHS.contains(&path) {
            found += 1;
            let name = if path.is_empty() { "provider-daemon" } else { path };
            let file = format!("help/{}.txt", name.replace(' ', "-"));
            snapshot::check(&file, &command.clone().term_width(100).render_help().to_string());
        }
    });
    assert_eq!(found, PATHS.len());
}

#[test]
fn has_valid_examples_for_every_command() {
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
    for (path, lines) in sections() {
        assert!(
            paths.iter().any(|existing| existing == path),
            "no such command: {path}"
        );
        for line in lines {
            assert!(line.starts_with(path), "`{line}`: not an example of `{path}`");
            let parsed = tree().try_get_matches_from(["provider-daemon"].into_iter().chain(line.split(' ')));
            if let Err(error) = parsed {
                panic!("`{line}`: {error}");
            }
        }
    }
}

#[test]
fn names_the_environment_variable_of_every_flag() {
    let mut seen = 0;
    each(&tree(), "", &mut |path, command| {
        let read = environment::COMMANDS
            .iter()
            .any(|name| path.split(' ').next() == Some(name));
        let is_read = |arg: &&Arg| read && arg.get_long().is_some() && arg.get::<NoVariable>().is_none();
        for arg in visible_args(command).filter(is_read) {
            let env = arg.get_env().map(|name| name.to_string_lossy().into_owned());
            let long = arg.get_long().unwrap_or_default();
            let wanted = format!("AP_{}", long.to_ascii_uppercase().replace(['-', '.'], "_"));
            assert_eq!(env.as_deref(), Some(wanted.as_str()), "{path}: {arg}");
            seen += 1;
        }
        // The variable is part of the help text.
        if path == "query leases" {
            let help = command.clone().render_help().to_string();
            assert!(help.contains("[env: AP_NODE, AKASH_NODE]"), "{help}");
        }
    });
    assert!(seen > 100, "{seen}");
}

/// Commands without `--output json`, and the reasons.
const WITHOUT_OUTPUT: [(&str, &str); 8] = [
    ("bus schema", "the result is a JSON Schema"),
    ("completions", "the result is a script"),
    ("config schema", "the result is a JSON Schema"),
    ("events", "the result is always lines of JSON"),
    ("lease-shell", "the output is that of the remote command"),
    ("man-pages", "the result is a folder of files"),
    ("operator inventory", "serves until it is stopped"),
    ("tools psutil serve", "serves until it is stopped"),
];

#[test]
fn every_command_with_a_result_can_print_it_as_json() {
    let mut without = Vec::new();
    each(&tree(), "", &mut |path, command| {
        let output = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some("output"));
        let prints_json = |output: &Arg| {
            let values = output.get_possible_values();
            output.get_short() == Some('o') && values.iter().any(|value| value.get_name() == "json")
        };
        if is_leaf(command) && !output.is_some_and(prints_json) {
            without.push(path.to_owned());
        }
    });
    without.sort();
    assert_eq!(without, WITHOUT_OUTPUT.map(|(path, _)| path));
}

#[test]
fn every_boolean_flag_takes_a_value() {
    let mut count = 0;
    each(&tree(), "", &mut |path, command| {
        for arg in visible_args(command) {
            let is_switch = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse);
            assert!(!is_switch, "{path}: {arg}");
            count += usize::from(arg.is_require_equals_set());
        }
    });
    assert!(count > 100, "{count}");
}

#[test]
fn lists_every_command_in_one_group() {
    let listed: Vec<&str> = super::GROUPS
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
        .collect();
    let root = tree();
    let commands = root
        .get_subcommands()
        .map(Command::get_name)
        .filter(|name| *name != "help");
    let (mut listed, mut commands) = (listed, commands.collect::<Vec<_>>());
    listed.sort_unstable();
    commands.sort_unstable();
    assert_eq!(listed, commands);
}

#[test]
fn wraps_the_help_at_the_terminal_width() {
    let root = tree();
    let template = super::grouped(&root, |list| list.term_width(80));
    let help = root
        .help_template(template)
        .term_width(80)
        .render_help()
        .to_string();
    let long = help.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
}

/// Returns true if `text` starts with a command of this program.
fn is_command(text: &str) -> bool {
    let mut command = Cli::command();
    for name in text
        .split(' ')
        .take_while(|name| name.starts_with(char::is_lowercase))
    {
        match command.find_subcommand(name) {
            Some(next) => command = next.clone(),
            // An argument, such as a file.
            None => return !command.has_subcommands(),
        }
    }
    true
}

#[test]
fn remedies_name_commands_of_this_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/operate/src/doctor");
    let mut found = 0;
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    for file in files.filter(|file| file.is_file()) {
        let text = std::fs::read_to_string(file).unwrap();
        for command in text.split("run `").skip(1) {
            let command = command.split('`').next().unwrap();
            let command = command.strip_prefix("provider-daemon ").unwrap_or(command);
            let is_other = ["kubectl", "ulimit", "timedatectl"]
                .iter()
                .any(|name| command.starts_with(name));
            assert!(is_other || is_command(command), "no command `{command}`");
            found += 1;
        }
    }
    assert!(found > 10, "{found}");
}
