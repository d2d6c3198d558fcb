//! Tests of the election state machine, by subject. All times are virtual.

mod one_leader;
mod records;
mod settings;
mod takeover;
mod terms;

use super::*;

fn contestant(identity: &str) -> Contest {
    let me = Candidate {
        identity: identity.to_owned(),
        ..Candidate::default()
    };
    Contest::new(me, String::new(), Timing::default())
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn there(holder: Option<&str>, term: u64, sign: &str) -> Stored {
    let record = ElectionRecord {
        holder: holder.map(str::to_owned),
        lease: Duration::from_secs(15),
        term,
        sign: sign.to_owned(),
        payload: RecordPayload::default(),
    };
    Stored {
        record,
        version: format!("v{sign}"),
    }
}
