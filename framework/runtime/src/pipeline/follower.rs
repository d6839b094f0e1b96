//! The part of every rank but 0: do as the conductor says.

use super::orders::{Prepare, Ready, Switch};
use super::probe;
use super::rank::Rank;
use super::workshop::SetUp;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Config;
use crate::session::letter::Kind;
use crate::wire;

/// Runs this rank until rank 0 says that the stream is over.
pub(crate) fn follow<'scope, 'p: 'scope>(mut rank: Rank<'_, 'scope, '_, 'p>, config: &Config) -> Result<()> {
    let mut balanced = false;
    loop {
        let Some(letter) = rank.control() else {
            rank.turn_or_wait()?;
            if balanced {
                rank.probe_if_parked();
            }
            if let Some(measures) = rank.measures_due() {
                rank.post().send(0, Kind::Measures, &measures)?;
            }
            continue;
        };
        match letter.kind {
            Kind::Prepare => {
                let order: Prepare = wire::from_bytes(&letter.body)?;
                rank.log_events(config.events.as_deref(), order.elapsed);
                balanced = order.measure_every.is_some();
                prepare(&mut rank, order)?;
            }
            Kind::Switch => {
                let Switch { epoch } = wire::from_bytes(&letter.body)?;
                rank.switch(epoch)?;
            }
            Kind::Probe => probe::answer(rank.post(), &letter)?,
            Kind::Finish => break,
            other => {
                let text = format!("rank {} sent {other:?}, which only rank 0 understands", letter.from);
                return Err(Error::new(ErrorKind::Wire, text).at_rank(rank.number()));
            }
        }
    }
    let (report, post) = rank.finish()?;
    post.send(0, Kind::Report, &report)
}

/// Sets up for a mapping and says so.
fn prepare<'scope, 'p: 'scope>(rank: &mut Rank<'_, 'scope, '_, 'p>, order: Prepare) -> Result<()> {
    let Prepare { table, weigh, measure_every, links, .. } = order;
    if !table.hosts(rank.number()) {
        log::debug!("parked: the mapping has nothing for this rank");
    }
    rank.measure(weigh, measure_every)?;
    rank.watch_links(&links);
    let epoch = table.epoch;
    let SetUp { movable, warm_up } = rank.prepare(table)?;
    rank.post().send(0, Kind::Ready, &Ready { epoch, movable, warm_up })
}
