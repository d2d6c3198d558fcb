use super::*;
use proptest::prelude::*;

fn stamp(second: u8, text: &str) -> String {
    format!("2026-11-21T10:20:{second:02}.000000001Z {text}\n")
}

fn read(lines: &mut LogParser, bytes: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    lines.push(bytes, &mut out);
    out
}

#[test]
fn removes_timestamps_and_line_ends() {
    let cases: [(&[u8], &[&str]); 6] = [
        (b"2026-11-21T10:20:49.740433123Z hello\n", &["hello"]),
        (
            b"2026-11-21T10:20:49Z a b\r\n2026-11-21T10:20:49Z \n",
            &["a b", ""],
        ),
        (b"2026-11-21T10:20:49.5+02:00 zone\n", &["zone"]),
        (
            b"unable to retrieve container logs\n",
            &["unable to retrieve container logs"],
        ),
        (b"2026-11-21T10:20:49Z \xff\xfe!\n", &["\u{fffd}\u{fffd}!"]),
        (b"\n", &[""]),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(read(&mut LogParser::new(1024), bytes), wanted, "{bytes:?}");
    }
}

#[test]
fn the_last_line_needs_no_newline() {
    let mut lines = LogParser::new(1024);
    assert_eq!(read(&mut lines, b"2026-11-21T10:20:49Z no end"), [] as [&str; 0]);
    let mut out = Vec::new();
    lines.end(&mut out);
    lines.end(&mut out);
    assert_eq!(out, ["no end"]);
}

#[test]
fn splits_lines_longer_than_the_limit() {
    for (length, pieces) in [
        (0, vec![0]),
        (99, vec![99]),
        (100, vec![100]),
        (101, vec![100, 1]),
        (250, vec![100, 100, 50]),
    ] {
        let mut lines = LogParser::new(100);
        let found = read(&mut lines, stamp(1, &"x".repeat(length)).as_bytes());
        let lengths: Vec<_> = found.iter().map(String::len).collect();
        assert_eq!(lengths, pieces, "{length}");
    }
    let mut lines = LogParser::new(100);
    let found = read(&mut lines, stamp(1, &"é".repeat(75)).as_bytes());
    assert_eq!(found.concat(), "é".repeat(75), "no character is split");
    let mut bytes = b"2026-11-21T10:20:49Z ".to_vec();
    bytes.extend([0x80; 1000]);
    bytes.push(b'\n');
    let found = read(&mut LogParser::new(100), &bytes);
    assert_eq!(
        found.concat().chars().count(),
        1000,
        "bytes that are not UTF-8 are not lost"
    );
}

#[test]
fn a_long_line_is_returned_before_its_end() {
    let mut lines = LogParser::new(100);
    let head = b"2026-11-21T10:20:49Z ";
    read(&mut lines, head);
    let mut given = 0;
    for _ in 0..100 {
        given += read(&mut lines, &[b'x'; 1000]).concat().len();
        assert!(lines.buffer.len() <= 100 + STAMP_MAX, "{}", lines.buffer.len());
    }
    assert!(given > 99_000);
}

#[test]
fn since_is_the_second_of_the_last_line() {
    let mut lines = LogParser::new(100);
    assert_eq!(lines.since(), None);
    read(&mut lines, b"2026-11-21T10:20:07.999999999Z a\n");
    assert_eq!(lines.since().unwrap().to_string(), "2026-11-21T10:20:07Z");
}

/// Generates a log with equal timestamps, empty lines and long lines.
fn log() -> impl Strategy<Value = Vec<(u8, String)>> {
    let text = prop_oneof![
        4 => "[a-zé]{0,12}".prop_map(String::from),
        1 => "[a-zé]{30,80}".prop_map(String::from),
    ];
    let line = (0..3_u8, text);
    proptest::collection::vec(line, 0..20).prop_map(|lines| {
        let mut second = 0;
        let timed = lines.into_iter().map(|(later, text)| {
            second += later;
            (second, text)
        });
        timed.collect()
    })
}

proptest! {
    /// Each line is returned exactly once, wherever the stream is split or the connection breaks.
    #[test]
    fn nothing_is_lost_or_doubled_over_cuts(log in log(), cuts in proptest::collection::vec(0..2000_usize, 0..6), step in 1..40_usize) {
        let mut lines = LogParser::new(16);
        let mut found = Vec::new();
        let whole = |since: Option<Timestamp>| -> Vec<u8> {
            let from = since.map_or(i64::MIN, Timestamp::as_second);
            let text = |(second, text): &(u8, String)| stamp(*second, text);
            let later = log.iter().filter(|(second, _)| {
                let time: Timestamp = stamp(*second, "").split(' ').next().unwrap().parse().unwrap();
                time.as_second() >= from
            });
            later.map(text).collect::<String>().into_bytes()
        };
        for cut in &cuts {
            let bytes = whole(lines.since());
            let end = (*cut).min(bytes.len());
            for chunk in bytes[..end].chunks(step) {
                lines.push(chunk, &mut found);
            }
            lines.cut();
        }
        for chunk in whole(lines.since()).chunks(step) {
            lines.push(chunk, &mut found);
        }
        lines.end(&mut found);
        let mut plain = LogParser::new(16);
        let mut wanted = Vec::new();
        plain.push(&whole(None), &mut wanted);
        // Pieces may be split at other positions; the text is the same.
        prop_assert_eq!(found.concat(), wanted.concat());
        let short = |lines: &[String]| lines.iter().filter(|l| l.is_empty()).count();
        prop_assert_eq!(short(&found), short(&wanted));
    }
}

#[test]
fn errors_of_the_node_are_dropped_after_lines_of_the_container() {
    let mut lines = LogParser::new(100);
    let mut out = Vec::new();
    lines.push(b"2026-01-01T00:00:00.000000001Z one\n", &mut out);
    lines.push(
        b"unable to retrieve container logs for containerd://abc",
        &mut out,
    );
    lines.end(&mut out);
    assert_eq!(out, ["one"]);
}
