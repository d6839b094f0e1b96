//! Moves of the local search: all small changes of a mapping that might make its slowest blocks faster.
//!
//! Only the slowest blocks, and those that share a processor with them, are worth changing. Each move therefore changes one block of this set (the
//! *focus*), and possibly another block that gives a stage or host to the block in focus or takes one from it.

use super::edit::Edit;
use super::search::Search;
use super::state::State;

/// Maximum number of stages that one move shifts from a block of stages to its neighbour.
const LONGEST_SHIFT: usize = 12;

/// Kinds of moves of the local search, those with the fewest evaluations first.
pub(in crate::pipeline) const FAMILIES: [Family; 8] = [
    shift_borders,
    shift_chains,
    change_replicas,
    take_apart,
    exchange_hosts_around,
    merge,
    split,
    free_by_merging,
];

/// Function that lets the search evaluate all moves of one kind that change a given block of stages, until the budget of evaluations is spent.
pub(in crate::pipeline) type Family = fn(&mut Search<'_>, &State, usize, &mut Edit);

fn exchange_hosts_around(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    for block in b.saturating_sub(1)..=usize::min(b + 1, state.timed_blocks.len() - 1) {
        exchange_hosts(search, state, block, edit);
    }
}

fn hosts(state: &State, b: usize) -> impl Iterator<Item = usize> {
    state.timed_blocks[b].hosts.iter().copied()
}

fn hosts_without(state: &State, b: usize, removed: usize) -> impl Iterator<Item = usize> {
    hosts(state, b).filter(move |&p| p != removed)
}

fn shift_borders(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    let borders = b.saturating_sub(1)..usize::min(b + 1, state.timed_blocks.len() - 1);
    for left in borders {
        let (first, second) = (&state.timed_blocks[left], &state.timed_blocks[left + 1]);
        let border = first.stages.end;
        let lowest = usize::max(first.stages.start + 1, border.saturating_sub(LONGEST_SHIFT));
        let highest = usize::min(second.stages.end - 1, border + LONGEST_SHIFT);
        for to in (lowest..=highest).filter(|&to| to != border) {
            edit.clear().cut(left..left + 2);
            edit.block(first.stages.start..to, hosts(state, left));
            edit.block(to..second.stages.end, hosts(state, left + 1));
            if !search.offer(state, edit) {
                return;
            }
        }
    }
}

/// Lets the search evaluate chains of shifts in both directions: block `b` gives a stage to its neighbour, which gives one to the next block, and so
/// on, up to a block that keeps the additional stage.
fn shift_chains(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    for end in b + 2..state.timed_blocks.len() {
        edit.clear().cut(b..end + 1);
        for i in b..=end {
            let stages = &state.timed_blocks[i].stages;
            let start = stages.start - usize::from(i > b);
            edit.block(start..stages.end - usize::from(i < end), hosts(state, i));
        }
        if !search.offer(state, edit) {
            return;
        }
    }
    for end in (0..b.saturating_sub(1)).rev() {
        edit.clear().cut(end..b + 1);
        for i in end..=b {
            let stages = &state.timed_blocks[i].stages;
            let start = stages.start + usize::from(i > end);
            edit.block(start..stages.end + usize::from(i < b), hosts(state, i));
        }
        if !search.offer(state, edit) {
            return;
        }
    }
}

fn add_replicas(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    let stages = &state.timed_blocks[b].stages;
    if search.may_replicate(stages) {
        for p in 0..state.uses.len() {
            if (state.uses[p] == 0 || search.shares()) && !state.timed_blocks[b].hosts.contains(&p) {
                edit.clear().cut(b..b + 1).block(stages.clone(), hosts(state, b).chain([p]));
                if !search.offer(state, edit) {
                    return;
                }
            }
        }
    }
}

fn change_replicas(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    add_replicas(search, state, b, edit);
    let stages = &state.timed_blocks[b].stages;
    if search.may_replicate(stages) {
        for (donor, timed_block) in state.timed_blocks.iter().enumerate() {
            if donor != b && timed_block.hosts.len() > 1 {
                for p in hosts(state, donor) {
                    edit.clear().cut(b..b + 1).block(stages.clone(), hosts(state, b).chain([p]));
                    edit.cut(donor..donor + 1)
                        .block(timed_block.stages.clone(), hosts_without(state, donor, p));
                    if !search.offer(state, edit) {
                        return;
                    }
                }
            }
        }
    }
    if state.timed_blocks[b].hosts.len() > 1 {
        for p in hosts(state, b) {
            edit.clear().cut(b..b + 1).block(stages.clone(), hosts_without(state, b, p));
            if !search.offer(state, edit) {
                return;
            }
            if search.rules().share {
                // A move that leaves the block of stages `b` on a single host is evaluated as well, because the other blocks of the removed hosts may
                // determine the production time.
                edit.clear().cut(b..b + 1).block(stages.clone(), [p]);
                if !search.offer(state, edit) {
                    return;
                }
            }
        }
    }
}

/// Lets the search evaluate two kinds of moves. In the first, block `b` gets another host, and all its hosts are removed from other replicated
/// blocks. In the second, `b` and another block share the hosts of both. No sequence of single changes has the same effect: in the intermediate steps
/// replicated blocks would share only some of their hosts, which is not permitted.
fn take_apart(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    let timed_block = &state.timed_blocks[b];
    if !search.shares() || !search.may_replicate(&timed_block.stages) {
        return;
    }
    for p in (0..state.uses.len()).filter(|p| !timed_block.hosts.contains(p)) {
        let is_taken = |host: &usize| *host == p || timed_block.hosts.contains(host);
        edit.clear().cut(b..b + 1).block(timed_block.stages.clone(), hosts(state, b).chain([p]));
        let mut possible = false;
        for (c, other) in state.timed_blocks.iter().enumerate() {
            if c != b && other.hosts.len() > 1 && other.hosts.iter().any(is_taken) {
                possible = !other.hosts.iter().all(is_taken);
                if !possible {
                    break;
                }
                let left = other.hosts.iter().copied().filter(|host| !is_taken(host));
                edit.cut(c..c + 1).block(other.stages.clone(), left);
            }
        }
        if possible && !search.offer(state, edit) {
            return;
        }
    }
    for (c, other) in state.timed_blocks.iter().enumerate() {
        let others = || other.hosts.iter().copied().filter(|host| !timed_block.hosts.contains(host));
        if c != b && search.may_replicate(&other.stages) {
            edit.clear().cut(b..b + 1).block(timed_block.stages.clone(), hosts(state, b).chain(others()));
            edit.cut(c..c + 1).block(other.stages.clone(), hosts(state, b).chain(others()));
            if !search.offer(state, edit) {
                return;
            }
        }
    }
}

fn exchange_hosts(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    let stages = &state.timed_blocks[b].stages;
    for old in hosts(state, b) {
        for new in 0..state.uses.len() {
            if state.uses[new] == 0 || (search.shares() && new != old) {
                edit.clear().cut(b..b + 1).block(stages.clone(), hosts_without(state, b, old).chain([new]));
                if !search.offer(state, edit) {
                    return;
                }
            }
        }
        for (other, timed_block) in state.timed_blocks.iter().enumerate() {
            if other == b || (search.shares() && timed_block.hosts.contains(&old)) {
                continue;
            }
            for new in hosts(state, other) {
                edit.clear().cut(b..b + 1).block(stages.clone(), hosts_without(state, b, old).chain([new]));
                edit.cut(other..other + 1)
                    .block(timed_block.stages.clone(), hosts_without(state, other, new).chain([old]));
                if !search.offer(state, edit) {
                    return;
                }
            }
        }
    }
}

fn merge(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    let count = state.timed_blocks.len();
    let runs = [b.checked_sub(1).map(|a| a..b + 1), Some(b..b + 2), b.checked_sub(1).map(|a| a..b + 2)];
    for run in runs.into_iter().flatten().filter(|run| run.end <= count) {
        let stages = state.timed_blocks[run.start].stages.start..state.timed_blocks[run.end - 1].stages.end;
        let mut union: Vec<usize> = run.clone().flat_map(|i| hosts(state, i)).collect();
        union.sort_unstable();
        union.dedup();
        for &p in &union {
            edit.clear().cut(run.clone()).block(stages.clone(), [p]);
            if !search.offer(state, edit) {
                return;
            }
        }
        if search.may_replicate(&stages) {
            for i in run.clone().filter(|&i| state.timed_blocks[i].hosts.len() > 1) {
                edit.clear().cut(run.clone()).block(stages.clone(), hosts(state, i));
                if !search.offer(state, edit) {
                    return;
                }
            }
            if union.len() > 1 {
                edit.clear().cut(run.clone()).block(stages.clone(), union.iter().copied());
                if !search.offer(state, edit) {
                    return;
                }
            }
        }
    }
}

fn split(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    let timed_block = &state.timed_blocks[b];
    let (start, end) = (timed_block.stages.start, timed_block.stages.end);
    for at in start + 1..end {
        for p in 0..state.uses.len() {
            if (state.uses[p] == 0 || search.shares()) && !offer_halves(search, state, edit, b, at, p, None) {
                return;
            }
        }
        for donor in (0..state.timed_blocks.len()).filter(|&donor| donor != b) {
            if state.timed_blocks[donor].hosts.len() > 1 {
                for p in hosts(state, donor) {
                    if !offer_halves(search, state, edit, b, at, p, Some(donor)) {
                        return;
                    }
                }
            }
        }
        for first in 1..timed_block.hosts.len() {
            let (some, rest) = timed_block.hosts.split_at(first);
            for (left, right) in [(some, rest), (rest, some)] {
                edit.clear().cut(b..b + 1);
                edit.block(start..at, left.iter().copied()).block(at..end, right.iter().copied());
                if !search.offer(state, edit) {
                    return;
                }
            }
        }
    }
}

/// Lets the search evaluate two moves: the stages of block `b` before stage `at`, or those from stage `at` on, move to processor `p`, which is
/// removed from block `donor`. Returns false once the budget of evaluations is spent.
fn offer_halves(
    search: &mut Search<'_>,
    state: &State,
    edit: &mut Edit,
    b: usize,
    at: usize,
    p: usize,
    donor: Option<usize>,
) -> bool {
    let (start, end) = (state.timed_blocks[b].stages.start, state.timed_blocks[b].stages.end);
    for left in [true, false] {
        edit.clear().cut(b..b + 1);
        if left {
            edit.block(start..at, [p]).block(at..end, hosts(state, b));
        } else {
            edit.block(start..at, hosts(state, b)).block(at..end, [p]);
        }
        if let Some(donor) = donor {
            edit.cut(donor..donor + 1)
                .block(state.timed_blocks[donor].stages.clone(), hosts_without(state, donor, p));
        }
        if !search.offer(state, edit) {
            return false;
        }
    }
    true
}

fn free_by_merging(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) {
    let timed_block = &state.timed_blocks[b];
    let (start, end) = (timed_block.stages.start, timed_block.stages.end);
    for pair in (1..state.timed_blocks.len()).map(|second| second - 1..second + 1) {
        if pair.contains(&b) {
            continue;
        }
        let stages =
            state.timed_blocks[pair.start].stages.start..state.timed_blocks[pair.start + 1].stages.end;
        for (kept, freed) in [(pair.start, pair.start + 1), (pair.start + 1, pair.start)] {
            let replicated = state.timed_blocks[kept].hosts.len() > 1;
            if replicated && !search.may_replicate(&stages) {
                continue;
            }
            let free: Vec<usize> = hosts(state, freed)
                .filter(|p| !state.timed_blocks[kept].hosts.contains(p) && !timed_block.hosts.contains(p))
                .collect();
            if free.is_empty() {
                continue;
            }
            let merged = |edit: &mut Edit| {
                edit.clear().cut(pair.clone()).block(stages.clone(), hosts(state, kept)).cut(b..b + 1);
            };
            if search.may_replicate(&timed_block.stages) {
                merged(edit);
                edit.block(start..end, hosts(state, b).chain(free.iter().copied()));
                if !search.offer(state, edit) {
                    return;
                }
            }
            for at in start + 1..end {
                for left in [true, false] {
                    merged(edit);
                    let free = free.iter().copied().take(1);
                    if left {
                        edit.block(start..at, free).block(at..end, hosts(state, b));
                    } else {
                        edit.block(start..at, hosts(state, b)).block(at..end, free);
                    }
                    if !search.offer(state, edit) {
                        return;
                    }
                }
            }
        }
    }
}
