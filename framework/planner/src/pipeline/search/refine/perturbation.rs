//! Perturbation of a mapping: a few random changes, with which the search leaves a local optimum. The sequence of random numbers is fixed.

use super::edit::Edit;
use super::search::Search;
use super::state::State;

/// Maximum number of attempts to find a permitted random change. With pinned stages most changes are forbidden; if no permitted one is found, the
/// change is skipped.
const ATTEMPTS: usize = 20;

pub(in crate::pipeline) fn perturbed(search: &mut Search<'_>, state: &State, changes: usize) -> State {
    let mut state = state.clone();
    let mut edit = Edit::default();
    for _ in 0..changes {
        for _ in 0..ATTEMPTS {
            if arbitrary(search, &state, &mut edit) && search.judge.allows(&state, &mut edit) {
                let next = search.judge.apply(&state, &mut edit);
                if !search.judge.overlaps_in_part(&next) {
                    state = next;
                    break;
                }
            }
        }
    }
    state
}

type Kind = fn(&mut Search<'_>, &State, usize, &mut Edit) -> bool;

/// Kinds of random changes of a mapping. Each function writes a change of the block of stages `b` into an edit, and returns false if there is none.
const KINDS: [Kind; 5] = [move_border, exchange_host, move_host, merge, split];

fn arbitrary(search: &mut Search<'_>, state: &State, edit: &mut Edit) -> bool {
    let b = search.sequence.below(state.timed_blocks.len());
    edit.clear();
    KINDS[search.sequence.below(KINDS.len())](search, state, b, edit)
}

fn without(state: &State, b: usize, removed: usize) -> impl Iterator<Item = usize> {
    state.timed_blocks[b].hosts.iter().copied().filter(move |&p| p != removed)
}

fn any_host(search: &mut Search<'_>, state: &State, b: usize) -> usize {
    state.timed_blocks[b].hosts[search.sequence.below(state.timed_blocks[b].hosts.len())]
}

fn move_border(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) -> bool {
    let Some(next) = state.timed_blocks.get(b + 1) else { return false };
    let timed_block = &state.timed_blocks[b];
    let to =
        timed_block.stages.start + 1 + search.sequence.below(next.stages.end - timed_block.stages.start - 1);
    edit.cut(b..b + 2)
        .block(timed_block.stages.start..to, timed_block.hosts.iter().copied())
        .block(to..next.stages.end, next.hosts.iter().copied());
    true
}

fn exchange_host(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) -> bool {
    let timed_blocks = &state.timed_blocks;
    let old = any_host(search, state, b);
    let new = search.sequence.below(state.uses.len());
    edit.cut(b..b + 1).block(timed_blocks[b].stages.clone(), without(state, b, old).chain([new]));
    if let Some(other) = (0..timed_blocks.len()).find(|&c| c != b && timed_blocks[c].hosts.contains(&new)) {
        edit.cut(other..other + 1);
        edit.block(timed_blocks[other].stages.clone(), without(state, other, new).chain([old]));
    }
    new != old
}

fn move_host(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) -> bool {
    let timed_blocks = &state.timed_blocks;
    if timed_blocks[b].hosts.len() == 1 {
        return false;
    }
    let removed = any_host(search, state, b);
    edit.cut(b..b + 1).block(timed_blocks[b].stages.clone(), without(state, b, removed));
    let to = search.sequence.below(timed_blocks.len());
    if to != b {
        edit.cut(to..to + 1)
            .block(timed_blocks[to].stages.clone(), timed_blocks[to].hosts.iter().copied().chain([removed]));
    }
    true
}

fn merge(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) -> bool {
    let Some(next) = state.timed_blocks.get(b + 1) else { return false };
    let stages = state.timed_blocks[b].stages.start..next.stages.end;
    let from = b + search.sequence.below(2);
    if search.judge.may_replicate(&stages) {
        edit.cut(b..b + 2).block(stages, state.timed_blocks[from].hosts.iter().copied());
    } else {
        let host = any_host(search, state, from);
        edit.cut(b..b + 2).block(stages, [host]);
    }
    true
}

fn split(search: &mut Search<'_>, state: &State, b: usize, edit: &mut Edit) -> bool {
    let timed_block = &state.timed_blocks[b];
    if timed_block.stages.len() == 1 {
        return false;
    }
    let at = timed_block.stages.start + 1 + search.sequence.below(timed_block.stages.len() - 1);
    let new = search.sequence.below(state.uses.len());
    edit.cut(b..b + 1)
        .block(timed_block.stages.start..at, timed_block.hosts.iter().copied())
        .block(at..timed_block.stages.end, [new]);
    true
}
