use super::*;
use crate::loops::Rows;

fn segment(units: Range<u64>) -> Segment<Rows<u64>> {
    let rows = Rows::from_fn(units.clone(), 2, |unit, row| row.fill(unit));
    Segment::new(units.start, units.end - units.start, rows).due(1)
}

fn data(unit_queue: &mut UnitQueue<Rows<u64>>, block: &UnitBlock) -> Vec<u64> {
    let (mut units, at) = unit_queue.take_out(block).unwrap();
    let data = units.slices(at..at + block.len() as usize).to_vec();
    unit_queue.return_units(units);
    data
}

fn firsts(unit_queue: &UnitQueue<Rows<u64>>) -> Vec<(u64, u64)> {
    unit_queue.segments().map(|s| (s.first, s.count)).collect()
}

#[test]
fn small_migrations_do_not_copy_large_segments() {
    let mut unit_queue = UnitQueue::new();
    unit_queue.receive(segment(100..600));
    // The queue holds units 100 to 599 in one segment. Ten units (rows or indices) arrive before them, and 20 units are taken from the end.
    // The long segment is not copied.
    unit_queue.receive(segment(90..100));
    unit_queue.begin(1);
    assert_eq!(firsts(&unit_queue), [(90, 10), (100, 500)]);
    let gone = unit_queue.take_back(20);
    assert_eq!((gone.len(), unit_queue.held()), (1, 490));
    // The 20 units (rows or indices) that were taken from the end come back, and are merged with the long segment (units 100 to 579).
    gone.into_iter().for_each(|segment| unit_queue.receive(segment));
    unit_queue.begin(1);
    assert_eq!(firsts(&unit_queue), [(90, 10), (100, 500)]);
    // A second short segment (sequence of consecutive rows or indices), next to the first short one, is merged with it, because that copies
    // few units.
    unit_queue.receive(segment(80..90));
    unit_queue.begin(1);
    assert_eq!(firsts(&unit_queue), [(80, 20), (100, 500)]);
    // If too many segments (sequences of consecutive rows or indices) are next to each other, all of them are merged, although that copies the
    // units of the long one.
    let mut first = 600;
    for count in [1, 50].into_iter().cycle().take(16) {
        unit_queue.receive(segment(first..first + count));
        first += count;
    }
    unit_queue.begin(1);
    assert_eq!((firsts(&unit_queue), unit_queue.undone()), (vec![(80, first - 80)], first - 80));
    let all = unit_queue.next(u64::MAX).unwrap();
    let values = data(&mut unit_queue, &all).into_iter().step_by(2);
    assert!(values.eq(80..first));
}

#[test]
fn units_are_computed_from_the_front_and_migrate_from_the_back() {
    let mut unit_queue = UnitQueue::new();
    unit_queue.receive(segment(10..16));
    unit_queue.receive(segment(0..0));
    unit_queue.receive(segment(2..5));
    assert_eq!((unit_queue.held(), unit_queue.undone()), (9, 9));
    let block = unit_queue.next(4).unwrap();
    assert_eq!(block.range, 10..14);
    assert_eq!(data(&mut unit_queue, &block), [10, 10, 11, 11, 12, 12, 13, 13]);
    unit_queue.finished(&block);
    let shipped: Vec<_> =
        unit_queue.take_back(4).into_iter().map(|s| (s.first, s.units.into_values())).collect();
    assert_eq!(shipped, [(2, vec![2, 2, 3, 3, 4, 4]), (15, vec![15, 15])]);
    assert_eq!((unit_queue.held(), unit_queue.undone()), (5, 1));
    let block = unit_queue.next(4).unwrap();
    assert_eq!((block.range.clone(), data(&mut unit_queue, &block)), (14..15, vec![14, 14]));
    unit_queue.finished(&block);
    assert_eq!((unit_queue.next(1), unit_queue.undone()), (None, 0));
    assert!(unit_queue.take_back(3).is_empty(), "what is done stays in this pass");
    unit_queue.receive(segment(16..18));
    assert_eq!(unit_queue.next(9).unwrap().range, 16..18);
    unit_queue.begin(1);
    // Units 10 to 14 and units 16 to 17 stay separate segments, because unit 15, which lies between them, has left the rank.
    assert_eq!((firsts(&unit_queue), unit_queue.undone()), (vec![(10, 5), (16, 2)], 7));
    unit_queue.receive(segment(15..16));
    unit_queue.begin(1);
    assert_eq!((firsts(&unit_queue), unit_queue.undone()), (vec![(10, 8)], 8));
    let block = unit_queue.next(8).unwrap();
    assert_eq!(data(&mut unit_queue, &block)[10..], [15, 15, 16, 16, 17, 17]);
    assert_eq!(unit_queue.take_back(100).len(), 1);
    assert_eq!((unit_queue.held(), unit_queue.undone(), unit_queue.next(1)), (0, 0, None));
}

fn times(unit_queue: &UnitQueue<Rows<u64>>) -> Vec<(u64, u64, u64)> {
    unit_queue.segments().map(|s| (s.first, s.count, s.left)).collect()
}

#[test]
fn units_of_earlier_passes_are_computed_first() {
    let mut unit_queue = UnitQueue::new();
    unit_queue.receive(segment(10..16));
    unit_queue.begin(3);
    assert_eq!((unit_queue.held(), unit_queue.undone(), unit_queue.left()), (6, 18, 3));
    let done = |unit_queue: &mut UnitQueue<Rows<u64>>| {
        let block = unit_queue.next(4).unwrap();
        unit_queue.finished(&block);
        block.range
    };
    assert_eq!(
        [done(&mut unit_queue), done(&mut unit_queue), done(&mut unit_queue)],
        [10..14, 14..16, 10..14]
    );
    // The segment (sequence of consecutive rows or indices) in the queue is in the second of its three passes. It completes this pass before the
    // received units begin their first one.
    unit_queue.receive(segment(16..19).due(3));
    assert_eq!((unit_queue.held(), unit_queue.undone(), unit_queue.left()), (9, 17, 2));
    assert_eq!([done(&mut unit_queue), done(&mut unit_queue)], [14..16, 16..19]);
    assert_eq!((times(&unit_queue), unit_queue.undone()), (vec![(10, 6, 1), (16, 3, 2)], 12));
    assert_eq!(done(&mut unit_queue), 16..19);
    assert_eq!(times(&unit_queue), [(10, 6, 1), (16, 3, 1)]);
    let rest: Vec<_> = (0..3).map(|_| done(&mut unit_queue)).collect();
    assert_eq!((rest, unit_queue.undone()), (vec![10..14, 14..16, 16..19], 0));
    assert_eq!((unit_queue.next(4), unit_queue.held()), (None, 9));
}

#[test]
fn adjacent_units_of_equal_pass_are_merged() {
    let mut unit_queue = UnitQueue::new();
    unit_queue.receive(segment(10..16));
    unit_queue.begin(4);
    unit_queue.receive(segment(16..19).due(3));
    assert_eq!(unit_queue.next(9).unwrap().range, 10..16);
    unit_queue.finished(&UnitBlock { range: 10..16 });
    assert_eq!((unit_queue.next(99).unwrap().range, times(&unit_queue)), (10..19, vec![(10, 9, 3)]));
}

#[test]
fn units_with_the_most_remaining_passes_migrate_first() {
    let mut unit_queue = UnitQueue::new();
    unit_queue.receive(segment(10..20));
    unit_queue.begin(5);
    unit_queue.receive(segment(30..34).due(7));
    let block = unit_queue.next(99).unwrap();
    assert_eq!(block.range, 30..34);
    // Another rank is to get units (rows or indices) that need three computations together, but each unit needs seven. No unit moves, because
    // three is less than half of seven.
    assert!(unit_queue.take_back(3).is_empty());
    let went = |unit_queue: &mut UnitQueue<Rows<u64>>, times: u64| {
        let all: Vec<_> = unit_queue
            .take_back(times)
            .into_iter()
            .map(|s| (s.first, s.left, s.units.into_values()))
            .collect();
        all
    };
    assert_eq!(went(&mut unit_queue, 4), [(33, 7, vec![33, 33])]);
    // Another rank is to get units (rows or indices) that need 32 computations together. Of the units that need most computations, three with
    // 7 computations each move, and of the others two with 5 each: 31 computations.
    let all = went(&mut unit_queue, 32);
    let firsts: Vec<(u64, u64)> = all.iter().map(|(first, left, _)| (*first, *left)).collect();
    assert_eq!((firsts, unit_queue.undone(), unit_queue.held()), (vec![(30, 7), (18, 5)], 40, 8));
    // In a segment (sequence of consecutive rows or indices) that is partly computed in this pass, the units not yet computed in this pass
    // move first.
    let block = unit_queue.next(6).unwrap();
    unit_queue.finished(&block);
    assert_eq!(went(&mut unit_queue, 18), [(16, 5, vec![16, 16, 17, 17]), (14, 4, vec![14, 14, 15, 15])]);
    assert_eq!((times(&unit_queue), unit_queue.undone()), (vec![(10, 4, 4)], 16));
}
