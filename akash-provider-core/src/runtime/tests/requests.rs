//! Requests and queries of handles.

use super::*;

/// Replies to every request with success if `replies` is true. Otherwise sends no replies.
fn desk_brain(replies: bool) -> Reaction {
    Box::new(move |_, input| match input {
        Input::Request(id, crate::engine::Request::Scan { .. }) if replies => {
            vec![Effect::Reply(*id, Ok(Reply::Scan(vec!["one".into()])))]
        }
        Input::Request(id, _) if replies => vec![Effect::Reply(*id, Ok(Reply::Done))],
        _ => Vec::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn requests_get_the_engines_reply() {
    let setup = Setup {
        reaction: desk_brain(true),
        ..Setup::default()
    };
    let world = setup.start();
    let handle = &world.handle;
    assert_eq!(handle.scan(true).await, Ok(vec!["one".into()]));
    assert_eq!(handle.release_breaker().await, Ok(()));
    assert_eq!(handle.end_lease(&lease(1), CloseReason::Unstable).await, Ok(()));
    assert_eq!(
        handle.transfer_hostnames(&lease(1), vec!["a".into()]).await,
        Ok(())
    );
    assert!(handle.has_lease(&lease(1)).await.unwrap());
    assert!(!handle.has_lease(&lease(2)).await.unwrap());
    handle.set_leadership(Leadership::Standby).await.unwrap();
    assert!(matches!(
        world.inputs().last(),
        Some(Input::Leadership(Leadership::Standby))
    ));
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_request_gets_one_reply_at_shutdown_and_at_abort() {
    for aborted in [false, true] {
        let setup = Setup {
            reaction: desk_brain(false),
            busy: true,
            ..Setup::default()
        };
        let world = setup.start();
        world.handle.wait_ready().await.unwrap();
        let asked: Vec<_> = (0..50)
            .map(|_| {
                let handle = world.handle.clone();
                tokio::spawn(async move { handle.scan(true).await })
            })
            .collect();
        settle().await;
        let handle = world.handle.clone();
        if aborted {
            world.abort.cancel();
        }
        let _ = world.stop().await;
        for asked in asked {
            assert_eq!(asked.await.unwrap().unwrap_err().kind, RefusalKind::Stopping);
        }
        assert_eq!(
            handle.release_breaker().await.unwrap_err().kind,
            RefusalKind::Stopping
        );
        assert_eq!(
            handle.has_lease(&lease(1)).await.unwrap_err().kind(),
            ErrorKind::Stopped
        );
        let done = handle.set_leadership(Leadership::Standby).await;
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(handle.status().await.lifecycle, Lifecycle::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopping_provider_refuses_requests_and_serves_queries() {
    let setup = Setup {
        reaction: desk_brain(true),
        busy: true,
        ..Setup::default()
    };
    let world = setup.start();
    world.handle.wait_ready().await.unwrap();
    world.shutdown.cancel();
    settle().await;
    let refusal = world.handle.scan(true).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Stopping);
    assert_eq!(world.handle.status().await.lifecycle, Lifecycle::Shutdown);
    assert!(world.handle.has_lease(&lease(1)).await.unwrap());
    world.abort.cancel();
    let _ = world.running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_reply_is_unavailable_after_its_timeout() {
    let first = Arc::new(Mutex::new(None::<RequestId>));
    let reaction: Reaction = Box::new(move |_, input| match input {
        Input::Request(id, _) => match first.lock().unwrap().replace(*id) {
            None => Vec::new(),
            // The second request triggers both replies.
            Some(earlier) => vec![
                Effect::Reply(earlier, Ok(Reply::Done)),
                Effect::Reply(*id, Ok(Reply::Done)),
            ],
        },
        _ => Vec::new(),
    });
    let world = Setup {
        reaction,
        ..Setup::default()
    }
    .start();
    let started = Instant::now();
    let refusal = world.handle.release_breaker().await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unavailable);
    assert_eq!(
        started.elapsed().as_secs(),
        config().manifest_request_timeout.as_secs()
    );
    assert_eq!(world.handle.release_breaker().await, Ok(()));
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_are_refused() {
    let world = Setup {
        reaction: desk_brain(false),
        ..Setup::default()
    }
    .start();
    world.handle.wait_ready().await.unwrap();
    let mut asked = Vec::new();
    for _ in 0..1_100 {
        let handle = world.handle.clone();
        asked.push(tokio::spawn(async move { handle.scan(true).await }));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    settle().await;
    let refused = asked.iter().filter(|a| a.is_finished()).count();
    assert!(refused >= 1_100 - 1_024, "{refused}");
    let accepted = world
        .inputs()
        .iter()
        .filter(|i| matches!(i, Input::Request(..)))
        .count();
    assert!(accepted <= 1_024, "{accepted}");
    for asked in asked.into_iter().filter(JoinHandle::is_finished) {
        assert_eq!(asked.await.unwrap().unwrap_err().kind, RefusalKind::Busy);
    }
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_a_provider_that_never_ran_does_not_hang() {
    let (parts, handle, ..) = Setup::default().parts();
    drop(parts);
    assert_eq!(handle.lifecycle(), Lifecycle::Done);
    assert_eq!(handle.scan(true).await.unwrap_err().kind, RefusalKind::Stopping);
    assert_eq!(handle.wait_ready().await.unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(handle.status().await.lifecycle, Lifecycle::Done);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_running_provider_completes_all_requests() {
    let world = Setup {
        reaction: desk_brain(false),
        ..Setup::default()
    }
    .start();
    world.handle.wait_ready().await.unwrap();
    let handle = world.handle.clone();
    let asked = tokio::spawn(async move { handle.scan(true).await });
    settle().await;
    world.running.abort();
    assert_eq!(asked.await.unwrap().unwrap_err().kind, RefusalKind::Stopping);
    assert_eq!(world.handle.lifecycle(), Lifecycle::Done);
}
