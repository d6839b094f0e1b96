//! The part of every rank but 0: do as the conductor says.

use super::conductor::Start;
use super::probe;
use super::rank::Rank;
use crate::error::{Error, ErrorKind, Result};
use crate::session::post::Kind;
use crate::wire;

/// Runs this rank until rank 0 says that the stream is over. `names` are the stages that this rank has built.
pub(crate) fn follow<'scope, 'p: 'scope>(mut rank: Rank<'_, 'scope, '_, 'p>, names: &[String]) -> Result<()> {
    loop {
        let Some(letter) = rank.control() else {
            rank.turn_or_wait()?;
            continue;
        };
        match letter.kind {
            Kind::Start => {
                let Start { table, ahead, names: theirs, states } = wire::from_bytes(&letter.body)?;
                if theirs != names {
                    let text = format!(
                        "built a pipeline of stages {names:?}, rank 0 one of {theirs:?}: every rank must build the same"
                    );
                    return Err(Error::new(ErrorKind::Config, text).at_rank(rank.number()));
                }
                if !table.hosts(rank.number()) {
                    log::debug!("parked: the mapping has nothing for this rank");
                }
                rank.host(&table, states)?;
                rank.begin(table, ahead, None)?;
                rank.post().send(0, Kind::Ready, &())?;
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
