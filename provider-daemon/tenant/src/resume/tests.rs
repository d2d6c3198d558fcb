use super::*;

fn line(pod: &str, message: &str) -> Json {
    let text = |text: &str| Json::Text(text.to_owned());
    Json::Null.with("name", text(pod)).with("message", text(message))
}

fn words(new_messages: &NewMessages) -> Vec<&str> {
    let messages = new_messages.messages.iter();
    messages
        .map(|m| m.field("message").unwrap().text().unwrap())
        .collect()
}

/// Adds log lines of one pod to the history. Returns the printed lines.
fn come(printed: &mut PrintedMessages, now: Instant, lines: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for text in lines {
        let new_messages = printed.add(line("web-1", text), now);
        all.extend(words(&new_messages).into_iter().map(str::to_owned));
    }
    all
}

/// Receives the lines `before`, reconnects, and receives the lines `replay`. Returns the printed lines of
/// `replay`.
fn after(before: &[&str], replay: &[&str], from_start: bool) -> Vec<String> {
    let now = Instant::now();
    let mut printed = PrintedMessages::lines(from_start);
    assert_eq!(
        come(&mut printed, now, before),
        before,
        "lines are not buffered before an interruption"
    );
    printed.reopen();
    assert!(
        come(&mut printed, now, replay).is_empty(),
        "lines are buffered until the new part is known"
    );
    let due = printed.next_flush().unwrap();
    assert!(
        printed
            .flush_due(due - Duration::from_millis(1))
            .messages
            .is_empty()
    );
    let new_messages = printed.flush_due(due);
    assert_eq!(
        come(&mut printed, due, &["live"]),
        ["live"],
        "later lines are not buffered"
    );
    words(&new_messages).into_iter().map(str::to_owned).collect()
}

#[test]
fn prints_each_line_once() {
    assert_eq!(after(&["1", "2", "3"], &["1", "2", "3", "4"], true), ["4"]);
    assert_eq!(after(&["1", "2", "3"], &["2", "3"], true), [""; 0]);
    assert_eq!(after(&["1", "2", "3"], &["3", "4", "5"], true), ["4", "5"]);
    assert_eq!(
        after(&["1", "2"], &["7", "8"], true),
        ["7", "8"],
        "a restarted container"
    );
}

#[test]
fn counts_equal_lines_of_a_log_from_its_start() {
    assert_eq!(after(&["p", "p"], &["p", "p", "p"], true), ["p"]);
    assert_eq!(
        after(&["a", "p", "p"], &["a", "p", "p", "p", "b"], true),
        ["p", "b"]
    );
}

#[test]
fn does_not_print_older_lines_than_requested() {
    // With `--tail 1` the log starts with its third line.
    assert_eq!(after(&["3"], &["1", "2", "3", "4"], false), ["4"]);
    assert_eq!(after(&["3", "4"], &["1", "2", "3", "4"], false), [""; 0]);
}

#[test]
fn distinguishes_pods_and_prints_new_ones_immediately() {
    let now = Instant::now();
    let mut printed = PrintedMessages::lines(true);
    for pod in ["a", "b"] {
        assert_eq!(words(&printed.add(line(pod, "x"), now)), ["x"]);
    }
    printed.reopen();
    for (pod, text) in [("a", "x"), ("a", "of a"), ("b", "x")] {
        assert_eq!(words(&printed.add(line(pod, text), now)), [""; 0]);
    }
    assert_eq!(words(&printed.add(line("c", "x"), now)), ["x"]);
    assert_eq!(words(&printed.finish()), ["of a"]);
}

#[test]
fn limits_the_buffer_time_of_a_busy_service() {
    let begin = Instant::now();
    let mut printed = PrintedMessages::lines(true);
    come(&mut printed, begin, &["1"]);
    printed.reopen();
    let mut now = begin;
    come(&mut printed, now, &["1"]);
    while now < begin + BUFFER_TIME_MAX {
        assert!(printed.flush_due(now).messages.is_empty());
        come(&mut printed, now, &["more"]);
        now += Duration::from_millis(500);
    }
    assert_eq!(printed.flush_due(now).messages.len(), 10);
}

#[test]
fn limits_the_history_and_reports_gaps() {
    let now = Instant::now();
    let mut printed = PrintedMessages::lines(true);
    for number in 0..=HISTORY_MAX {
        come(&mut printed, now, &[&number.to_string()]);
    }
    printed.reopen();
    // The maximum number of lines, none of which was printed.
    let mut last = NewMessages::default();
    for number in 0..HISTORY_MAX {
        last = printed.add(line("web-1", &format!("later {number}")), now);
    }
    assert_eq!(
        (last.messages.len(), last.gaps),
        (HISTORY_MAX, vec!["web-1".to_owned()])
    );
    for pod in 0..2 * PODS_MAX {
        printed.add(line(&pod.to_string(), "x"), now);
    }
    let PrintedMessages::Lines(lines) = &printed else {
        panic!()
    };
    assert_eq!(lines.pods.len(), PODS_MAX);
}

#[test]
fn prints_repeated_events_once_and_later_ones_each_time() {
    let now = Instant::now();
    let event = |note: &str| Json::Null.with("note", Json::Text(note.to_owned()));
    let mut printed = PrintedMessages::events();
    let is_printed =
        |printed: &mut PrintedMessages, note: &str, now| !printed.add(event(note), now).messages.is_empty();
    assert!(is_printed(&mut printed, "pulled", now));
    printed.reopen();
    assert!(!is_printed(&mut printed, "pulled", now));
    assert!(is_printed(&mut printed, "started", now));
    printed.flush_due(printed.next_flush().unwrap());
    assert!(
        is_printed(&mut printed, "pulled", now),
        "the event occurred once more"
    );
}
