//! Groups of workers on rank 0: the sub-masters and their members.

use std::collections::BTreeMap;

use super::super::messages::{Attach, Lead};
use super::{WorkerState, WorkerTable};

/// Ranks that one sub-master supplies with chunks.
#[derive(Debug)]
struct Group {
    members: Vec<usize>,
    /// Index in `members` of the worker by whose speed the next chunk of the group is sized: policies for chunk sizes know only
    /// workers, not groups.
    turn: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<usize, Group>,
    /// Number of the last order of rank 0 by which a rank gets its chunks from another rank from then on.
    orders: u32,
}

impl Groups {
    pub(crate) fn is_leader(&self, rank: usize) -> bool {
        self.groups.contains_key(&rank)
    }

    pub(crate) fn leaders(&self) -> Vec<usize> {
        self.groups.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    fn next_order(&mut self, instead_of: Option<usize>) -> Attach {
        self.orders += 1;
        Attach { number: self.orders, instead_of }
    }

    /// Divides `ranks` into `count` groups of about equal size, each led by its first rank. Returns the orders for the new
    /// sub-masters.
    pub(super) fn split(
        &mut self,
        workers: &mut WorkerTable,
        ranks: &[usize],
        count: usize,
    ) -> Vec<(usize, Lead)> {
        let mut orders = Vec::with_capacity(count);
        for part in 0..count {
            let (from, to) = (part * ranks.len() / count, (part + 1) * ranks.len() / count);
            let (leader, members) = (ranks[from], ranks[from + 1..to].to_vec());
            let has_joined = |&member: &usize| (member, workers.state_of(member) != WorkerState::Expected);
            let lead =
                Lead { members: members.iter().map(has_joined).collect(), order: self.next_order(None) };
            workers.set_capacity(leader, members.len() as u32);
            members.iter().for_each(|&member| workers.set(member, WorkerState::Delegated));
            self.groups.insert(leader, Group { members, turn: 0 });
            orders.push((leader, lead));
        }
        orders
    }

    /// Returns the member of the sub-master `leader` by whose speed the next chunk is sized, although the sub-master may send the
    /// chunk to another member.
    pub(crate) fn next_member(&mut self, workers: &WorkerTable, leader: usize) -> Option<usize> {
        let group = self.groups.get_mut(&leader)?;
        for _ in 0..group.members.len() {
            let member = group.members[group.turn];
            group.turn = (group.turn + 1) % group.members.len();
            if workers.state_of(member) == WorkerState::Delegated {
                return Some(member);
            }
        }
        None
    }

    /// Records that the sub-master `leader` has one worker less, because `member` is lost. Returns false if it was no member.
    /// `ending` is true at the end of the run, when the members already work for rank 0.
    pub(super) fn lose_member(
        &mut self,
        workers: &mut WorkerTable,
        (leader, member): (usize, usize),
        ending: bool,
    ) -> bool {
        let Some(group) = self.groups.get(&leader) else { return false };
        let its = if ending { WorkerState::Expected } else { WorkerState::Delegated };
        let is_led = |member: &usize| workers.state_of(*member) == its;
        if !group.members.contains(&member) || !is_led(&member) {
            return false;
        }
        let left = group.members.iter().filter(|&member| is_led(member)).count() - 1;
        workers.set_capacity(leader, left as u32);
        true
    }

    pub(super) fn retire(&mut self, workers: &mut WorkerTable, leader: usize) -> bool {
        let led = self.groups.remove(&leader).is_some();
        if led {
            workers.set_capacity(leader, 1);
        }
        led
    }

    /// Makes the members of a lost sub-master workers of rank 0. Returns the orders for these members.
    pub(crate) fn adopt(&mut self, workers: &mut WorkerTable, leader: usize) -> Vec<(usize, Attach)> {
        let Some(group) = self.groups.remove(&leader) else { return Vec::new() };
        workers.set_capacity(leader, 1);
        let led = |member: &usize| workers.state_of(*member) == WorkerState::Delegated;
        let members: Vec<usize> = group.members.into_iter().filter(led).collect();
        members.iter().for_each(|&member| workers.set(member, WorkerState::Expected));
        members.into_iter().map(|member| (member, self.next_order(Some(leader)))).collect()
    }

    /// Releases the members of all sub-masters at the end of the run, and returns them: from now on rank 0 itself waits for their
    /// last messages.
    pub(crate) fn dissolve(&self, workers: &mut WorkerTable) -> Vec<usize> {
        let members = self.groups.values().flat_map(|group| group.members.iter().copied());
        let led: Vec<usize> =
            members.filter(|&member| workers.state_of(member) == WorkerState::Delegated).collect();
        led.iter().for_each(|&member| workers.set(member, WorkerState::Expected));
        led
    }

    pub(crate) fn take_deserted(&mut self, is_ignored: impl Fn(usize) -> bool) -> Vec<usize> {
        let deserted = |group: &Group| group.members.iter().all(|&member| is_ignored(member));
        let leaders: Vec<usize> =
            self.groups.iter().filter(|(_, group)| deserted(group)).map(|(&leader, _)| leader).collect();
        leaders.iter().for_each(|leader| drop(self.groups.remove(leader)));
        leaders
    }
}
