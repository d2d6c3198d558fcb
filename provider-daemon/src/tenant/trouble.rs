//! What may go wrong between a tenant and a provider: what, where, and the mend.

use super::auth::Means;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The code of a close frame that says that what was shown holds no more.
const OVER: u16 = 1008;

/// What went wrong between a tenant and a provider; the text says where, and what can be done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// No connection, or nothing behind it that speaks TLS 1.3.
    #[error("{at} cannot be reached: {why}; is the provider up, and the address the one it registered?")]
    Unreachable { at: String, why: String },
    /// Somebody is there, and it is not shown that it is the provider.
    #[error("{at} does not show that it is the provider: {why}")]
    Stranger { at: String, why: String },
    /// The chain cannot be asked whether it is the provider.
    #[error("the chain cannot be asked about the certificate of {at}; name another node with --node")]
    Chain {
        at: String,
        #[source]
        source: akash_provider_core::Error,
    },
    /// The provider answers, and not with what was asked for.
    #[error("{0}")]
    Answer(Answered),
    /// It takes too long.
    #[error("{at} does not answer within {}; try again, or ask the provider", humantime::format_duration(*.limit))]
    Slow { at: String, limit: Duration },
    /// The connection ended in the middle.
    #[error("{at} broke off: {why}{}", mend_of_cut(*.means))]
    Cut { at: String, why: String, means: Means },
    /// The answer is nothing that a provider says.
    #[error("{at} answers what no provider says: {why}")]
    Strange { at: String, why: String },
    /// A stream was ended with a reason.
    #[error("{at} ended the stream: {}", why_ended(*.code, .reason))]
    Ended { at: String, code: u16, reason: String },
}

/// What can be hoped for after a trouble with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hope {
    /// The token has come to its end: a new one does.
    NewToken,
    /// Whoever is away, or in trouble, comes back.
    Return,
    /// It may be so for a moment only: the provider does not know of the lease yet, or its pods are replaced.
    Moment,
    /// It stays as it is.
    None,
}

impl Trouble {
    /// Whether a stream can go on after this.
    pub(super) const fn hope(&self, means: Means) -> Hope {
        match self {
            Self::Unreachable { .. } | Self::Chain { .. } | Self::Slow { .. } | Self::Cut { .. } => {
                Hope::Return
            }
            Self::Answer(answered) => match answered.status {
                429 | 500.. => Hope::Return,
                // A provider that has just started, or does not know a new lease yet, says no at first.
                401 | 403 | 404 => Hope::Moment,
                _ => Hope::None,
            },
            Self::Ended { code, .. } => match (*code, means) {
                (OVER, Means::Token) => Hope::NewToken,
                (OVER, Means::Certificate | Means::Nothing) => Hope::None,
                (4000 | 4001, _) => Hope::Moment,
                _ => Hope::Return,
            },
            Self::Stranger { .. } | Self::Strange { .. } => Hope::None,
        }
    }

    /// The provider's own words.
    pub(super) fn words(&self) -> Option<&str> {
        match self {
            Self::Answer(answered) => Some(answered.text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// The status of an answer.
    pub(super) const fn status(&self) -> Option<u16> {
        match self {
            Self::Answer(answered) => Some(answered.status),
            _ => None,
        }
    }
}

/// An answer that is a no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) at: String,
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) means: Means,
}

impl Answered {
    fn mend(&self) -> &'static str {
        match (self.status, self.means) {
            (400, Means::Token) => {
                "the request or the token makes no sense to it; tokens need clocks that agree, look at yours"
            }
            (401 | 403, Means::Token) => {
                "it does not let this account in: the lease must be yours, your clock right, and the chain must know \
                 your key, which it does since your first transaction"
            }
            (401 | 403, Means::Certificate) => {
                "it does not let this certificate in: the lease must be yours, and the certificate on the chain and \
                 not revoked (`query cert list --owner ADDRESS`)"
            }
            (404, _) => {
                "there is no such lease, or service, or it has no manifest yet: `send-manifest` sends one, and a new \
                 lease takes a block or two to be known"
            }
            (422, _) => {
                "it does not take this; where it is no fault of the SDL, the manifest must be that of the deployment on \
                 the chain, which an update of the deployment changes"
            }
            (429, _) => "it was asked too often; wait a minute",
            (500.., _) => "it is in trouble itself; try again, or ask the provider",
            _ => "it does not take this",
        }
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answers {}", self.at, self.status)?;
        let text = shortened(self.text.trim());
        if !text.is_empty() {
            write!(f, " ({text})")?;
        }
        write!(f, ": {}", self.mend())
    }
}

/// What the code of a close frame means, and the provider's own words.
fn why_ended(code: u16, reason: &str) -> String {
    let why = match code {
        1001 => "it stops",
        OVER => "your token or certificate holds no more",
        4001 => "there is no such lease or service, or nothing of it runs",
        4002 => "its cluster cannot be asked; try again",
        _ => "it failed",
    };
    match reason {
        "" => format!("{why} (code {code})"),
        reason => format!("{why} (code {code}, {})", shortened(reason)),
    }
}

/// A text of somebody else, on one line, without what would move a terminal's cursor.
pub(super) fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 500;
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = plain.clone().take(CHARS_MAX).collect();
    if plain.count() > CHARS_MAX {
        short.push('…');
    }
    short
}

/// A text for people, with each hash of 32 bytes in it cut: 12 characters tell two apart.
pub(super) fn with_short_hashes(text: &str) -> String {
    const DIGITS: usize = 64;
    const SHOWN: usize = 12;
    let mut short = String::with_capacity(text.len());
    let is_of_word = |c: char| c.is_ascii_alphanumeric();
    for part in text.split_inclusive(|c| !is_of_word(c)) {
        let word = part.trim_end_matches(|c| !is_of_word(c));
        let is_hash = word.len() == DIGITS && word.bytes().all(|b| b.is_ascii_hexdigit());
        match (is_hash, part.get(..SHOWN), part.get(word.len()..)) {
            (true, Some(begin), Some(after)) => short.extend([begin, after]),
            _ => short.push_str(part),
        }
    }
    short
}

/// An error with its causes.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        // Some errors have their cause in their own text already.
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}

/// A provider that does not like a certificate ends the connection without a word.
const fn mend_of_cut(means: Means) -> &'static str {
    match means {
        Means::Certificate => {
            "; is your certificate on the chain, and not revoked? (`query cert list --owner ADDRESS`)"
        }
        Means::Token | Means::Nothing => "; try again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, text: &str, means: Means) -> String {
        let at = "https://p.example".to_owned();
        Trouble::Answer(Answered {
            at,
            status,
            text: text.to_owned(),
            means,
        })
        .to_string()
    }

    #[test]
    fn a_no_names_who_says_it_its_words_and_the_mend() {
        let text = answered(401, "{\"message\":\"unauthorized access\"}", Means::Token);
        assert!(
            text.starts_with("https://p.example answers 401 ({\"message\""),
            "{text}"
        );
        assert!(text.contains("your clock"), "{text}");
        let text = answered(401, "", Means::Certificate);
        assert!(
            text.contains("answers 401: ") && text.contains("not revoked"),
            "{text}"
        );
        assert!(answered(404, "", Means::Token).contains("no such lease"));
        assert!(answered(422, "x", Means::Token).contains("deployment on the chain"));
        assert!(answered(503, "x", Means::Token).contains("in trouble itself"));
    }

    #[test]
    fn a_stream_goes_on_after_what_passes_and_after_nothing_else() {
        let at = || "https://p.example".to_owned();
        let ended = |code, means| {
            let reason = String::new();
            Trouble::Ended {
                at: at(),
                code,
                reason,
            }
            .hope(means)
        };
        assert_eq!(ended(1008, Means::Token), Hope::NewToken);
        assert_eq!(ended(1008, Means::Certificate), Hope::None);
        for code in [1001, 1006, 1011, 1012, 1013, 4002] {
            assert_eq!(ended(code, Means::Token), Hope::Return, "{code}");
        }
        assert_eq!(ended(4000, Means::Token), Hope::Moment);
        assert_eq!(ended(4001, Means::Token), Hope::Moment);
        let answered = |status| {
            let (text, means) = (String::new(), Means::Token);
            let answered = Answered {
                at: at(),
                status,
                text,
                means,
            };
            Trouble::Answer(answered).hope(means)
        };
        assert_eq!([429, 500, 503].map(answered), [Hope::Return; 3]);
        assert_eq!([401, 404].map(answered), [Hope::Moment; 2]);
        assert_eq!([400, 422].map(answered), [Hope::None; 2]);
        let why = || "x".to_owned();
        assert_eq!(
            Trouble::Unreachable { at: at(), why: why() }.hope(Means::Token),
            Hope::Return
        );
        assert_eq!(
            Trouble::Stranger { at: at(), why: why() }.hope(Means::Token),
            Hope::None
        );
    }

    #[test]
    fn a_hash_is_short_and_nothing_else_is() {
        let hash = "0123456789abcdef".repeat(4);
        assert_eq!(
            with_short_hashes(&format!(
                "the chain has {hash}, this is ({})\n",
                hash.to_uppercase()
            )),
            "the chain has 0123456789ab, this is (0123456789AB)\n"
        );
        assert_eq!(with_short_hashes(&hash), "0123456789ab");
        for text in [
            &format!("{hash}0 is longer"),
            &hash[1..],
            &format!("x{}", &hash[1..]),
            "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm ü…",
            "",
        ] {
            assert_eq!(with_short_hashes(text), text);
        }
    }

    #[test]
    fn words_of_others_move_no_cursor_and_are_not_endless() {
        let text = answered(
            500,
            &format!("\u{1b}[2Jboo\n{}", "x".repeat(5000)),
            Means::Nothing,
        );
        assert!(text.contains(" [2Jboo ") && text.len() < 700, "{text}");
    }
}
