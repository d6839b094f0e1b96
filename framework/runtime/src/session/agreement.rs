//! Agreement of all ranks on what to run: before a run of a skeleton or collective operation begins, each rank compares its announcement of the
//! run with that of rank 0.
//!
//! Results are correct only if every rank runs the same program. Therefore the first message of each run comes from rank 0 and describes
//! the run. A rank that is about to run something else ends the job before it has computed or sent anything in that run. Rank 0 does not
//! wait for the other ranks: every message that it receives in the run comes from a rank that agrees. The end of the program counts as a
//! run, so that a rank that runs fewer skeletons than rank 0 is detected.
//!
//! Rank 0 sends the announcement of a skeleton to each rank. A [broadcast value](super::values) is forwarded from rank to rank, and its
//! first piece contains the announcement.

use std::fmt::{Debug, Display, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Message, Tagged};
use crate::comm::waiting::{Limits, Waits};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

/// Description of the run (of a skeleton or a collective operation) that a rank is about to begin. The rank compares it with that of rank
/// 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// Description of the run in error messages, where it follows "rank 1": `runs the farm "a"`.
    what: String,
    /// Names and values of everything that must be equal on all ranks, such as options and stages.
    details: Vec<(String, Detail)>,
    /// True if the run can continue without ranks that have died.
    survives: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Detail {
    Text(String),
    /// Checksum of a value that is too long for a message.
    Checksum(u32),
}

struct Hashed(crc32fast::Hasher);

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl Announcement {
    /// Creates the announcement (description of the next run) of a collective operation. `what` describes the operation in error messages,
    /// where it follows "rank 1".
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Announcement { what: what.into(), details: Vec::new(), survives: false }
    }

    pub(crate) fn without_the_dead(self) -> Self {
        Announcement { survives: true, ..self }
    }

    /// Adds an option whose value must be equal on all ranks. `name` is the method by which the program sets the option.
    pub(crate) fn with(mut self, name: &str, value: impl Display) -> Self {
        self.details.push((name.to_string(), Detail::Text(value.to_string())));
        self
    }

    /// Adds an optional value that must be equal on all ranks, and is too long for a message: ranks compare only a checksum of the value's
    /// `Debug` text. `name` is a noun without an article, such as `plan`.
    pub(crate) fn with_checksum(mut self, name: &str, value: Option<&impl Debug>) -> Self {
        if let Some(value) = value {
            let mut text = Hashed(crc32fast::Hasher::new());
            // An error in writing the `Debug` text is ignored, because neither `Hashed` nor a derived `Debug` fails.
            let _ = write!(text, "{value:?}");
            self.details.push((name.to_string(), Detail::Checksum(text.0.finalize())));
        }
        self
    }

    /// Returns the first difference between this rank's description of the run and that of rank 0, as a sentence that follows "rank 1: ";
    /// `None` if both announcements are equal.
    pub(super) fn differs_from(&self, root: &Announcement) -> Option<String> {
        if self == root {
            return None;
        }
        let Announcement { what, .. } = self;
        if *what != root.what {
            return Some(format!("{what}, but rank 0 {}", root.what));
        }
        let value = |of: &'_ Announcement, name: &str| {
            of.details.iter().find(|detail| detail.0 == name).map(|detail| detail.1.clone())
        };
        // Settings at equal positions in the lists of this rank and of rank 0 are compared first, because a name may occur several times, such as a
        // setting of each stage of a pipeline.
        let pairs = self.details.iter().zip(&root.details).filter(|(mine, theirs)| mine.0 == theirs.0);
        let pairs =
            pairs.map(|(mine, theirs)| (mine.0.as_str(), Some(mine.1.clone()), Some(theirs.1.clone())));
        let names = self.details.iter().chain(&root.details).map(|detail| detail.0.as_str());
        let mut differing = pairs
            .chain(names.map(|name| (name, value(self, name), value(root, name))))
            .filter(|(_, mine, theirs)| mine != theirs);
        Some(match differing.next() {
            Some((name, Some(Detail::Checksum(_)), Some(Detail::Checksum(_)))) => {
                format!("{what} with another {name} than rank 0")
            }
            Some((name, mine, theirs)) => {
                let shown = |detail| match detail {
                    Some(Detail::Text(text)) => format!("{name} {text}"),
                    Some(Detail::Checksum(_)) => format!("a {name}"),
                    None => format!("no {name}"),
                };
                format!("{what} with {}, but rank 0 with {}", shown(mine), shown(theirs))
            }
            None => format!("{what} with its settings in another order than rank 0"),
        })
    }
}

/// Beginning of the first message of a run. The message is an announcement, or the first piece of a broadcast value.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    pub(super) what: Announcement,
    /// Ranks that are taken for dead, ascending. Only rank 0 detects deaths. After this message no rank waits for these ranks, so that all ranks
    /// leave out the same ranks.
    pub(super) lost: Vec<usize>,
}

/// Advice at the end of error messages about ranks that are about to run different skeletons.
const REMEDY: &str = "every rank must run the same skeletons, in the same order and with the same settings; they must \
                      not depend on values that only rank 0 has, such as the results of a farm";

/// Ranks that disagree with rank 0 report the disagreement one after the other, in the order of their numbers. This interval between two reports is
/// several times the time of a message, so that a rank learns of the report of a lower rank before its own report is due, and does not send it.
const TURN: Duration = Duration::from_millis(50);
/// Maximum delay before a rank reports that it disagrees with rank 0, so that the job ends within a second.
const LAST_TURN: Duration = Duration::from_millis(400);

impl Endpoint {
    /// Begins the next run, which rank 0 announces to all other ranks. Returns the number of the run.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if rank 0 is about to run something else; [`ErrorKind::Timeout`] if the announcement of rank 0 does not arrive within
    /// `limit`, or rank 0 or a needed rank is dead. The error has been reported to all ranks, and the job ends.
    pub(crate) fn begin_run(&mut self, mine: &Announcement, limit: Duration) -> Result<u32> {
        let joined = self.next_run_of(mine).and_then(|run| {
            match self.rank() {
                0 => self.announce(mine)?,
                _ => {
                    let waits =
                        Waits { rank: 0, limits: Limits { join: limit, peer: limit }, heartbeats_to: &[] };
                    self.await_opening(mine, &waits)?;
                }
            }
            Ok(run)
        });
        joined.inspect_err(|error| self.report(error))
    }

    /// Begins the next run like [`begin_run`](Endpoint::begin_run), unless the job was asked to stop.
    ///
    /// # Errors
    /// The errors of [`begin_run`](Endpoint::begin_run); [`ErrorKind::Stopped`] on all ranks if the job was asked to stop.
    pub(crate) fn begin_work(&mut self, mine: &Announcement, limit: Duration) -> Result<u32> {
        if self.rank() > 0 {
            let run = self.begin_run(mine, limit)?;
            return self.check_run_stopped().map(|()| run);
        }
        let run = self.next_run_of(mine).inspect_err(|error| self.report(error))?;
        // Other ranks begin the run as soon as they receive its announcement, so a request to stop is sent before the announcement.
        let is_stopped =
            self.is_stop_requested(self.clock().now()).and_then(|is_requested| match is_requested {
                true => self.stop_run(&format!("the job {} when it is continued", mine.what)),
                false => Ok(()),
            });
        is_stopped.and_then(|()| self.announce(mine)).inspect_err(|error| self.report(error))?;
        self.check_run_stopped().map(|()| run)
    }

    /// Starts the next run and returns its number.
    ///
    /// # Errors
    /// On rank 0, [`ErrorKind::Timeout`] if ranks have died that the run needs. The other ranks receive this failure from rank 0.
    pub(super) fn next_run_of(&mut self, mine: &Announcement) -> Result<u32> {
        let run = self.next_run();
        if self.rank() != 0 || self.lost().is_empty() || mine.survives {
            return Ok(run);
        }
        let text = format!(
            "{}, which needs all ranks, but rank(s) {:?} have died; only farms and workflows continue without dead ranks",
            mine.what,
            self.lost()
        );
        // A restarted job has all ranks again, so this error about dead ranks permits a restart.
        Err(Error::new(ErrorKind::Timeout, text).at_rank(self.rank()))
    }

    /// Sends the announcement of rank 0 to all ranks. Ranks that were taken for dead receive it as well, because a rank that was only slow would
    /// wait for it.
    fn announce(&mut self, mine: &Announcement) -> Result<()> {
        let opening = Opening { what: mine.clone(), lost: self.lost().to_vec() };
        (1..self.size()).try_for_each(|to| self.send(to, Control::Announce, &opening))
    }

    /// Waits for the first message of a run, and compares the description of the run in it with that of this rank. Returns the message and
    /// the dead ranks that rank 0 lists in it.
    ///
    /// # Errors
    /// The errors of [`begin_run`](Endpoint::begin_run); the errors are not sent to the other ranks.
    pub(super) fn await_opening(
        &mut self,
        mine: &Announcement,
        waits: &Waits<'_>,
    ) -> Result<(Message, Vec<usize>)> {
        let is_piece = |tag| tag == Control::Piece.byte() || tag == Control::LastPiece.byte();
        let message = self.await_from(
            waits,
            |from, tag| from == 0 && tag == Control::Announce.byte() || is_piece(tag),
            || format!("for rank {}, before it {}", waits.rank, mine.what),
        )?;
        let root: Opening = wire::from_bytes(&message.body)?;
        self.learn_of(&root.lost);
        match mine.differs_from(&root.what) {
            None => Ok((message, root.lost)),
            Some(difference) => {
                self.await_failure_of_others()?;
                let text = format!("{difference}: {REMEDY}");
                Err(Error::new(ErrorKind::Config, text).at_rank(self.rank()))
            }
        }
    }

    /// Waits for the failure report of another rank. The wait is longer on ranks with higher numbers, so that only one of the ranks that disagree
    /// with rank 0 sends a report.
    ///
    /// # Errors
    /// The failure of the other rank.
    fn await_failure_of_others(&mut self) -> Result<()> {
        let clock = self.clock();
        if !self.capabilities().real_time {
            return Ok(());
        }
        let before = u32::try_from(self.rank()).unwrap_or(u32::MAX).saturating_sub(1);
        let until = clock.now() + TURN.saturating_mul(before).min(LAST_TURN);
        while clock.now() < until {
            // This poll accepts no message, so all messages stay in their queue; it only returns an error if another rank has reported a failure.
            self.poll_for(|_, _| false)?;
            self.transport().wait(Some(TURN / 10))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::local::{LocalTransport, World};
    use crate::comm::message::messages;

    messages! {
        "this test";
        enum Tag {
            Number = 16,
        }
    }

    fn farm(name: &str, tasks: &str) -> Announcement {
        Announcement::new(format!("runs the farm {name:?}")).with("tasks of type", tasks).with("retries", 2)
    }

    #[test]
    fn first_difference_is_reported_with_both_values() {
        let differs = |mine: Announcement, root: Announcement| mine.differs_from(&root);
        assert_eq!(differs(farm("a", "u8"), farm("a", "u8")), None);
        let text = differs(farm("b", "u8"), farm("a", "u8")).unwrap();
        assert_eq!(text, "runs the farm \"b\", but rank 0 runs the farm \"a\"");
        let text = differs(farm("a", "u8"), farm("a", "u16")).unwrap();
        assert_eq!(text, "runs the farm \"a\" with tasks of type u8, but rank 0 with tasks of type u16");
        let text = differs(farm("a", "u8"), farm("a", "u8").with("order", "any")).unwrap();
        assert!(text.ends_with("with no order, but rank 0 with order any"), "{text}");
        let with_plan = |plan: Option<u8>| farm("a", "u8").with_checksum("plan", plan.as_ref());
        assert_eq!(differs(with_plan(Some(1)), with_plan(Some(1))), None);
        let text = differs(with_plan(Some(1)), with_plan(Some(2))).unwrap();
        assert_eq!(text, "runs the farm \"a\" with another plan than rank 0");
        let text = differs(with_plan(Some(1)), with_plan(None)).unwrap();
        assert_eq!(text, "runs the farm \"a\" with a plan, but rank 0 with no plan");
    }

    fn endpoints(ranks: usize) -> Vec<Endpoint> {
        let world = World::new(ranks);
        let endpoint = |rank| {
            Endpoint::new(Box::new(LocalTransport::open(world.clone(), rank)), Duration::from_millis(1))
        };
        (0..ranks).map(endpoint).collect()
    }

    #[test]
    fn early_messages_are_kept_in_order_during_agreement() {
        let [mut root, mut early, mut late] = <[Endpoint; 3]>::try_from(endpoints(3)).unwrap();
        let (what, limit) = (farm("a", "u8"), Duration::from_secs(10));
        root.begin_run(&what, limit).unwrap();
        early.begin_run(&what, limit).unwrap();
        for number in 0..3u8 {
            early.send(2, Tag::Number, &number).unwrap();
        }
        root.send(2, Tag::Number, &9u8).unwrap();
        assert_eq!(late.begin_run(&what, limit).unwrap(), 1);
        let mut numbers = Vec::new();
        while let Some(message) = late.poll().unwrap() {
            numbers.push((message.from, wire::from_bytes::<u8>(&message.body).unwrap()));
        }
        numbers.sort_by_key(|(from, _)| *from);
        assert_eq!(numbers, [(0, 9), (1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn disagreement_ends_the_job_on_all_ranks() {
        let [mut root, mut other] = <[Endpoint; 2]>::try_from(endpoints(2)).unwrap();
        root.begin_run(&farm("a", "u8"), Duration::from_secs(10)).unwrap();
        let error = other.begin_run(&farm("b", "u8"), Duration::from_secs(10)).unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Config, Some(1)));
        assert!(error.message().contains("but rank 0 runs the farm \"a\": every rank must"), "{error}");
        assert_eq!(root.poll().unwrap_err().to_string(), error.to_string());
    }

    #[test]
    fn runs_needing_all_ranks_are_refused_after_deaths() {
        let [mut root, mut other] = <[Endpoint; 2]>::try_from(endpoints(2)).unwrap();
        root.lose(1, "it never was");
        root.begin_run(&farm("a", "u8").without_the_dead(), Duration::ZERO).unwrap();
        assert!(
            other.begin_run(&farm("a", "u8").without_the_dead(), Duration::ZERO).is_ok(),
            "it was only slow"
        );
        assert!(other.lost().is_empty(), "a rank that was only slow is not lost to itself");
        let error = root.begin_run(&farm("a", "u8"), Duration::ZERO).unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Timeout, Some(0)));
        assert!(error.message().contains("rank(s) [1] have died"), "{error}");
    }

    #[test]
    fn lost_ranks_are_announced_at_the_next_run() {
        let [mut root, mut other, _dead] = <[Endpoint; 3]>::try_from(endpoints(3)).unwrap();
        root.lose(2, "it never was");
        let what = farm("a", "u8").without_the_dead();
        root.begin_run(&what, Duration::ZERO).unwrap();
        other.begin_run(&what, Duration::from_secs(10)).unwrap();
        assert_eq!(other.lost(), [2]);
    }

    #[test]
    fn wait_for_rank_0_times_out() {
        let [_root, mut other] = <[Endpoint; 2]>::try_from(endpoints(2)).unwrap();
        let error = other.begin_run(&farm("b", "u8"), Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.message().ends_with("for rank 0, before it runs the farm \"b\""), "{error}");
    }
}
