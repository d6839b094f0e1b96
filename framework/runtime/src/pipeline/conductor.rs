//! Rank 0's part of a run: choose a mapping, start everybody, see the stream through, collect the reports.

mod looks;

use std::time::Duration;

use armature_planner::pipeline::Mapping;

use super::balancer::Balancer;
use super::cost::CostMeter;
use super::ledger::RankReport;
use super::machine::table::Table;
use super::orders::{Prepare, Ready, Switch};
use super::probe::{self, Probed};
use super::rank::Rank;
use super::remaps::Remap;
use super::score::Score;
use super::summary::Summary;
use super::tuning::{Standing, Tuning};
use crate::comm::message::{Message, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Display, Event};
use crate::session::{Balance, Config};
use crate::wire;

/// An automatic mapping is planned after this many items and this long, or, where items are slow, after one
/// item and `CALIBRATE_MOST`.
const CALIBRATE_ITEMS: u64 = 8;
const CALIBRATE_TIME: Duration = Duration::from_millis(50);
const CALIBRATE_MOST: Duration = Duration::from_secs(2);
/// Batches on which the sizes of items are taken.
const SIZED_BATCHES: usize = 3;
/// For so long what was probed is taken to be true in the next run, too; measurements correct it.
const PROBE_LASTS: Duration = Duration::from_secs(5);
/// Turns between two looks at what is not urgent.
const TURNS_PER_LOOK: u32 = 64;

/// Runs rank 0 to the end of the stream.
pub(crate) fn conduct<'scope, 'p: 'scope>(
    mut rank: Rank<'_, 'scope, '_, 'p>,
    score: Score<'_>,
    config: &Config,
) -> Result<Summary> {
    let mut summary = Conductor::new(&mut rank, score, config).and_then(Conductor::run)?;
    summary.ranks = collect_reports(rank)?;
    let arrived = |r: &RankReport| r.stages.iter().map(|s| s.dropped).sum::<u64>();
    summary.delivered = summary.items - summary.ranks.iter().map(arrived).sum::<u64>();
    Ok(summary)
}

/// A mapping that is being prepared.
struct Change {
    mapping: Mapping,
    remap: Remap,
    /// Ranks that have not said that they are ready.
    waiting: Vec<usize>,
}

struct Conductor<'c, 'a, 'scope, 'env, 'p> {
    rank: &'c mut Rank<'a, 'scope, 'env, 'p>,
    score: Score<'c>,
    config: &'c Config,
    display: Display,
    balancer: Balancer,
    tuning: Option<Tuning>,
    cost: CostMeter,
    balance: Balance,
    start: Duration,
    /// The mapping in force.
    mapping: Mapping,
    change: Option<Change>,
    remaps: Vec<Remap>,
    calibrating: bool,
    /// When the calibration was over, and items drawn by then.
    calibrated: Option<(Duration, u64)>,
    predicted: Option<f64>,
}

impl<'c, 'a, 'scope, 'env, 'p: 'scope> Conductor<'c, 'a, 'scope, 'env, 'p> {
    fn new(rank: &'c mut Rank<'a, 'scope, 'env, 'p>, score: Score<'c>, config: &'c Config) -> Result<Self> {
        let start = rank.clock().now();
        let planned = score.mapping.is_none();
        let balance = config.balance.unwrap_or(if planned { Balance::Live } else { Balance::Off });
        rank.log_events(config.events.as_deref(), Duration::ZERO);
        Ok(Conductor {
            balancer: Balancer::new(&score, rank.size(), balance, rank.clock().is_simulated())?,
            tuning: Tuning::new(balance, rank.size())?,
            cost: CostMeter::new(),
            balance,
            mapping: score.first(),
            calibrating: planned,
            rank,
            score,
            config,
            display: Display::new(config.progress, start),
            start,
            change: None,
            remaps: Vec::new(),
            calibrated: None,
            predicted: None,
        })
    }

    fn run(mut self) -> Result<Summary> {
        let (ranks, mapping, balance) = (self.rank.size(), self.text(&self.mapping), self.balance);
        self.rank.tell(|| Event::Start { ranks, mapping, balance: format!("{balance:?}").to_lowercase() });
        if ranks > 1 && (self.calibrating || self.tuning.is_some()) {
            let probed = self.probe()?;
            let sharing = self.score.sharing;
            self.rank.tell(|| probe::event(&probed, sharing));
            self.balancer.probed(probed);
        }
        self.begin(self.mapping.clone(), Remap::first())?;
        let mut turns = 0u32;
        loop {
            while let Some(message) = self.rank.control() {
                self.hear(message)?;
            }
            turns = turns.wrapping_add(1);
            self.watch_cost();
            if self.calibrating || !self.score.script.is_empty() || turns.is_multiple_of(TURNS_PER_LOOK) {
                self.look()?;
            }
            // Only now: while a mapping is prepared the stream goes on, perhaps to its end. Before the first mapping
            // is in force nothing has been drawn, and nothing is over.
            if self.rank.epoch() > 0 && self.rank.source().is_none_or(|s| s.is_over()) {
                break;
            }
            self.rank.turn_or_wait()?;
        }
        self.end()
    }

    /// The platform, probed now or a moment ago.
    fn probe(&mut self) -> Result<Probed> {
        let now = self.rank.clock().now();
        if let Some((when, probed)) = &*self.score.probed.borrow()
            && now.saturating_sub(*when) < PROBE_LASTS
        {
            return Ok(probed.clone());
        }
        let probed = probe::platform(self.rank, self.score.sharing)?;
        self.score.probed.replace(Some((now, probed.clone())));
        Ok(probed)
    }

    fn end(mut self) -> Result<Summary> {
        if let Some(standing) = self.standing() {
            let news = self.cost.end(standing);
            self.note_cost(standing, news);
        }
        let now = self.rank.clock().now();
        let (items, elapsed) = (self.drawn(), now.saturating_sub(self.start));
        self.rank.tell(|| Event::Finish { items, seconds: elapsed.as_secs_f64() });
        let (calibration, calibration_items) = match self.calibrated {
            Some((at, items)) => (at.saturating_sub(self.start), items),
            None => (Duration::ZERO, 0),
        };
        Ok(Summary {
            stages: self.score.outline.stages.iter().map(|s| s.name.clone()).collect(),
            mapping_text: self.text(&self.mapping),
            mapping: self.mapping.clone(),
            items,
            delivered: 0,
            elapsed,
            calibration,
            calibration_items,
            predicted: self.predicted,
            remaps: self.remaps,
            ranks: Vec::new(),
        })
    }

    fn text(&self, mapping: &Mapping) -> String {
        mapping.display(&self.score.outline).to_string()
    }

    fn drawn(&mut self) -> u64 {
        self.rank.source().map_or(0, |s| s.items_drawn())
    }

    /// Takes in what another rank says.
    fn hear(&mut self, message: Message) -> Result<()> {
        match (message.tag()?, &mut self.change) {
            (Tag::Ready, Some(change)) => {
                let ready: Ready = wire::from_bytes(&message.body)?;
                change.waiting.retain(|&rank| rank != message.from);
                let all = change.waiting.is_empty();
                self.balancer.ready(message.from, &ready.movable, &ready.warm_up);
                if all { self.switch() } else { Ok(()) }
            }
            (Tag::Measures, _) => {
                let now = self.rank.clock().now();
                self.balancer.measured(message.from, wire::from_bytes(&message.body)?, now)
            }
            (other, _) => Err(out_of_step(message.from, other, "in the middle of the stream")),
        }
    }

    /// Has a mapping prepared on every rank. It comes into force when all are ready.
    fn begin(&mut self, mapping: Mapping, remap: Remap) -> Result<()> {
        let epoch = self.rank.epoch() + 1;
        let serial: Vec<bool> = self.score.outline.stages.iter().map(|s| s.serial).collect();
        let table = Table::new(epoch, mapping.clone(), self.score.dispatch, &serial, self.score.ordered);
        let weigh = if epoch == 1 && self.balancer.wants_measures() { SIZED_BATCHES } else { 0 };
        let mut order = Prepare {
            table: table.clone(),
            weigh,
            elapsed: self.rank.clock().now().saturating_sub(self.start),
            measure_every: self.balancer.measure_every(),
            links: Vec::new(),
        };
        let text = self.text(&mapping);
        self.rank.tell(|| Event::Prepare { epoch, mapping: text });
        if epoch > 1
            && let Some(standing) = self.standing()
        {
            let news = self.cost.ordered(standing);
            self.note_cost(standing, news);
        }
        let waiting: Vec<usize> = (1..self.rank.size()).collect();
        for &to in &waiting {
            order.links = self.balancer.links_into(to);
            self.rank.endpoint().send(to, Tag::Prepare, &order)?;
        }
        self.change = Some(Change { mapping, remap, waiting });
        self.rank.measure(weigh, None)?;
        self.rank.watch_links(&self.balancer.links_into(0));
        let mine = self.rank.prepare(table)?;
        self.balancer.ready(0, &mine.movable, &mine.warm_up);
        if self.rank.size() == 1 { self.switch() } else { Ok(()) }
    }

    /// All are ready: the mapping that was prepared comes into force.
    fn switch(&mut self) -> Result<()> {
        let Some(Change { mapping, mut remap, .. }) = self.change.take() else { return Ok(()) };
        let epoch = self.rank.epoch() + 1;
        for to in 1..self.rank.size() {
            self.rank.endpoint().send(to, Tag::Switch, &Switch { epoch })?;
        }
        let window = self.score.window(&mapping, self.config, self.calibrating);
        let now = self.rank.clock().now();
        if let Some(source) = self.rank.source() {
            source.replan(window);
            remap.in_force(now.saturating_sub(self.start), source.items_done(), source.flow().in_flight);
        }
        self.rank.switch(epoch)?;
        let text = self.text(&mapping);
        self.rank.tell(|| Event::Switch { epoch, mapping: text.clone() });
        if epoch > 1
            && let Some(standing) = self.standing()
        {
            self.cost.in_force(standing);
            self.tuning.iter_mut().for_each(Tuning::changed);
        }
        if self.calibrating {
            log::debug!("calibrating with {text}");
        } else if self.rank.size() > 1 {
            let hosts = |r: &usize| mapping.blocks.iter().any(|b| b.hosts.contains(r));
            let parked: Vec<usize> = (0..self.rank.size()).filter(|r| !hosts(r)).collect();
            let parked =
                if parked.is_empty() { String::new() } else { format!("; parked: ranks {parked:?}") };
            log::info!("mapping {text}{parked}");
        }
        self.mapping = mapping;
        remap.to = text;
        self.remaps.push(remap);
        Ok(())
    }

    /// The stream as it stands now.
    fn standing(&mut self) -> Option<Standing> {
        let now = self.rank.clock().now();
        let elapsed = now.saturating_sub(self.start);
        let source = self.rank.source()?;
        let (items, drawn, left) = (source.items_done(), source.items_drawn(), source.items_left());
        Some(Standing { now, elapsed, items, drawn, left, batches: source.batches() })
    }
}

/// Lets the other ranks go and takes their reports.
fn collect_reports<'scope, 'p: 'scope>(mut rank: Rank<'_, 'scope, '_, 'p>) -> Result<Vec<RankReport>> {
    let size = rank.size();
    for to in 1..size {
        rank.endpoint().send(to, Tag::Finish, &())?;
    }
    let mut reports: Vec<Option<RankReport>> = vec![None; size];
    while reports.iter().skip(1).any(Option::is_none) {
        match rank.control() {
            Some(message) if message.is(Tag::Report) => {
                reports[message.from] = Some(wire::from_bytes(&message.body)?);
            }
            // The stream was over before the mapping that they prepared was needed.
            Some(message) if message.is(Tag::Ready) || message.is(Tag::Measures) => {}
            Some(message) => {
                return Err(out_of_step(message.from, message.tag()?, "at the end of the stream"));
            }
            None => rank.turn_or_wait()?,
        }
    }
    reports[0] = Some(rank.finish()?.0);
    Ok(reports.into_iter().flatten().collect())
}

fn out_of_step(from: usize, tag: Tag, when: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {tag:?} {when}"))
}
