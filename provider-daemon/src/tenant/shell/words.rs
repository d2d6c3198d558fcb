//! The words of a command.

use anyhow::bail;

/// Several words as they are; one alone is split at its spaces, but not within double quotes.
///
/// # Errors
/// A quote has no end, or a word is empty, which providers cannot be told.
pub(super) fn of(given: &[String]) -> anyhow::Result<Vec<String>> {
    let words = match given {
        [one] => split(one)?,
        several => several.to_vec(),
    };
    if words.is_empty() {
        bail!("the command is empty");
    }
    if words.iter().any(String::is_empty) {
        bail!(
            "a word of the command is empty, and for providers the command ends there: give it within `sh -c`"
        );
    }
    Ok(words)
}

fn split(text: &str) -> anyhow::Result<Vec<String>> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for c in text.chars() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                // Also for two quotes with nothing between: that is a word, though an empty one.
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    if is_quoted {
        bail!("a quote in `{text}` has no end");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(given: &[&str]) -> anyhow::Result<Vec<String>> {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        of(&given)
    }

    #[test]
    fn one_word_is_split_outside_of_quotes_and_several_are_not() {
        assert_eq!(words(&["ls  -la /tmp"]).unwrap(), ["ls", "-la", "/tmp"]);
        assert_eq!(
            words(&["sh -c \"echo a b\" x\"y z\""]).unwrap(),
            ["sh", "-c", "echo a b", "xy z"]
        );
        assert_eq!(
            words(&["echo", "a b", "\"c\""]).unwrap(),
            ["echo", "a b", "\"c\""]
        );
    }

    #[test]
    fn what_a_provider_cannot_be_told_is_refused() {
        for bad in [&["  "][..], &["echo \"a"], &["echo", ""], &["echo \"\""], &[""]] {
            assert!(words(bad).is_err(), "{bad:?}");
        }
    }
}
