use super::*;

fn line(pod: &str, message: &str) -> Json {
    let text = |text: &str| Json::Text(text.to_owned());
    Json::Null.with("name", text(pod)).with("message", text(message))
}

fn words(fresh: &Fresh) -> Vec<&str> {
    let messages = fresh.messages.iter();
    messages
        .map(|m| m.field("message").unwrap().text().unwrap())
        .collect()
}

/// Shows lines of one pod; what of them is shown at once.
fn come(shown: &mut Shown, now: Instant, lines: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for text in lines {
        let fresh = shown.take(line("web-1", text), now);
        all.extend(words(&fresh).into_iter().map(str::to_owned));
    }
    all
}

/// What is shown of `again` after `before` was.
fn after(before: &[&str], again: &[&str], from_start: bool) -> Vec<String> {
    let now = Instant::now();
    let mut shown = Shown::lines(from_start);
    assert_eq!(
        come(&mut shown, now, before),
        before,
        "before a break nothing is held back"
    );
    shown.reopen();
    assert!(
        come(&mut shown, now, again).is_empty(),
        "nothing is shown before it is clear"
    );
    let due = shown.next_settling().unwrap();
    assert!(shown.settle(due - Duration::from_millis(1)).messages.is_empty());
    let fresh = shown.settle(due);
    assert_eq!(
        come(&mut shown, due, &["live"]),
        ["live"],
        "then it goes on at once"
    );
    words(&fresh).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_line_is_shown_once_whatever_comes_again() {
    assert_eq!(after(&["1", "2", "3"], &["1", "2", "3", "4"], true), ["4"]);
    assert_eq!(after(&["1", "2", "3"], &["2", "3"], true), [""; 0]);
    assert_eq!(after(&["1", "2", "3"], &["3", "4", "5"], true), ["4", "5"]);
    assert_eq!(
        after(&["1", "2"], &["7", "8"], true),
        ["7", "8"],
        "a container that began anew"
    );
}

#[test]
fn equal_lines_are_counted_where_the_log_was_shown_from_its_start() {
    assert_eq!(after(&["p", "p"], &["p", "p", "p"], true), ["p"]);
    assert_eq!(
        after(&["a", "p", "p"], &["a", "p", "p", "p", "b"], true),
        ["p", "b"]
    );
}

#[test]
fn old_lines_that_nobody_asked_for_stay_away() {
    // With --tail 1 the log began with its third line.
    assert_eq!(after(&["3"], &["1", "2", "3", "4"], false), ["4"]);
    assert_eq!(after(&["3", "4"], &["1", "2", "3", "4"], false), [""; 0]);
}

#[test]
fn pods_are_told_apart_and_a_new_one_is_shown_at_once() {
    let now = Instant::now();
    let mut shown = Shown::lines(true);
    for pod in ["a", "b"] {
        assert_eq!(words(&shown.take(line(pod, "x"), now)), ["x"]);
    }
    shown.reopen();
    for (pod, text) in [("a", "x"), ("a", "of a"), ("b", "x")] {
        assert_eq!(words(&shown.take(line(pod, text), now)), [""; 0]);
    }
    assert_eq!(words(&shown.take(line("c", "x"), now)), ["x"]);
    assert_eq!(words(&shown.end()), ["of a"]);
}

#[test]
fn a_service_that_is_never_quiet_is_not_held_back_for_long() {
    let begin = Instant::now();
    let mut shown = Shown::lines(true);
    come(&mut shown, begin, &["1"]);
    shown.reopen();
    let mut now = begin;
    come(&mut shown, now, &["1"]);
    while now < begin + HELD_FOR {
        assert!(shown.settle(now).messages.is_empty());
        come(&mut shown, now, &["more"]);
        now += Duration::from_millis(500);
    }
    assert_eq!(shown.settle(now).messages.len(), 10);
}

#[test]
fn what_is_remembered_has_an_end_and_a_gap_is_told() {
    let now = Instant::now();
    let mut shown = Shown::lines(true);
    for number in 0..=KEPT {
        come(&mut shown, now, &[&number.to_string()]);
    }
    shown.reopen();
    // As many as are asked for, and none of them was shown.
    let mut last = Fresh::default();
    for number in 0..KEPT {
        last = shown.take(line("web-1", &format!("later {number}")), now);
    }
    assert_eq!((last.messages.len(), last.gaps), (KEPT, vec!["web-1".to_owned()]));
    for pod in 0..2 * PODS_MAX {
        shown.take(line(&pod.to_string(), "x"), now);
    }
    let Shown::Lines(lines) = &shown else { panic!() };
    assert_eq!(lines.pods.len(), PODS_MAX);
}

#[test]
fn events_that_come_again_are_shown_once_and_later_ones_each_time() {
    let now = Instant::now();
    let event = |note: &str| Json::Null.with("note", Json::Text(note.to_owned()));
    let mut shown = Shown::events();
    let is_shown = |shown: &mut Shown, note: &str, now| !shown.take(event(note), now).messages.is_empty();
    assert!(is_shown(&mut shown, "pulled", now));
    shown.reopen();
    assert!(!is_shown(&mut shown, "pulled", now));
    assert!(is_shown(&mut shown, "started", now));
    shown.settle(shown.next_settling().unwrap());
    assert!(is_shown(&mut shown, "pulled", now), "it has happened once more");
}
