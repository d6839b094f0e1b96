//! Leaving a local optimum: a few changes that are not judged, from a fixed sequence.

use super::edit::Edit;
use super::search::Search;
use super::state::State;

/// Attempts to find a change that the rules allow: with pinned stages most are forbidden, and a change that is not found is
/// left out.
const ATTEMPTS: usize = 20;

/// The state after `changes` arbitrary changes.
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

/// Writes down some change; false if there is none of its kind.
fn arbitrary(search: &mut Search<'_>, state: &State, edit: &mut Edit) -> bool {
    let pieces = &state.pieces;
    let processors = state.uses.len();
    let sequence = &mut search.sequence;
    let b = sequence.below(pieces.len());
    let piece = &pieces[b];
    let hosts = |b: usize| pieces[b].hosts.iter().copied();
    edit.clear();
    match sequence.below(5) {
        // A border moves.
        0 if b + 1 < pieces.len() => {
            let next = &pieces[b + 1];
            let to = piece.stages.start + 1 + sequence.below(next.stages.end - piece.stages.start - 1);
            edit.cut(b..b + 2)
                .block(piece.stages.start..to, hosts(b))
                .block(to..next.stages.end, hosts(b + 1));
            true
        }
        // Two blocks exchange a host, or one takes an unused processor.
        1 => {
            let old = piece.hosts[sequence.below(piece.hosts.len())];
            let new = sequence.below(processors);
            let without = |b: usize, gone: usize| hosts(b).filter(move |&p| p != gone);
            edit.cut(b..b + 1).block(piece.stages.clone(), without(b, old).chain([new]));
            if let Some(other) = (0..pieces.len()).find(|&c| c != b && pieces[c].hosts.contains(&new)) {
                edit.cut(other..other + 1);
                edit.block(pieces[other].stages.clone(), without(other, new).chain([old]));
            }
            new != old
        }
        // A host moves to another block, or leaves.
        2 if piece.hosts.len() > 1 => {
            let gone = piece.hosts[sequence.below(piece.hosts.len())];
            edit.cut(b..b + 1).block(piece.stages.clone(), hosts(b).filter(|&p| p != gone));
            let to = sequence.below(pieces.len());
            if to != b {
                edit.cut(to..to + 1).block(pieces[to].stages.clone(), hosts(to).chain([gone]));
            }
            true
        }
        // Two neighbours become one.
        3 if b + 1 < pieces.len() => {
            let stages = piece.stages.start..pieces[b + 1].stages.end;
            let from = b + sequence.below(2);
            if search.judge.may_replicate(&stages) {
                edit.cut(b..b + 2).block(stages, hosts(from));
            } else {
                let host = pieces[from].hosts[search.sequence.below(pieces[from].hosts.len())];
                edit.cut(b..b + 2).block(stages, [host]);
            }
            true
        }
        // One block becomes two.
        4 if piece.stages.len() > 1 => {
            let at = piece.stages.start + 1 + sequence.below(piece.stages.len() - 1);
            let new = sequence.below(processors);
            edit.cut(b..b + 1).block(piece.stages.start..at, hosts(b)).block(at..piece.stages.end, [new]);
            true
        }
        _ => false,
    }
}
