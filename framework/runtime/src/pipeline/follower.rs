//! The part of every rank but 0: do as the conductor says.

use super::orders::{Prepare, Ready, Switch};
use super::probe;
use super::rank::Rank;
use super::workshop::SetUp;
use crate::comm::message::Tag;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Config;
use crate::wire;

/// Runs this rank until rank 0 says that the stream is over.
pub(crate) fn follow<'scope, 'p: 'scope>(mut rank: Rank<'_, 'scope, '_, 'p>, config: &Config) -> Result<()> {
    let mut balanced = false;
    loop {
        let Some(message) = rank.control() else {
            rank.turn_or_wait()?;
            if balanced {
                rank.probe_if_parked();
            }
            if let Some(measures) = rank.measures_due() {
                rank.endpoint().send(0, Tag::Measures, &measures)?;
            }
            continue;
        };
        match message.tag::<Tag>()? {
            Tag::Prepare => {
                let order: Prepare = wire::from_bytes(&message.body)?;
                rank.log_events(config.events.as_deref(), order.elapsed);
                balanced = order.measure_every.is_some();
                prepare(&mut rank, order)?;
            }
            Tag::Switch => {
                let Switch { epoch } = wire::from_bytes(&message.body)?;
                rank.switch(epoch)?;
            }
            Tag::Probe => probe::answer(rank.endpoint(), &message)?,
            Tag::Finish => break,
            other => {
                let text = format!("rank {} sent {other:?}, which only rank 0 understands", message.from);
                return Err(Error::new(ErrorKind::Wire, text).at_rank(rank.number()));
            }
        }
    }
    let (report, endpoint) = rank.finish()?;
    endpoint.send(0, Tag::Report, &report)
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
    rank.endpoint().send(0, Tag::Ready, &Ready { epoch, movable, warm_up })
}
