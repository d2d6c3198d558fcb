//! Event loop that reports every block once and in order.

use super::block::Block;
use super::feed::{Feed, FeedItem, Fetch};
use super::poll::Poll;
use super::status::{BlockSource, FollowerSettings};
use super::websocket::BlockSubscription;
use crate::checkpoint::{Checkpoint, now};
use crate::endpoints::{Capability, LAG_MAX};
use crate::fault::{Fault, NodeError};
use crate::reader::Reader;
use crate::repeated::Repeated;
use crate::rpc::types::BlockHash;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{Address, BlockTime, ChainEvent, Height, MarketParams, ProviderRecord};
use futures::StreamExt;
use futures::stream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// After this number of error responses to block requests, a `Resync` follows.
const REFUSALS_MAX: u32 = 10;

/// Market parameters and provider record. No event updates these values.
type StaticValues = (MarketParams, Option<ProviderRecord>);
type Out = mpsc::Sender<Result<ChainEvent, Error>>;

#[derive(Debug)]
enum SessionEnd {
    /// The receiver was dropped.
    ReceiverDropped,
    /// A `Resync` is necessary, because blocks or events may be missing. Contains the reason.
    Gap(String),
    /// No node has responded for longer than the outage limit.
    Outage(String),
}

pub(super) struct Follower {
    reader: Reader,
    provider: Address,
    out: Out,
    settings: FollowerSettings,
    /// Height of the next block to report.
    next: Height,
    /// Hash of the last processed block.
    last: BlockHash,
    /// Time of the last response of any node.
    last_response: Instant,
    /// Time at which the follower received the last new block.
    advanced: Instant,
    /// Current back-off. Each received block resets it to 0.
    wait: Duration,
    /// Number of consecutive failed attempts to open a websocket.
    polls: u32,
    /// Number of unusable responses to queries for the next block.
    refusals: u32,
    /// Rate limit for logged warnings about nodes.
    warnings: Repeated,
    /// Reason why an event may be missing. `None` if no event can be missing.
    missing_event: Option<String>,
    /// Earliest time of the next `Resync` after a gap. After an outage, a `Resync` need not wait.
    resync_from: Instant,
    /// Market parameters and provider record from the last snapshot.
    static_values: Option<StaticValues>,
    read: Instant,
    /// Pending query of the market parameters and the provider record.
    reading: Option<JoinHandle<Result<StaticValues, NodeError>>>,
}

impl Follower {
    pub(super) fn new(reader: Reader, provider: Address, out: Out) -> Self {
        let settings = reader.settings;
        Self {
            reader,
            provider,
            out,
            settings,
            next: 0,
            last: BlockHash::default(),
            last_response: Instant::now(),
            advanced: Instant::now(),
            wait: Duration::ZERO,
            polls: 0,
            refusals: 0,
            warnings: Repeated::default(),
            missing_event: None,
            resync_from: Instant::now(),
            static_values: None,
            read: Instant::now(),
            reading: None,
        }
    }

    /// Runs until the receiver is dropped.
    pub(super) async fn run(mut self) {
        self.load_floor();
        let mut reason = "start".to_owned();
        let mut outages = Repeated::default();
        loop {
            // Cloned, because the session borrows the follower.
            let out = self.out.clone();
            let ended = tokio::select! {
                biased;
                // A session may have no events for a long time, so the receiver is observed here.
                () = out.closed() => SessionEnd::ReceiverDropped,
                end = self.session(&reason) => end,
            };
            self.cut_off();
            match ended {
                SessionEnd::ReceiverDropped => break,
                SessionEnd::Gap(why) => {
                    tracing::warn!(
                        why,
                        "cannot read the missed blocks one by one, reading the whole state of the chain"
                    );
                    reason = why;
                }
                SessionEnd::Outage(why) => {
                    if outages.is_logged(Instant::now()) {
                        tracing::warn!(
                            why,
                            "no chain node responds, retrying: check the nodes of --node and the network"
                        );
                    }
                    let error = Error::new(ErrorKind::Unavailable, "subscribe", why.clone());
                    if self.out.send(Err(error)).await.is_err() {
                        break;
                    }
                    reason = why;
                }
            }
        }
    }

    fn load_floor(&mut self) {
        match self.reader.heights.load() {
            Ok(Some(stored)) => match stored.check(None, now()) {
                Ok(()) => self.reader.endpoints.raise_floor(stored),
                Err(why) => self.fail(&format!("stored height {} is not used: {why}", stored.height)),
            },
            Ok(None) => {}
            // Without the stored height, only the protection against lagging nodes is missing.
            Err(error) => self.fail(&format!("cannot read the last height: {error}")),
        }
    }

    fn fail(&mut self, text: &str) {
        let last = self
            .reader
            .update_status(|s| s.last_error.replace(text.to_owned()));
        if self.warnings.is_logged(Instant::now()) || last.as_deref() != Some(text) {
            tracing::warn!(
                error = text,
                "cannot read new blocks from the chain nodes, retrying; check the nodes"
            );
        }
    }

    /// Records in the status that the follower has no source of blocks.
    fn cut_off(&self) {
        self.reader.update_status(|s| {
            s.source = BlockSource::None;
            s.silent_since.get_or_insert_with(SystemTime::now);
        });
    }

    pub(super) async fn back_off(&mut self) {
        tokio::time::sleep(self.wait).await;
        let FollowerSettings {
            wait_min, wait_max, ..
        } = self.settings;
        self.wait = (self.wait * 2).max(wait_min).min(wait_max);
    }

    fn may_resync(&self) -> bool {
        Instant::now() >= self.resync_from
    }

    fn is_outage(&self) -> bool {
        self.last_response.elapsed() >= self.settings.outage
    }

    /// Runs a session: sends a `Resync`, then reports blocks until the next `Resync` is necessary.
    async fn session(&mut self, reason: &str) -> SessionEnd {
        if let Err(end) = self.resync(reason).await {
            return end;
        }
        loop {
            let end = match self.open().await {
                Ok(mut feed) => self.feed(&mut feed).await,
                Err(error) => self.handle_failure(&error),
            };
            match end {
                Ok(()) => {}
                // Other nodes may serve the blocks, and the false heights may end.
                Err(SessionEnd::Gap(why)) if !self.may_resync() => {
                    self.fail(&why);
                    self.cut_off();
                }
                Err(end) => return end,
            }
            self.back_off().await;
        }
    }

    /// Handles a failed request and records in the status that the connection is closed.
    ///
    /// Returns [`SessionEnd::Outage`] if no node has responded for too long. Returns [`SessionEnd::Gap`] if
    /// the responding nodes do not provide the next block, or contradict the processed block.
    fn handle_failure(&mut self, error: &NodeError) -> Result<(), SessionEnd> {
        self.fail(&error.to_string());
        self.cut_off();
        self.check_processed()?;
        let is_refused = matches!(
            error.fault,
            Fault::Malformed(_)
                | Fault::TooLarge { .. }
                | Fault::WrongHeight { .. }
                | Fault::NotFound { .. }
                | Fault::Refused { .. }
                | Fault::HeightUnavailable(_)
        );
        self.refusals += u32::from(is_refused);
        if self.refusals >= REFUSALS_MAX {
            return Err(SessionEnd::Gap(format!(
                "cannot get block {}: {error}",
                self.next
            )));
        }
        if self.is_outage() {
            return Err(SessionEnd::Outage(error.to_string()));
        }
        Ok(())
    }

    /// Sends a snapshot of the whole chain state to the receiver. Retries with a back-off while no node
    /// responds. Reports an outage only once.
    async fn resync(&mut self, reason: &str) -> Result<(), SessionEnd> {
        let began = Instant::now();
        let mut is_reported = false;
        let listing = loop {
            match self.reader.take_snapshot(&self.provider).await {
                Ok(listing) => break listing,
                Err(error) => {
                    self.fail(&error.to_string());
                    self.cut_off();
                    if !is_reported && began.elapsed() >= self.settings.outage {
                        is_reported = true;
                        let error = error.into_port("subscribe");
                        self.out
                            .send(Err(error))
                            .await
                            .map_err(|_| SessionEnd::ReceiverDropped)?;
                    }
                    self.back_off().await;
                }
            }
        };
        let snapshot = Arc::new(listing.snapshot);
        self.static_values = Some((snapshot.params.clone(), snapshot.provider.clone()));
        (self.read, self.reading) = (Instant::now(), None);
        let (height, time) = (snapshot.height, snapshot.time);
        // Sent before the height is recorded: a dropped receiver must not raise the processed height.
        self.send_event(ChainEvent::Resync(snapshot)).await?;
        // The first snapshot is not a repair.
        let skipped = match self.next {
            0 => 0,
            next => (height + 1).saturating_sub(next),
        };
        if self.next > 0 {
            self.resync_from = Instant::now() + self.settings.resync_pause;
        }
        (self.next, self.last) = (height + 1, listing.block);
        // The snapshot is later than all missing events.
        self.missing_event = None;
        self.record_reported(height, time);
        self.reader.update_status(|s| {
            s.resyncs += 1;
            s.skipped += skipped;
            s.last_resync = Some(reason.to_owned());
        });
        Ok(())
    }

    /// Returns an error if nodes contradict the last processed height.
    fn check_processed(&self) -> Result<(), SessionEnd> {
        if self.reader.endpoints.floor().saturating_add(1) < self.next {
            let last = self.next - 1;
            return Err(SessionEnd::Gap(format!("nodes contradict height {last}")));
        }
        Ok(())
    }

    /// Compares the market parameters and the provider record with the snapshot, because the node that
    /// returned the snapshot may be wrong.
    ///
    /// The queries run in the background. If the queries found a different value, a later call returns an
    /// error. Failed queries are ignored.
    async fn check_static_values(&mut self) -> Result<(), SessionEnd> {
        if let Some(reading) = self.reading.take_if(|reading| reading.is_finished()) {
            let is_changed =
                matches!(reading.await, Ok(Ok(read)) if self.static_values.as_ref() != Some(&read));
            if is_changed {
                let why = "parameters or provider record differ from the last snapshot";
                return Err(SessionEnd::Gap(why.to_owned()));
            }
        }
        if self.reading.is_none() && self.read.elapsed() >= self.reader.endpoints.limits().single_age {
            self.read = Instant::now();
            let (reader, provider) = (self.reader.clone(), self.provider.clone());
            self.reading = Some(tokio::spawn(async move {
                tokio::try_join!(reader.params_at(None), reader.provider_at(&provider, None))
            }));
        }
        Ok(())
    }

    async fn send_event(&self, event: ChainEvent) -> Result<(), SessionEnd> {
        self.out
            .send(Ok(event))
            .await
            .map_err(|_| SessionEnd::ReceiverDropped)
    }

    /// Records that all blocks up to `height` were reported to the receiver. `time` is the time of the last
    /// block.
    pub(super) fn record_reported(&mut self, height: Height, time: BlockTime) {
        let now = Instant::now();
        (self.last_response, self.advanced, self.wait) = (now, now, Duration::ZERO);
        self.refusals = 0;
        self.reader.endpoints.raise_floor(Checkpoint { height, time });
        self.reader.cache_time(height, time);
        self.reader.update_status(|s| {
            s.height = height;
            s.time = time;
            s.silent_since = None;
        });
        // Reported, but not an error: the height matters after a restart only.
        if let Err(error) = self.reader.heights.store(Checkpoint { height, time }) {
            self.fail(&format!("cannot store the last height: {error}"));
        }
    }

    /// Opens a websocket to the first endpoint that accepts it, or falls back to polling.
    async fn open(&mut self) -> Result<Feed, NodeError> {
        let endpoints = self.reader.endpoints.clone();
        let limits = endpoints.limits();
        let mut tried = Vec::new();
        loop {
            let at = endpoints.choose(Capability::Blocks, &tried).await?;
            // `choose` returns an endpoint again if all of them were tried.
            if tried.contains(&at) {
                break;
            }
            tried.push(at);
            let endpoint = endpoints.endpoint(at)?;
            match BlockSubscription::open(endpoint, endpoints.chain_id(), limits, self.settings).await {
                Ok(socket) => {
                    self.polls = 0;
                    self.reader.update_status(|s| s.connections += 1);
                    return Ok(Feed::Socket(Box::new(socket)));
                }
                Err(error) => {
                    // Queries of this endpoint may work, so a health check is due instead of a back-off.
                    endpoints.request_check(at);
                    self.fail(&error.to_string());
                }
            }
        }
        // After a network failure, a websocket should be possible as soon as the network is restored.
        let settings = self.settings;
        let poll_time = settings.poll_interval.saturating_mul(1 << self.polls.min(16));
        self.polls = self.polls.saturating_add(1);
        let until = Instant::now() + poll_time.min(settings.poll_for);
        Ok(Feed::Poll(Poll::new(self.settings.poll_interval), until))
    }

    /// Reports blocks from a source until the source fails.
    async fn feed(&mut self, feed: &mut Feed) -> Result<(), SessionEnd> {
        // Blocks before the subscription became effective.
        if let Err(error) = self.catch_up(feed.source()).await? {
            return self.handle_failure(&error);
        }
        loop {
            // Based on the last response too: a halted chain is queried once per interval only.
            let silent_at = self.advanced.max(self.last_response) + self.settings.silence;
            let head = tokio::select! {
                biased;
                // Checked first: an available block ends the silence.
                head = next(feed, &self.reader) => head,
                () = tokio::time::sleep_until(silent_at) => {
                    match self.break_silence().await? {
                        true => continue,
                        false => return Ok(()),
                    }
                }
            };
            let result = match head {
                Ok(FeedItem::Block(block)) => self.block(*block).await?,
                Ok(FeedItem::Tip(tip)) => {
                    self.last_response = Instant::now();
                    self.fill(tip, Fetch::Polled).await?
                }
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                return self.handle_failure(&error);
            }
            self.check_processed()?;
            self.check_static_values().await?;
            // The caller opens the source again, a websocket first.
            if matches!(feed, Feed::Poll(_, until) if Instant::now() >= *until) {
                return Ok(());
            }
        }
    }

    /// Queries the newest block after a silence of the websocket. Returns true if the node has no new block.
    async fn break_silence(&mut self) -> Result<bool, SessionEnd> {
        match self.reader.endpoints.sync_info().await {
            Ok(info) if info.height >= self.next => {
                self.fail("subscription is silent although there are new blocks");
                self.cut_off();
                if let Err(error) = self.fill(info.height, Fetch::Missed).await? {
                    self.handle_failure(&error)?;
                }
                Ok(false)
            }
            Ok(info) => {
                self.last_response = Instant::now();
                // Since the last block, not since the detection.
                let since = SystemTime::now() - self.advanced.elapsed();
                let is_new = self.reader.update_status(|s| {
                    let is_new = s.silent_since.is_none();
                    s.silent_since.get_or_insert(since);
                    is_new
                });
                if is_new {
                    tracing::warn!(
                        height = info.height,
                        "no chain node has a new block, waiting: check whether the chain is halted"
                    );
                }
                Ok(true)
            }
            Err(error) => {
                self.handle_failure(&error)?;
                Ok(false)
            }
        }
    }

    /// Reports all blocks up to the newest height.
    async fn catch_up(&mut self, source: BlockSource) -> Result<Result<(), NodeError>, SessionEnd> {
        match self.reader.endpoints.sync_info().await {
            Ok(info) => {
                self.last_response = Instant::now();
                // Recorded after the response: an open connection is not sufficient, because hanging nodes accept
                // connections too.
                self.reader.update_status(|s| s.source = source);
                self.fill(info.height, Fetch::Replayed).await
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Reports the missing blocks below a pushed block, then the pushed block.
    async fn block(&mut self, block: Block) -> Result<Result<(), NodeError>, SessionEnd> {
        self.last_response = Instant::now();
        let height = block.height;
        if let Err(error) = self.reader.endpoints.check_pushed(height).await {
            return Ok(Err(error));
        }
        // A lower block was already fetched.
        if block.height >= self.next {
            if let Err(mut error) = self.fill(block.height - 1, Fetch::Missed).await? {
                if error.is_about_height() {
                    // The pushed height is false, or from a node that is ahead. This is not a reason for a `Resync`.
                    error.fault = Fault::Untrusted(format!(
                        "pushed height {height} without the blocks below: {error}"
                    ));
                }
                return Ok(Err(error));
            }
            let is_newest = block.height >= self.reader.endpoints.newest();
            self.report_block(block, is_newest).await?;
        }
        if height.saturating_add(LAG_MAX) < self.next {
            self.reader.endpoints.request_checks().await;
        }
        let newest = self.reader.endpoints.newest();
        if newest >= self.next + LAG_MAX {
            return self.fill(newest, Fetch::Missed).await;
        }
        Ok(Ok(()))
    }

    /// Fetches and reports all blocks up to a height.
    async fn fill(&mut self, to: Height, reason: Fetch) -> Result<Result<(), NodeError>, SessionEnd> {
        if to < self.next {
            return Ok(Ok(()));
        }
        let missing = to - self.next + 1;
        // A snapshot is faster than this number of single blocks.
        if missing > self.settings.gap_max {
            return Err(SessionEnd::Gap(format!("{missing} blocks are missing")));
        }
        let endpoints = self.reader.endpoints.clone();
        let fetch = |height| {
            let endpoints = endpoints.clone();
            async move { endpoints.block(height).await }
        };
        let mut blocks = stream::iter(self.next..=to)
            .map(fetch)
            // Keeps the order of concurrent requests.
            .buffered(self.settings.parallel);
        while let Some(block) = blocks.next().await {
            match block {
                Ok(block) => {
                    self.reader.update_status(|status| reason.count(status));
                    let is_newest = block.height == to;
                    self.report_block(block, is_newest).await?;
                }
                // Waiting does not restore a pruned block.
                Err(error) if matches!(error.fault, Fault::Pruned(_)) => {
                    return Err(SessionEnd::Gap(format!(
                        "cannot get block {}: {error}",
                        self.next
                    )));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    async fn report_block(&mut self, block: Block, is_newest: bool) -> Result<(), SessionEnd> {
        if let Err(why) = block.check_parent(self.last) {
            self.fail(&why);
            self.missing_event.get_or_insert(why);
        }
        let Block {
            height,
            time,
            hash,
            events,
            txs,
            ..
        } = block;
        // Before the events, which may wait for the receiver: the writer needs the outcomes early.
        if let Some(observer) = &self.reader.observer {
            observer.observe(height, time, is_newest, txs);
        }
        let (malformed, of_others): (Vec<_>, Vec<_>) = events.malformed.into_iter().partition(|event| {
            let provider = event.provider.as_ref();
            provider.is_none_or(|provider| *provider == self.provider)
        });
        for event in &of_others {
            tracing::debug!(%event, "malformed event of another provider ignored");
        }
        for event in &malformed {
            tracing::warn!(%event, "cannot decode an event of the chain, reading the whole state of the chain instead: check whether this provider supports the chain version");
        }
        if let Some(first) = malformed.first() {
            let why = format!("malformed event: {first}");
            self.missing_event.get_or_insert(why);
        }
        let count = u64::try_from(malformed.len()).unwrap_or_default();
        self.reader.update_status(|s| {
            s.blocks += 1;
            s.malformed += count;
            if let Some(last) = malformed.into_iter().last() {
                s.last_malformed = Some(last);
            }
        });
        for fact in events.events {
            if fact.concerns(&self.provider) {
                self.send_event(fact).await?;
            }
        }
        // Sent last: this event states that all events up to this height were reported.
        self.send_event(ChainEvent::Block { height, time }).await?;
        (self.next, self.last) = (height + 1, hash);
        self.record_reported(height, time);
        // After the block is complete: a `Resync` is only allowed between two blocks.
        match &self.missing_event {
            Some(why) if self.may_resync() => Err(SessionEnd::Gap(why.clone())),
            _ => Ok(()),
        }
    }
}

async fn next(feed: &mut Feed, reader: &Reader) -> Result<FeedItem, NodeError> {
    match feed {
        Feed::Socket(socket) => Ok(FeedItem::Block(Box::new(socket.next().await?))),
        Feed::Poll(poll, _) => Ok(FeedItem::Tip(poll.next(&reader.endpoints).await?)),
    }
}
