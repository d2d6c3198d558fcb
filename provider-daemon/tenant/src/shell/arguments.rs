//! Arguments of a command.

use akash_provider_cli::error::WithHelp;
use anyhow::bail;

/// Splits a single argument at spaces outside double quotes. Returns several arguments unchanged.
///
/// # Errors
/// Returns an error for an unterminated quote or an empty argument.
pub(super) fn parse(given: &[String]) -> anyhow::Result<Vec<String>> {
    let arguments = match given {
        [one] => split(one)?,
        several => several.to_vec(),
    };
    if arguments.is_empty() {
        bail!(WithHelp::new(
            "the command is empty",
            "add the command to run, such as `-- sh`"
        ));
    }
    if arguments.iter().any(String::is_empty) {
        bail!(WithHelp::new(
            "an argument of the command is empty, which the protocol cannot transmit",
            "use `sh -c`"
        ));
    }
    Ok(arguments)
}

fn split(text: &str) -> anyhow::Result<Vec<String>> {
    let (mut arguments, mut argument, mut is_quoted) = (Vec::new(), None::<String>, false);
    for c in text.chars() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                // An empty pair of quotes is an empty argument.
                argument.get_or_insert_default();
            }
            ' ' if !is_quoted => arguments.extend(argument.take()),
            c => argument.get_or_insert_default().push(c),
        }
    }
    if is_quoted {
        bail!(WithHelp::new(
            format!("unterminated quote in `{text}`"),
            "add the closing quote"
        ));
    }
    arguments.extend(argument);
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(given: &[&str]) -> anyhow::Result<Vec<String>> {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        parse(&given)
    }

    #[test]
    fn splits_a_single_argument_outside_of_quotes() {
        assert_eq!(arguments(&["ls  -la /tmp"]).unwrap(), ["ls", "-la", "/tmp"]);
        assert_eq!(
            arguments(&["sh -c \"echo a b\" x\"y z\""]).unwrap(),
            ["sh", "-c", "echo a b", "xy z"]
        );
        assert_eq!(
            arguments(&["echo", "a b", "\"c\""]).unwrap(),
            ["echo", "a b", "\"c\""]
        );
    }

    #[test]
    fn rejects_arguments_that_the_protocol_cannot_transmit() {
        for bad in [&["  "][..], &["echo \"a"], &["echo", ""], &["echo \"\""], &[""]] {
            assert!(arguments(bad).is_err(), "{bad:?}");
        }
    }
}
