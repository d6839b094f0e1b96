//! Rank 0 above sub-masters: splits the farm, gives them chunks for their members, and does without those that die.

use super::bundle::{self, Wrapped};
use super::desk::Desk;
use super::giving::Packed;
use super::machine::{Attach, InHand, Lead, Lost, Standing};
use super::outcome::{Answer, FailedTask};
use super::supply::Supply;
use super::watch::Loss;
use crate::comm::message::{FRAME_HEADER, Message, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::wire::{self, Item};

/// Bytes of one message to a sub-master, unless a single chunk has more.
const MOST_BYTES: usize = 1 << 20;

/// The members of a sub-master.
#[derive(Debug)]
pub(super) struct Group {
    members: Vec<usize>,
    /// For whom the next chunk is made: the policies think in workers.
    turn: usize,
}

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// The ranks that lead others.
    pub(super) fn sub_masters(&self) -> Vec<usize> {
        self.groups.keys().copied().collect()
    }

    /// Puts the workers under `count` sub-masters, which do no tasks from then on: parts of equal size, each under its
    /// first rank. With fewer than two workers for each there are fewer; with none, nothing happens.
    pub(super) fn split(&mut self, count: usize, why: &str) -> Result<()> {
        let takes_part = |&r: &usize| {
            matches!(self.master.crew().standing(r), Standing::Working | Standing::Parked | Standing::Away)
        };
        let ranks: Vec<usize> = (1..self.endpoint.size()).filter(takes_part).collect();
        let count = count.min(ranks.len() / 2);
        // Who hangs in a task is found by the master alone.
        if count == 0 || !self.groups.is_empty() || self.options.task_limit.is_some() {
            return Ok(());
        }
        self.master.set_target(usize::MAX);
        self.restaff()?;
        for part in 0..count {
            let (from, to) = (part * ranks.len() / count, (part + 1) * ranks.len() / count);
            let (leader, members) = (ranks[from], ranks[from + 1..to].to_vec());
            let has_come = |&member: &usize| (member, self.master.crew().standing(member) != Standing::Away);
            let lead = Lead { members: members.iter().map(has_come).collect(), order: self.next_order() };
            self.chunker.leave(leader);
            self.master.crew_mut().set_span(leader, members.len() as u32);
            members.iter().for_each(|&member| self.master.crew_mut().set(member, Standing::Led));
            self.endpoint.send(leader, Tag::Lead, &lead)?;
            self.groups.insert(leader, Group { members, turn: 0 });
        }
        let (sub_masters, workers) = (self.sub_masters(), ranks.len() - count);
        log::info!("farm {}: {count} sub-masters lead {workers} workers from now on: {why}", self.name);
        let why = why.to_string();
        self.tell(|| Event::Split { sub_masters, workers, reason: why });
        Ok(())
    }

    /// The next order to work for somebody else.
    fn next_order(&self) -> Attach {
        self.orders.set(self.orders.get() + 1);
        Attach { number: self.orders.get(), instead_of: None }
    }

    /// Fills up what the sub-master `leader` may hold. Returns whether anything was given.
    pub(super) fn serve_group<T: Iterator<Item = I>>(
        &mut self,
        supply: &mut Supply<T>,
        leader: usize,
        (ahead, most): (u32, u64),
    ) -> Result<bool> {
        let begin = self.clock.now();
        let room = self.master.crew().room(leader, ahead);
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        while chunks.len() < room as usize && bytes < MOST_BYTES {
            let Some(worker) = self.next_member(leader) else { break };
            let Some(piece) = self.next_piece(supply, leader, worker, most)? else { break };
            let Packed { giving, suspicion, message, load } = self.pack(leader, piece)?;
            self.pace.gave(giving.count.into(), load.len());
            self.note(leader, worker, (giving, suspicion), load);
            let chunk = Wrapped { by: 0, body: message.head.slice(FRAME_HEADER..), parts: message.parts };
            bytes += chunk.len();
            chunks.push(chunk);
        }
        if chunks.is_empty() {
            return Ok(false);
        }
        self.endpoint.send_ready(leader, bundle::wrap(self.run, Tag::Bulk, ahead, chunks))?;
        let took = self.clock.now().saturating_sub(begin);
        self.pace.sent(took);
        self.staff.sent(bytes, took);
        Ok(true)
    }

    /// The member of `leader` for whom the next chunk is made; which one does it is the sub-master's affair.
    fn next_member(&mut self, leader: usize) -> Option<usize> {
        let (group, crew) = (self.groups.get_mut(&leader)?, self.master.crew());
        for _ in 0..group.members.len() {
            let member = group.members[group.turn];
            group.turn = (group.turn + 1) % group.members.len();
            if crew.standing(member) == Standing::Led {
                return Some(member);
            }
        }
        None
    }

    /// A sub-master has sent results of its members.
    pub(super) fn bundle_from(
        &mut self,
        message: Message,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let (_, results) =
            bundle::unwrap(message.body, message.parts).map_err(|e| e.at_rank(message.from))?;
        for Wrapped { by, body, parts } in results {
            if by >= self.endpoint.size() {
                let text = format!("it sent a result of rank {by}, which is not there");
                return Err(Error::new(ErrorKind::Wire, text).at_rank(message.from));
            }
            self.result_of(message.from, by, body, parts, sink)?;
            if self.stopped {
                break;
            }
        }
        Ok(())
    }

    /// A sub-master has lost a member; its chunks have gone to others there.
    pub(super) fn lost_member(&mut self, message: &Message) -> Result<()> {
        let Lost { rank, why, chunks, in_hand } = wire::from_bytes(&message.body)?;
        if !self.groups.contains_key(&message.from) {
            return Ok(());
        }
        let loss = Loss { rank, certain: true, died: in_hand != InHand::Innocent, why };
        let chunks = self.master.lose_member(message.from, &chunks);
        self.are_back(&chunks);
        let Some(group) = self.groups.get(&message.from) else { return Ok(()) };
        let crew = self.master.crew();
        let its = if self.ending { Standing::Away } else { Standing::Led };
        let is_led = |member: &usize| crew.standing(*member) == its;
        if !group.members.contains(&rank) || !is_led(&rank) {
            return self.inherit(&loss, &chunks, in_hand);
        }
        let span = group.members.iter().filter(|&member| is_led(member)).count() - 1;
        self.master.crew_mut().set_span(message.from, span as u32);
        self.lose_with(&loss, chunks, in_hand)
    }

    /// A sub-master has no members left, and does tasks itself from now on.
    pub(super) fn retired(&mut self, leader: usize) -> Result<()> {
        if self.groups.remove(&leader).is_none() {
            return Ok(());
        }
        let chunks = self.master.lose(leader, Standing::Away);
        self.are_back(&chunks);
        for given in chunks {
            self.put_back_whole(&given)?;
        }
        self.master.crew_mut().set_span(leader, 1);
        Ok(())
    }

    /// A sub-master is lost: its members are rank 0's own from now on.
    pub(super) fn adopt(&mut self, leader: usize) -> Result<()> {
        let Some(group) = self.groups.remove(&leader) else { return Ok(()) };
        self.master.crew_mut().set_span(leader, 1);
        for member in group.members {
            if self.master.crew().standing(member) != Standing::Led {
                continue;
            }
            self.master.crew_mut().set(member, Standing::Away);
            self.watch.expect(self.endpoint, member, true);
            let order = Attach { instead_of: Some(leader), ..self.next_order() };
            self.endpoint.send(member, Tag::Attach, &order)?;
        }
        Ok(())
    }

    /// The run ends: sub-masters lead nobody any more, and rank 0 itself waits for their members.
    pub(super) fn close_groups(&mut self) -> Result<()> {
        for (&leader, group) in &self.groups {
            self.endpoint.send(leader, Tag::Retire, &())?;
            for &member in &group.members {
                if self.master.crew().standing(member) == Standing::Led {
                    self.master.crew_mut().set(member, Standing::Away);
                    self.watch.expect(self.endpoint, member, true);
                }
            }
        }
        Ok(())
    }

    /// A sub-master stays until its members have left: what they still send to it must be received.
    pub(super) fn let_leaders_go(&mut self) -> Result<()> {
        let deserted = |group: &Group| group.members.iter().all(|&member| self.is_gone(member));
        let leaders: Vec<usize> =
            self.groups.iter().filter(|(_, group)| deserted(group)).map(|(&leader, _)| leader).collect();
        for leader in leaders {
            self.groups.remove(&leader);
            self.endpoint.send(leader, Tag::Finish, &())?;
        }
        Ok(())
    }
}
