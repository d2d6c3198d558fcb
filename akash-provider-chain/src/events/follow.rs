//! The loop that tells every block once and in order.

use super::block::Block;
use super::poll::Poll;
use super::websocket::Socket;
use super::{Settings, Source};
use crate::checkpoint::{Checkpoint, now};
use crate::endpoints::{LAG_MAX, Need};
use crate::fault::{Fault, NodeError};
use crate::reader::Reader;
use crate::repeated::Repeated;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{Address, BlockTime, ChainEvent, Height, MarketParams, ProviderRecord};
use futures::StreamExt;
use futures::stream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Times nodes that answer may fail to give one block before the whole present is told instead.
const REFUSALS_MAX: u32 = 10;

/// Values that a snapshot gives and that no event of their own changes.
type Lasting = (MarketParams, Option<ProviderRecord>);
type Out = mpsc::Sender<Result<ChainEvent, Error>>;

/// Why the blocks of a `Resync` end.
#[derive(Debug)]
enum End {
    /// Nobody listens any more.
    Unheard,
    /// Blocks are missing that no node can give, or too many.
    Gap(String),
    /// No node has answered for too long.
    Outage(String),
}

/// What a source of blocks says.
enum Head {
    Block(Box<Block>),
    Tip(Height),
}

enum Feed {
    Socket(Box<Socket>),
    Poll(Poll, Instant),
}

impl Feed {
    fn source(&self) -> Source {
        match self {
            Self::Socket(socket) => Source::Websocket(socket.endpoint()),
            Self::Poll(..) => Source::Polling,
        }
    }
}

/// Follows the chain for one listener.
pub(super) struct Follower {
    reader: Reader,
    provider: Address,
    out: Out,
    settings: Settings,
    /// The next height to tell.
    next: Height,
    /// When something was last heard from any node.
    heard: Instant,
    /// When the last new block came.
    advanced: Instant,
    /// Before the next try; nothing right after a block.
    wait: Duration,
    /// Times in a row that no websocket was to be had.
    polls: u32,
    /// How often nodes that answer have not given the next block.
    refusals: u32,
    /// Warnings about nodes.
    warnings: Repeated,
    /// A fact may have been lost: why.
    lost: Option<String>,
    /// No `Resync` before this time, except after an outage.
    resync_from: Instant,
    /// Values of the last snapshot that no event of their own changes, and when they were last read.
    lasting: Option<Lasting>,
    read: Instant,
    /// The reading of them that is under way.
    reading: Option<JoinHandle<Result<Lasting, NodeError>>>,
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
            heard: Instant::now(),
            advanced: Instant::now(),
            wait: Duration::ZERO,
            polls: 0,
            refusals: 0,
            warnings: Repeated::default(),
            lost: None,
            resync_from: Instant::now(),
            lasting: None,
            read: Instant::now(),
            reading: None,
        }
    }

    /// Runs until nobody listens any more.
    pub(super) async fn run(mut self) {
        self.load_floor();
        let mut reason = "the start".to_owned();
        let mut outages = Repeated::default();
        loop {
            // A clone, because the session borrows the whole follower.
            let out = self.out.clone();
            let ended = tokio::select! {
                biased;
                // A session may have nothing to tell for long: only this hears that the listener is gone.
                () = out.closed() => End::Unheard,
                end = self.session(&reason) => end,
            };
            self.cut_off();
            match ended {
                End::Unheard => break,
                End::Gap(why) => {
                    tracing::warn!(why, "blocks cannot be told one by one; telling the whole present");
                    reason = why;
                }
                End::Outage(why) => {
                    if outages.is_logged(Instant::now()) {
                        tracing::warn!(why, "no node answers; the present is unknown");
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
                Err(why) => self.fail(&format!("the stored height {} is not used: {why}", stored.height)),
            },
            Ok(None) => {}
            // Without it the guard against nodes that are behind is missing, and nothing else.
            Err(error) => self.fail(&format!("the last height cannot be read: {error}")),
        }
    }

    fn fail(&mut self, text: &str) {
        let last = self.reader.note(|s| s.last_error.replace(text.to_owned()));
        if self.warnings.is_logged(Instant::now()) || last.as_deref() != Some(text) {
            tracing::warn!(error = text, "following the chain");
        }
    }

    /// Notes that no blocks come from anywhere from now on.
    fn cut_off(&self) {
        self.reader.note(|s| {
            s.source = Source::None;
            s.silent_since.get_or_insert_with(SystemTime::now);
        });
    }

    pub(super) async fn back_off(&mut self) {
        tokio::time::sleep(self.wait).await;
        let Settings {
            wait_min, wait_max, ..
        } = self.settings;
        self.wait = (self.wait * 2).max(wait_min).min(wait_max);
    }

    fn may_resync(&self) -> bool {
        Instant::now() >= self.resync_from
    }

    fn is_outage(&self) -> bool {
        self.heard.elapsed() >= self.settings.outage
    }

    /// From one `Resync` to the next.
    async fn session(&mut self, reason: &str) -> End {
        if let Err(end) = self.resync(reason).await {
            return end;
        }
        loop {
            let end = match self.open().await {
                Ok(mut feed) => self.feed(&mut feed).await,
                Err(error) => self.trouble(&error),
            };
            match end {
                Ok(()) => {}
                // Other nodes may serve the blocks, and the lie may end.
                Err(End::Gap(why)) if !self.may_resync() => {
                    self.fail(&why);
                    self.cut_off();
                }
                Err(end) => return end,
            }
            self.back_off().await;
        }
    }

    /// Notes that a node did not answer, and so that what was open is not any more; an outage when none has for too
    /// long, a gap when nodes answer and again and again do not give the next block.
    fn trouble(&mut self, error: &NodeError) -> Result<(), End> {
        self.fail(&error.to_string());
        self.cut_off();
        self.check_processed()?;
        let answered = matches!(
            error.fault,
            Fault::Malformed(_)
                | Fault::TooLarge { .. }
                | Fault::WrongHeight { .. }
                | Fault::NotFound { .. }
                | Fault::Refused { .. }
                | Fault::HeightUnavailable(_)
        );
        self.refusals += u32::from(answered);
        if self.refusals >= REFUSALS_MAX {
            return Err(End::Gap(format!("block {} cannot be had: {error}", self.next)));
        }
        if self.is_outage() {
            return Err(End::Outage(error.to_string()));
        }
        Ok(())
    }

    /// Tells the whole present. Nobody is told twice that there is none.
    async fn resync(&mut self, reason: &str) -> Result<(), End> {
        let began = Instant::now();
        let mut is_told = false;
        let listing = loop {
            match self.reader.take_snapshot(&self.provider).await {
                Ok(listing) => break listing,
                Err(error) => {
                    self.fail(&error.to_string());
                    self.cut_off();
                    if !is_told && began.elapsed() >= self.settings.outage {
                        is_told = true;
                        let error = error.into_port("subscribe");
                        self.out.send(Err(error)).await.map_err(|_| End::Unheard)?;
                    }
                    self.back_off().await;
                }
            }
        };
        let snapshot = Arc::new(listing.snapshot);
        self.lasting = Some((snapshot.params.clone(), snapshot.provider.clone()));
        (self.read, self.reading) = (Instant::now(), None);
        let (height, time) = (snapshot.height, snapshot.time);
        // Told before it counts as told: for a listener that went away the floor must not rise.
        self.tell(ChainEvent::Resync(snapshot)).await?;
        // The first one repairs nothing.
        if self.next > 0 {
            self.resync_from = Instant::now() + self.settings.resync_pause;
        }
        self.next = height + 1;
        // The snapshot is later than whatever was lost.
        self.lost = None;
        self.told(height, time);
        self.reader.note(|s| {
            s.resyncs += 1;
            s.last_resync = Some(reason.to_owned());
        });
        Ok(())
    }

    /// Ends the session when the last height turned out to be false.
    fn check_processed(&self) -> Result<(), End> {
        if self.reader.endpoints.floor().saturating_add(1) < self.next {
            let last = self.next - 1;
            return Err(End::Gap(format!("nodes contradict height {last}")));
        }
        Ok(())
    }

    /// Reads values of the last snapshot again that no event changes: one node alone may have given false ones. Blocks do
    /// not wait for the reading, its result is looked at after a later block. A failed reading changes nothing.
    async fn check_lasting(&mut self) -> Result<(), End> {
        if let Some(reading) = self.reading.take_if(|reading| reading.is_finished()) {
            let is_changed = matches!(reading.await, Ok(Ok(read)) if self.lasting.as_ref() != Some(&read));
            if is_changed {
                let why = "parameters or the provider's record differ from the last snapshot";
                return Err(End::Gap(why.to_owned()));
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

    async fn tell(&self, event: ChainEvent) -> Result<(), End> {
        self.out.send(Ok(event)).await.map_err(|_| End::Unheard)
    }

    /// Notes that everything up to a height has been told.
    pub(super) fn told(&mut self, height: Height, time: BlockTime) {
        let now = Instant::now();
        (self.heard, self.advanced, self.wait) = (now, now, Duration::ZERO);
        self.refusals = 0;
        self.reader.endpoints.raise_floor(Checkpoint { height, time });
        self.reader.remember_time(height, time);
        self.reader.note(|s| {
            s.height = height;
            s.time = time;
            s.silent_since = None;
        });
        // Reported and passed over: the height matters after a restart only.
        if let Err(error) = self.reader.heights.store(Checkpoint { height, time }) {
            self.fail(&format!("the last height cannot be kept: {error}"));
        }
    }

    /// Opens a subscription at one endpoint after the other; polls where none gives one.
    async fn open(&mut self) -> Result<Feed, NodeError> {
        let endpoints = self.reader.endpoints.clone();
        let limits = endpoints.limits();
        let mut tried = Vec::new();
        loop {
            let at = endpoints.choose(Need::Blocks, &tried).await?;
            // `choose` comes back to what is to be avoided when there is nothing else.
            if tried.contains(&at) {
                break;
            }
            tried.push(at);
            let endpoint = endpoints.endpoint(at)?;
            match Socket::open(endpoint, endpoints.chain_id(), limits, self.settings).await {
                Ok(socket) => {
                    self.polls = 0;
                    self.reader.note(|s| s.connections += 1);
                    return Ok(Feed::Socket(Box::new(socket)));
                }
                Err(error) => {
                    // Its queries may be fine: it is looked at again, not left alone.
                    endpoints.doubt(at);
                    self.fail(&error.to_string());
                }
            }
        }
        // What could not be opened because the link was cut can be opened as soon as it is back.
        let settings = self.settings;
        let patience = settings.poll_interval.saturating_mul(1 << self.polls.min(16));
        self.polls = self.polls.saturating_add(1);
        let until = Instant::now() + patience.min(settings.poll_for);
        Ok(Feed::Poll(Poll::new(self.settings.poll_interval), until))
    }

    /// Tells what a source says until it breaks.
    async fn feed(&mut self, feed: &mut Feed) -> Result<(), End> {
        // What happened before the subscription took effect.
        if let Err(error) = self.catch_up(feed.source()).await? {
            return self.trouble(&error);
        }
        loop {
            // From the last answer too: a chain that stands still is asked about once per limit, not all the time.
            let silent_at = self.advanced.max(self.heard) + self.settings.silence;
            let head = tokio::select! {
                biased;
                // First: a block that is there already ends the silence.
                head = next(feed, &self.reader) => head,
                () = tokio::time::sleep_until(silent_at) => {
                    match self.break_silence().await? {
                        true => continue,
                        false => return Ok(()),
                    }
                }
            };
            let told = match head {
                Ok(Head::Block(block)) => self.block(*block).await?,
                Ok(Head::Tip(tip)) => {
                    self.heard = Instant::now();
                    self.fill(tip).await?
                }
                Err(error) => Err(error),
            };
            if let Err(error) = told {
                return self.trouble(&error);
            }
            self.check_processed()?;
            self.check_lasting().await?;
            // The caller opens anew and tries a websocket first.
            if matches!(feed, Feed::Poll(_, until) if Instant::now() >= *until) {
                return Ok(());
            }
        }
    }

    /// Asks all nodes after a silence. True when the chain itself stands still.
    async fn break_silence(&mut self) -> Result<bool, End> {
        match self.reader.endpoints.sync_info().await {
            Ok(info) if info.height >= self.next => {
                self.fail("a subscription is silent although there are new blocks");
                self.cut_off();
                if let Err(error) = self.fill(info.height).await? {
                    self.trouble(&error)?;
                }
                Ok(false)
            }
            Ok(info) => {
                self.heard = Instant::now();
                // Since the last block, not since somebody noticed.
                let since = SystemTime::now() - self.advanced.elapsed();
                let is_new = self.reader.note(|s| {
                    let is_new = s.silent_since.is_none();
                    s.silent_since.get_or_insert(since);
                    is_new
                });
                if is_new {
                    tracing::warn!(height = info.height, "no node has a new block");
                }
                Ok(true)
            }
            Err(error) => {
                self.trouble(&error)?;
                Ok(false)
            }
        }
    }

    /// Tells everything up to the newest height.
    async fn catch_up(&mut self, source: Source) -> Result<Result<(), NodeError>, End> {
        match self.reader.endpoints.sync_info().await {
            Ok(info) => {
                self.heard = Instant::now();
                // Not before: that something is open says little, nodes that are frozen take connections too.
                self.reader.note(|s| s.source = source);
                self.fill(info.height).await
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Tells a block that was pushed, after those before it. A subscription that is far behind what its node is known
    /// to have holds nothing up: the rest is asked for.
    async fn block(&mut self, block: Block) -> Result<Result<(), NodeError>, End> {
        self.heard = Instant::now();
        let height = block.height;
        if let Err(error) = self.check_pushed(height).await {
            return Ok(Err(error));
        }
        // One below was fetched before it was pushed.
        if block.height >= self.next {
            if let Err(mut error) = self.fill(block.height - 1).await? {
                if error.is_about_height() {
                    // The pushed height is false, or of a node ahead: no reason to read everything again.
                    error.fault = Fault::Untrusted(format!(
                        "pushed height {height} without the blocks below: {error}"
                    ));
                }
                return Ok(Err(error));
            }
            let is_newest = block.height >= self.reader.endpoints.newest();
            self.tell_block(block, is_newest).await?;
        }
        if height.saturating_add(LAG_MAX) < self.next {
            self.reader.endpoints.reconsider().await;
        }
        let newest = self.reader.endpoints.newest();
        if newest >= self.next + LAG_MAX {
            return self.fill(newest).await;
        }
        Ok(Ok(()))
    }

    /// Checks a pushed height that is further ahead than nodes may differ: a status must name it too, because a status is
    /// checked by the clock and with a header.
    async fn check_pushed(&self, height: Height) -> Result<(), NodeError> {
        let endpoints = &self.reader.endpoints;
        // Not from the last pushed block: a node can push any number of false next heights.
        if height <= endpoints.newest().saturating_add(LAG_MAX) {
            return Ok(());
        }
        let info = endpoints.sync_info().await?;
        if height <= info.height.saturating_add(LAG_MAX) {
            return Ok(());
        }
        // The node with this height may be another one than the one that was queried.
        endpoints.reconsider().await;
        let why = format!(
            "pushed height {height} is above height {} of the status",
            info.height
        );
        Err(NodeError {
            endpoint: endpoints.chain_id().into(),
            method: "subscribe".into(),
            fault: Fault::Untrusted(why),
        })
    }

    /// Fetches and tells every block up to a height, which some node has just named as its newest, or which is just
    /// below.
    async fn fill(&mut self, to: Height) -> Result<Result<(), NodeError>, End> {
        if to < self.next {
            return Ok(Ok(()));
        }
        let missing = to - self.next + 1;
        // Telling the whole present is faster than so many single blocks.
        if missing > self.settings.gap_max {
            return Err(End::Gap(format!("{missing} blocks were missed")));
        }
        let endpoints = self.reader.endpoints.clone();
        let fetch = |height| {
            let endpoints = endpoints.clone();
            async move { endpoints.block(height).await }
        };
        let mut blocks = stream::iter(self.next..=to)
            .map(fetch)
            // Keeps the order, however many are fetched at once.
            .buffered(self.settings.parallel);
        while let Some(block) = blocks.next().await {
            match block {
                Ok(block) => {
                    self.reader.note(|s| s.fetched += 1);
                    let is_newest = block.height == to;
                    self.tell_block(block, is_newest).await?;
                }
                // Waiting brings no dropped block back.
                Err(error) if matches!(error.fault, Fault::Pruned(_)) => {
                    return Err(End::Gap(format!("block {} cannot be had: {error}", self.next)));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    async fn tell_block(&mut self, block: Block, is_newest: bool) -> Result<(), End> {
        let Block {
            height,
            time,
            facts,
            txs,
        } = block;
        // Before the facts, which may wait for the listener: outcomes must not reach the writer late.
        if let Some(witness) = &self.reader.witness {
            witness.saw(height, time, is_newest, txs);
        }
        let (malformed, of_others): (Vec<_>, Vec<_>) = facts.malformed.into_iter().partition(|event| {
            let provider = event.provider.as_ref();
            provider.is_none_or(|provider| *provider == self.provider)
        });
        for event in &of_others {
            tracing::debug!(%event, "an event of another provider cannot be read, and need not be");
        }
        for event in &malformed {
            tracing::warn!(%event, "an event cannot be read; the whole present is told before long");
        }
        if let Some(first) = malformed.first() {
            let why = format!("an event cannot be read: {first}");
            self.lost.get_or_insert(why);
        }
        let count = u64::try_from(malformed.len()).unwrap_or_default();
        self.reader.note(|s| {
            s.blocks += 1;
            s.malformed += count;
            if let Some(last) = malformed.into_iter().last() {
                s.last_malformed = Some(last);
            }
        });
        for fact in facts.facts {
            if fact.concerns(&self.provider) {
                self.tell(fact).await?;
            }
        }
        // Last: it says that everything up to this height was told.
        self.tell(ChainEvent::Block { height, time }).await?;
        self.next = height + 1;
        self.told(height, time);
        // After the block is complete: a `Resync` comes between two blocks only.
        match &self.lost {
            Some(why) if self.may_resync() => Err(End::Gap(why.clone())),
            _ => Ok(()),
        }
    }
}

async fn next(feed: &mut Feed, reader: &Reader) -> Result<Head, NodeError> {
    match feed {
        Feed::Socket(socket) => Ok(Head::Block(Box::new(socket.next().await?))),
        Feed::Poll(poll, _) => Ok(Head::Tip(poll.next(&reader.endpoints).await?)),
    }
}
