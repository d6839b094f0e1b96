//! Rank 0's side of a DOALL loop: who has how much to do, when units move, and when a pass is over.

use std::time::Duration;

use armature_planner::loops::{Ahead, LEAST_PERIOD, LoopBalancer, SOON};

use super::messages::{Orders, Say, Transfer, What};
use crate::error::Result;
use crate::loops::checkpoint::{Keeper, Saved};
use crate::loops::note::Note;
use crate::loops::steering::{Instruction, Steering};
use crate::loops::summary::RankReport;

/// What is known of a rank.
#[derive(Clone, Debug, Default)]
struct Account {
    /// The round of its last report.
    round: Option<u64>,
    /// Units that it did in this pass; those done several times count as so many.
    done: u64,
    /// Those that it has and has not done, as far as is known, counted in the same way.
    undone: u64,
    held: u64,
    /// Units a second.
    rate: Option<f64>,
    /// When that was so.
    at: f64,
    /// By how many seconds rank 0's clock is ahead of the rank's, as the report says that was heard soonest. Rank 0 hears
    /// when it has done a block.
    ahead: Option<f64>,
    total: RankReport,
}

impl Account {
    fn is_dry(&self) -> bool {
        self.undone == 0 && self.round.is_some()
    }

    /// Seconds for which it still has to compute.
    fn left(&self, now: f64) -> f64 {
        match self.rate {
            _ if self.undone == 0 => 0.0,
            Some(rate) if rate > 0.0 => self.undone as f64 / rate - (now - self.at),
            _ => f64::INFINITY,
        }
    }

    /// Takes it that it went on as fast since it reported. Only it can say that it has done all.
    fn go_on(&mut self, now: f64) {
        if let Some(rate) = self.rate.filter(|_| self.undone > 0) {
            let done = ((now - self.at).max(0.0) * rate).round() as u64;
            (self.undone, self.at) = (self.undone.saturating_sub(done).max(1), now);
        }
    }
}

/// See the module's page. It sends nothing itself.
pub(super) struct Leader {
    steering: Steering,
    accounts: Vec<Account>,
    units: u64,
    passes: u64,
    /// How often each unit is done in a pass.
    times: u64,
    /// From 1.
    pass: u64,
    round: u64,
    /// Every rank has to answer the last orders, also one that has nothing to do.
    all_answer: bool,
    /// A rank has run dry since the last decision.
    hungry: bool,
    /// The others were asked to report soon.
    hurried: bool,
    /// Reports come at every hook.
    eager: bool,
    keeper: Option<Keeper>,
    ended: Option<Duration>,
}

impl Leader {
    /// For ranks that have these units, and so many passes in each of which a unit is done so many times.
    pub(super) fn new(
        steering: Steering,
        keeper: Option<Keeper>,
        held: &[u64],
        (passes, times): (u64, u64),
        eager: bool,
    ) -> Self {
        let account = |&held: &u64| Account { undone: held * times, held, ..Account::default() };
        Leader {
            steering,
            accounts: held.iter().map(account).collect(),
            units: held.iter().sum(),
            passes,
            times,
            pass: 1,
            round: 0,
            all_answer: true,
            hungry: false,
            hurried: false,
            eager,
            keeper,
            ended: None,
        }
    }

    /// A report has come.
    pub(super) fn hear(&mut self, rank: usize, say: &Say, now: Duration) {
        let Some(account) = self.accounts.get_mut(rank) else { return };
        if say.note.seconds > 0.0 && say.note.units > 0.0 {
            account.rate = Some(say.note.units / say.note.seconds);
        }
        let late = now.as_secs_f64() - say.at;
        let ahead = account.ahead.map_or(late, |ahead| ahead.min(late));
        (account.ahead, account.at) = (Some(ahead), say.at + ahead);
        account.round = Some(say.round);
        (account.done, account.undone, account.held) = (say.done, say.note.held, say.held);
        if let Some(total) = say.total {
            account.total = total;
        }
        self.hungry |= account.is_dry();
        self.steering.hear(rank, say.note);
    }

    /// A rank has written its units to a checkpoint.
    ///
    /// # Errors
    /// If no checkpoint can be made of what ranks have written.
    pub(super) fn hear_saved(&mut self, rank: usize, pass: u64, saved: Vec<Saved>) -> Result<()> {
        self.keeper.as_mut().map_or(Ok(()), |keeper| keeper.hear(rank, pass, saved))
    }

    /// What all ranks are to be told now, if anything.
    ///
    /// # Errors
    /// If the balancer cannot use what was measured.
    pub(super) fn step(&mut self, now: Duration) -> Result<Option<Orders>> {
        if self.ended.is_some() {
            return Ok(None);
        }
        if self.is_pass_over() {
            return self.next_pass(now).map(Some);
        }
        if self.accounts.len() == 1 {
            return Ok(None);
        }
        if self.waited_for().next().is_none() {
            self.steering.close_movement();
            self.catch_up(now);
            let undone = self.undone();
            let ahead = match undone > u128::from(self.units) {
                // Who has fewer than others is ahead of them, or has fewer units; to the balancer that is the same.
                true => Ahead::Passes(undone as f64 / self.units as f64),
                false => Ahead::RestOfPass,
            };
            let instruction = self.decide(ahead)?;
            return Ok(Some(self.orders(What::Go, instruction)));
        }
        let now = now.as_secs_f64();
        if self.hungry && !self.hurried && self.waited_for().any(|(_, account)| account.left(now) > SOON) {
            self.hurried = true;
            let (round, period) = (self.round, LEAST_PERIOD);
            return Ok(Some(Orders { round, what: What::Hurry, moves: Vec::new(), period, save: None }));
        }
        Ok(None)
    }

    /// Reports are of different moments, up to a block of the slowest rank apart: brings what is left of all to the same one.
    fn catch_up(&mut self, now: Duration) {
        self.accounts.iter_mut().for_each(|account| account.go_on(now.as_secs_f64()));
    }

    /// What is not done in this pass, over all ranks.
    fn undone(&self) -> u128 {
        self.accounts.iter().map(|account| u128::from(account.undone)).sum()
    }

    /// What is not done, as units that are to be done equally often; at most all units, and then that is what a unit stands
    /// for. What movements take goes by how many units move, however often these are still to be done.
    fn decide(&mut self, ahead: Ahead) -> Result<Instruction> {
        let (undone, units) = (self.undone(), u128::from(self.units));
        for (rank, account) in self.accounts.iter().enumerate() {
            let held = match undone > units {
                true => (u128::from(account.undone) * units + undone / 2) / undone,
                false => account.undone.into(),
            };
            // No more than all units.
            self.steering.hear(rank, Note { held: held as u64, ..Note::default() });
        }
        // A rank without any unit would never be seen to become faster; at the end of a pass a slow one is better without.
        self.steering.set_least(u64::from(ahead != Ahead::RestOfPass));
        let mut instruction = self.steering.decide(ahead)?;
        if undone > units {
            for transfer in &mut instruction.moves {
                transfer.units = (u128::from(transfer.units) * undone / units) as u64;
            }
        }
        Ok(instruction)
    }

    /// Ranks whose report is missing before anything can be decided.
    fn waited_for(&self) -> impl Iterator<Item = (usize, &Account)> {
        self.accounts.iter().enumerate().filter(|(_, account)| {
            account.round != Some(self.round) && (self.all_answer || !account.is_dry())
        })
    }

    /// All units are done, and no account of a movement is open.
    fn is_pass_over(&self) -> bool {
        let done: u64 = self.accounts.iter().map(|account| account.done).sum();
        done == self.units * self.times && (!self.all_answer || self.waited_for().next().is_none())
    }

    /// Moves units before the first report, by what an earlier run has learned of the ranks.
    ///
    /// # Errors
    /// As [`step`](Leader::step).
    pub(super) fn open(&mut self, learned: LoopBalancer) -> Result<Option<Orders>> {
        self.steering.resume(learned);
        if self.accounts.len() == 1 {
            return Ok(None);
        }
        let instruction = self.share_out()?;
        Ok((!instruction.moves.is_empty()).then(|| self.orders(What::Go, instruction)))
    }

    /// Decides where units are to be at the beginning of a pass.
    fn share_out(&mut self) -> Result<Instruction> {
        for account in &mut self.accounts {
            (account.done, account.undone) = (0, account.held * self.times);
        }
        self.decide(Ahead::Passes((self.passes - self.pass + 1) as f64 * self.times as f64))
    }

    fn next_pass(&mut self, now: Duration) -> Result<Orders> {
        if self.pass == self.passes {
            self.ended = Some(now);
            self.steering.close_movement();
            let instruction = Instruction { moves: Vec::new(), period: 0.0 };
            return Ok(self.orders(What::End, instruction));
        }
        // Every unit is done, and none is on its way.
        let save = self.keeper.as_mut().and_then(|keeper| keeper.is_due(self.pass, now));
        self.pass += 1;
        self.steering.close_movement();
        let instruction = if self.accounts.len() == 1 {
            self.accounts[0].done = 0;
            Instruction { moves: Vec::new(), period: f64::MAX }
        } else {
            self.share_out()?
        };
        Ok(Orders { save, ..self.orders(What::Begin, instruction) })
    }

    fn orders(&mut self, what: What, instruction: Instruction) -> Orders {
        let of = |rank: usize| self.accounts.get(rank).map_or(0, |account| account.undone);
        let moves: Vec<Transfer> = instruction
            .moves
            .iter()
            .map(|m| Transfer { from: m.from, to: m.to, units: m.units, of: of(m.from) })
            .collect();
        self.round += 1;
        self.all_answer = what == What::Begin || !moves.is_empty();
        (self.hungry, self.hurried) = (false, false);
        if what == What::Begin {
            // Nobody is dry until he says so.
            self.accounts.iter_mut().for_each(|account| account.round = None);
        }
        let period = if self.eager { 0.0 } else { instruction.period.max(LEAST_PERIOD) };
        Orders { round: self.round, what, moves, period, save: None }
    }

    /// Who is waited for, and how much these have to do.
    pub(super) fn waits_for(&self) -> String {
        let list: Vec<String> = self
            .waited_for()
            .map(|(rank, account)| format!("rank {rank} (which had {} to do)", account.undone))
            .collect();
        let pass = match self.times {
            1 => format!("pass {} of {}", self.pass, self.passes),
            times => format!("passes 1 to {times}"),
        };
        match list.is_empty() {
            false => format!("for the reports of {}, in {pass}", list.join(", ")),
            // All have reported, and yet the pass is not over.
            true => format!("for units that nobody reports, in {pass}"),
        }
    }

    /// Whether all ranks have come to the loop.
    pub(super) fn has_heard_all(&self) -> bool {
        self.round > 0 || self.accounts.iter().all(|account| account.round.is_some())
    }

    /// When the run ended.
    pub(super) fn ended(&self) -> Option<Duration> {
        self.ended
    }

    /// Units that each rank has.
    pub(super) fn held(&self) -> Vec<u64> {
        self.accounts.iter().map(|account| account.held).collect()
    }

    /// What each rank has done, with the time that it waited for the end.
    pub(super) fn totals(&self) -> Vec<RankReport> {
        let end = self.ended.unwrap_or_default().as_secs_f64();
        let total = |account: &Account| {
            let last = Duration::from_secs_f64((end - account.at).max(0.0));
            RankReport { waiting: account.total.waiting + last, held: account.held, ..account.total }
        };
        self.accounts.iter().map(total).collect()
    }

    pub(super) fn steering(&mut self) -> &mut Steering {
        &mut self.steering
    }

    /// What was learned of the ranks.
    pub(super) fn into_balancer(self) -> LoopBalancer {
        self.steering.into_balancer()
    }
}

#[cfg(test)]
#[path = "leader_tests.rs"]
mod tests;
