//! Tests sub-masters in a simulation in which members join late, answer in any order, die, and answer after they were
//! declared dead.

use std::collections::BTreeSet;

use super::*;

fn chunk(id: u64) -> ChunkHeader {
    ChunkHeader { id, first: 10 * id, count: 10, skip: 0, attempt: 0, suspect: false, alone: id % 7 == 3 }
}

fn below(dice: &mut u64, n: usize) -> usize {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    (*dice % n as u64) as usize
}

#[test]
fn every_result_is_forwarded_once_despite_deaths() {
    for seed in 1..300u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (size, total) = (3 + seed as usize % 9, seed % 60);
        let members: Vec<usize> = (2..size).collect();
        let mut submaster = SubmasterState::<u64, u64>::new(size, members.clone());
        let mut below = |n: usize| below(&mut dice, n);
        let (mut came, mut held, mut up, mut back) = (0, Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut deserted = false;
        for step in 0.. {
            assert!(step < 50_000, "seed {seed}: {submaster:?}");
            match below(12) {
                0..3 if came < total => {
                    submaster.set_limits(below(3) as u32, below(9) as u32);
                    submaster.take(chunk(came), 100 + came);
                    came += 1;
                }
                3 => submaster.joined(members[below(members.len())]),
                4 if below(20) == 0 => {
                    back.extend(submaster.lose(members[below(members.len())]).iter().map(|g| g.id))
                }
                4 if below(4) == 0 => {
                    let member = members[below(members.len())];
                    match submaster.workers().state_of(member) {
                        WorkerState::Active => submaster.doubt(member),
                        _ => submaster.readmit(member),
                    }
                }
                5..8 => {
                    if let Some((member, header, kept)) = submaster.dispatch() {
                        assert_eq!(kept, 100 + header.id);
                        assert!(submaster.workers().state_of(member) == WorkerState::Active);
                        assert!(
                            !header.alone || submaster.workers().held(member) == 1,
                            "seed {seed}: done alone"
                        );
                        let exclusive = |id: &u64| {
                            submaster.outstanding.get(id).is_some_and(|g| g.0 == member && g.1.alone)
                        };
                        assert!(
                            !submaster.outstanding.keys().any(|id| *id != header.id && exclusive(id)),
                            "seed {seed}"
                        );
                        held.push((member, header.id));
                    }
                }
                _ if !held.is_empty() => {
                    let (member, id) = held.swap_remove(below(held.len()));
                    let is_its = submaster.outstanding.get(&id).is_some_and(|&(holder, ..)| holder == member);
                    let lost = matches!(
                        submaster.workers().state_of(member),
                        WorkerState::Dead | WorkerState::Suspected
                    );
                    assert!(!lost || !is_its, "seed {seed}: the lost hold nothing");
                    assert_eq!(submaster.done(member, (id, 10), id), is_its, "seed {seed}");
                }
                _ => {}
            }
            if submaster.is_due() {
                for id in submaster.deliver() {
                    assert!(up.insert(id), "seed {seed}: result {id} twice");
                }
            }
            if submaster.is_deserted() {
                deserted = true;
                break;
            }
            if (up.len() + back.len()) as u64 == total {
                break;
            }
        }
        // Chunks of dead members return to the master, so no chunk is lost and none is completed twice.
        assert!(up.is_disjoint(&back), "seed {seed}: what a dead member had goes to the master");
        let left = submaster.stock.len() + submaster.deliver().len();
        assert!(deserted || left == 0, "seed {seed}");
        assert!(
            !deserted || up.len() + back.len() + left == came as usize,
            "seed {seed}: {} {left} {came}",
            up.len()
        );
    }
}

#[test]
fn results_are_aggregated_while_all_members_are_busy() {
    let chunk = |id| ChunkHeader { alone: false, ..chunk(id) };
    let mut submaster = SubmasterState::<(), ()>::new(34, (2..34).collect());
    (2..34).for_each(|member| submaster.joined(member));
    (0..40).for_each(|id| submaster.take(chunk(id), ()));
    while submaster.dispatch().is_some() {}
    assert_eq!((submaster.holds(), submaster.is_due()), (40, false));
    for (id, member) in (0..3).zip(2..) {
        assert!(
            submaster.done(member, (id, 10), ()) && submaster.dispatch().is_some() && !submaster.is_due()
        );
    }
    assert!(submaster.done(5, (3, 10), ()));
    assert!(submaster.is_due(), "an eighth of the members");
    assert_eq!(submaster.deliver().len(), 4);
    while submaster.dispatch().is_some() {}
    assert!(submaster.done(20, (18, 10), ()) && submaster.dispatch().is_some() && !submaster.is_due());
}

#[test]
fn idle_members_are_detected() {
    let chunk = |id| ChunkHeader { alone: false, ..chunk(id) };
    let mut submaster = SubmasterState::<(), ()>::new(4, vec![2, 3]);
    submaster.set_limits(1, u32::MAX);
    assert!(!submaster.somebody_is_idle(), "nobody has come");
    (0..4).for_each(|id| submaster.take(chunk(id), ()));
    submaster.joined(2);
    assert!(submaster.somebody_is_idle() && submaster.dispatch().is_some() && !submaster.somebody_is_idle());
    // Member 3 has no chunk, so it receives its first chunk before member 2 receives a second one.
    submaster.joined(3);
    assert!(submaster.somebody_is_idle());
    assert_eq!(
        (submaster.dispatch().map(|outstanding| outstanding.0), submaster.somebody_is_idle()),
        (Some(3), false)
    );
}

#[test]
fn rest_of_a_partial_chunk_goes_to_another_member() {
    let mut submaster = SubmasterState::<(), u32>::new(4, vec![2, 3]);
    [2, 3].into_iter().for_each(|member| submaster.joined(member));
    submaster.take(chunk(1), ());
    assert_eq!(submaster.dispatch().map(|outstanding| outstanding.0), Some(2));
    assert!(submaster.done(2, (1, 4), 0) && submaster.done(2, (1, 1), 1));
    assert!(submaster.workers().held(2) == 1 && submaster.deliver() == [0, 1]);
    submaster.doubt(2);
    let (member, rest, ()) = submaster.dispatch().expect("member 3 has nothing");
    assert_eq!((member, rest.first, rest.count, rest.skip), (3, 15, 5, 5));
    assert!(!submaster.done(2, (1, 1), 2), "it is another's by now");
    assert!(submaster.done(3, (1, 5), 3) && submaster.holds() == 1 && submaster.deliver() == [3]);
}
