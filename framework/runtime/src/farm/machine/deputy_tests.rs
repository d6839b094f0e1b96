//! Sub-masters against a model of the world: members that join late, answer in any order, die and answer all the same.

use std::collections::BTreeSet;

use super::*;

fn chunk(id: u64) -> Giving {
    Giving { id, first: 10 * id, count: 10, attempt: 0, careful: false, alone: id % 7 == 3 }
}

/// A number that looks random, below `n`.
fn below(dice: &mut u64, n: usize) -> usize {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    (*dice % n as u64) as usize
}

#[test]
fn every_result_goes_up_once_whoever_dies() {
    for seed in 1..300u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (size, total) = (3 + seed as usize % 9, seed % 60);
        let members: Vec<usize> = (2..size).collect();
        let mut deputy = Deputy::<u64, u64>::new(size, members.clone());
        let mut below = |n: usize| below(&mut dice, n);
        let (mut came, mut held, mut up, mut back) = (0, Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut deserted = false;
        for step in 0.. {
            assert!(step < 50_000, "seed {seed}: {deputy:?}");
            match below(12) {
                0..3 if came < total => {
                    deputy.set_ahead(below(3) as u32);
                    deputy.take(chunk(came), 100 + came);
                    came += 1;
                }
                3 => deputy.joined(members[below(members.len())]),
                4 if below(20) == 0 => {
                    back.extend(deputy.lose(members[below(members.len())]).iter().map(|g| g.id))
                }
                4 if below(4) == 0 => {
                    let member = members[below(members.len())];
                    match deputy.crew().standing(member) {
                        Standing::Working => deputy.doubt(member),
                        _ => deputy.heard(member),
                    }
                }
                5..8 => {
                    if let Some((member, giving, kept)) = deputy.give() {
                        assert_eq!(kept, 100 + giving.id);
                        assert!(deputy.crew().standing(member) == Standing::Working);
                        assert!(!giving.alone || deputy.crew().held(member) == 1, "seed {seed}: done alone");
                        let solo =
                            |id: &u64| deputy.given.get(id).is_some_and(|g| g.0 == member && g.1.alone);
                        assert!(!deputy.given.keys().any(|id| *id != giving.id && solo(id)), "seed {seed}");
                        held.push((member, giving.id));
                    }
                }
                _ if !held.is_empty() => {
                    let (member, id) = held.swap_remove(below(held.len()));
                    let is_its = deputy.given.get(&id).is_some_and(|&(holder, ..)| holder == member);
                    let lost = matches!(deputy.crew().standing(member), Standing::Dead | Standing::Silent);
                    assert!(!lost || !is_its, "seed {seed}: the lost hold nothing");
                    assert_eq!(deputy.done(member, id, id), is_its, "seed {seed}");
                }
                _ => {}
            }
            if deputy.is_due() {
                for id in deputy.deliver() {
                    assert!(up.insert(id), "seed {seed}: result {id} twice");
                }
            }
            if deputy.is_deserted() {
                deserted = true;
                break;
            }
            if (up.len() + back.len()) as u64 == total {
                break;
            }
        }
        // What nobody has done goes back: nothing is missing and nothing there twice.
        assert!(up.is_disjoint(&back), "seed {seed}: what a dead member had goes to the master");
        let left = deputy.stock.len() + deputy.deliver().len();
        assert!(deserted || left == 0, "seed {seed}");
        assert!(
            !deserted || up.len() + back.len() + left == came as usize,
            "seed {seed}: {} {left} {came}",
            up.len()
        );
    }
}

#[test]
fn results_are_collected_while_everybody_is_busy() {
    let chunk = |id| Giving { alone: false, ..chunk(id) };
    let mut deputy = Deputy::<(), ()>::new(34, (2..34).collect());
    (2..34).for_each(|member| deputy.joined(member));
    (0..40).for_each(|id| deputy.take(chunk(id), ()));
    while deputy.give().is_some() {}
    assert_eq!((deputy.holds(), deputy.is_due()), (40, false));
    for (id, member) in (0..3).zip(2..) {
        assert!(deputy.done(member, id, ()) && deputy.give().is_some() && !deputy.is_due());
    }
    assert!(deputy.done(5, 3, ()));
    assert!(deputy.is_due(), "an eighth of the members");
    assert_eq!(deputy.deliver().len(), 4);
    while deputy.give().is_some() {}
    assert!(deputy.done(20, 18, ()) && deputy.give().is_some() && !deputy.is_due());
}

#[test]
fn who_has_nothing_is_known() {
    let chunk = |id| Giving { alone: false, ..chunk(id) };
    let mut deputy = Deputy::<(), ()>::new(4, vec![2, 3]);
    deputy.set_ahead(1);
    assert!(!deputy.somebody_is_idle(), "nobody has come");
    (0..4).for_each(|id| deputy.take(chunk(id), ()));
    deputy.joined(2);
    assert!(deputy.somebody_is_idle() && deputy.give().is_some() && !deputy.somebody_is_idle());
    // Before member 2 gets its second chunk, member 3 gets its first.
    deputy.joined(3);
    assert!(deputy.somebody_is_idle());
    assert_eq!((deputy.give().map(|given| given.0), deputy.somebody_is_idle()), (Some(3), false));
}
