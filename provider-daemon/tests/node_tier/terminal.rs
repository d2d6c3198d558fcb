//! A terminal for a tenant's command in a pod.

use crate::fixture::until;
use crate::pty;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Runs a command at a terminal, and types each text after the expected output. Returns exit code and output.
pub(crate) fn typed(mut command: Command, dialogue: &[(&str, &str)]) -> (Option<i32>, String) {
    let (ours, theirs) = pty::open();
    let end = || Stdio::from(theirs.try_clone().unwrap());
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop((command, theirs));
    let mut ours = File::from(ours);
    let (mut screen, content) = (ours.try_clone().unwrap(), Arc::<Mutex<String>>::default());
    let all = Arc::clone(&content);
    let reading = std::thread::spawn(move || {
        let mut bytes = [0; 1024];
        // Reading fails when the other end of the terminal is closed.
        while let Ok(read @ 1..) = screen.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..read]);
            all.lock().unwrap().push_str(&text);
        }
    });
    for (awaited, text) in dialogue {
        until(&format!("the terminal shows {awaited:?}"), || {
            content.lock().unwrap().contains(awaited)
        });
        ours.write_all(text.as_bytes()).unwrap();
    }
    let mut ended = None;
    until("the end of the command", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    reading.join().unwrap();
    let content = content.lock().unwrap().clone();
    (ended.and_then(|status| status.code()), content)
}
