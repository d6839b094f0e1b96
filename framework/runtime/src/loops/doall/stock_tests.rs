use super::*;
use crate::loops::Rows;

fn segment(units: Range<u64>) -> Segment<Rows<u64>> {
    let rows = Rows::from_fn(units.clone(), 2, |unit, row| row.fill(unit));
    Segment::new(units.start, units.end - units.start, rows).due(1)
}

fn firsts(stock: &Stock<Rows<u64>>) -> Vec<(u64, u64)> {
    stock.segments().map(|s| (s.first, s.count)).collect()
}

#[test]
fn a_few_units_do_not_make_many_be_copied() {
    let mut stock = Stock::new();
    stock.receive(segment(100..600));
    // As if they had come from a rank with lower numbers, and gone to one.
    stock.receive(segment(90..100));
    stock.begin(1);
    assert_eq!(firsts(&stock), [(90, 10), (100, 500)]);
    let gone = stock.ship(20);
    assert_eq!((gone.len(), stock.held()), (1, 490));
    // What comes back finds its place.
    gone.into_iter().for_each(|segment| stock.receive(segment));
    stock.begin(1);
    assert_eq!(firsts(&stock), [(90, 10), (100, 500)]);
    // Few units and few become one; …
    stock.receive(segment(80..90));
    stock.begin(1);
    assert_eq!(firsts(&stock), [(80, 20), (100, 500)]);
    // … and so do all if there are too many pieces of them.
    let mut first = 600;
    for count in [1, 50].into_iter().cycle().take(16) {
        stock.receive(segment(first..first + count));
        first += count;
    }
    stock.begin(1);
    assert_eq!((firsts(&stock), stock.undone()), (vec![(80, first - 80)], first - 80));
    let all = stock.next(u64::MAX).unwrap();
    let values = stock.slices(&all).unwrap().iter().copied().step_by(2);
    assert!(values.eq(80..first));
}

#[test]
fn units_are_done_from_the_front_and_leave_from_the_back() {
    let mut stock = Stock::new();
    stock.receive(segment(10..16));
    stock.receive(segment(0..0));
    stock.receive(segment(2..5));
    assert_eq!((stock.held(), stock.undone()), (9, 9));
    let block = stock.next(4).unwrap();
    assert_eq!(block.range, 10..14);
    assert_eq!(stock.slices(&block).unwrap(), [10, 10, 11, 11, 12, 12, 13, 13]);
    stock.finished(&block);
    let shipped: Vec<_> = stock.ship(4).into_iter().map(|s| (s.first, s.units.into_values())).collect();
    assert_eq!(shipped, [(2, vec![2, 2, 3, 3, 4, 4]), (15, vec![15, 15])]);
    assert_eq!((stock.held(), stock.undone()), (5, 1));
    let block = stock.next(4).unwrap();
    assert_eq!((block.range.clone(), stock.slices(&block).unwrap().to_vec()), (14..15, vec![14, 14]));
    stock.finished(&block);
    assert_eq!((stock.next(1), stock.undone()), (None, 0));
    assert!(stock.ship(3).is_empty(), "what is done stays in this pass");
    stock.receive(segment(16..18));
    assert_eq!(stock.next(9).unwrap().range, 16..18);
    stock.begin(1);
    // Unit 15 has gone, so these are not neighbours.
    assert_eq!((firsts(&stock), stock.undone()), (vec![(10, 5), (16, 2)], 7));
    stock.receive(segment(15..16));
    stock.begin(1);
    assert_eq!((firsts(&stock), stock.undone()), (vec![(10, 8)], 8));
    let block = stock.next(8).unwrap();
    assert_eq!(stock.slices(&block).unwrap()[10..], [15, 15, 16, 16, 17, 17]);
    assert_eq!(stock.ship(100).len(), 1);
    assert_eq!((stock.held(), stock.undone(), stock.next(1)), (0, 0, None));
}

fn times(stock: &Stock<Rows<u64>>) -> Vec<(u64, u64, u64)> {
    stock.segments().map(|s| (s.first, s.count, s.left)).collect()
}

#[test]
fn who_is_behind_is_next() {
    let mut stock = Stock::new();
    stock.receive(segment(10..16));
    stock.begin(3);
    assert_eq!((stock.held(), stock.undone(), stock.left()), (6, 18, 3));
    let done = |stock: &mut Stock<Rows<u64>>| {
        let block = stock.next(4).unwrap();
        stock.finished(&block);
        block.range
    };
    assert_eq!([done(&mut stock), done(&mut stock), done(&mut stock)], [10..14, 14..16, 10..14]);
    // One pass behind. What is begun goes on first.
    stock.receive(segment(16..19).due(3));
    assert_eq!((stock.held(), stock.undone(), stock.left()), (9, 17, 2));
    assert_eq!([done(&mut stock), done(&mut stock)], [14..16, 16..19]);
    assert_eq!((times(&stock), stock.undone()), (vec![(10, 6, 1), (16, 3, 2)], 12));
    assert_eq!(done(&mut stock), 16..19);
    assert_eq!(times(&stock), [(10, 6, 1), (16, 3, 1)]);
    let rest: Vec<_> = (0..3).map(|_| done(&mut stock)).collect();
    assert_eq!((rest, stock.undone()), (vec![10..14, 14..16, 16..19], 0));
    assert_eq!((stock.next(4), stock.held()), (None, 9));
}

#[test]
fn neighbours_come_together_when_nobody_is_behind() {
    let mut stock = Stock::new();
    stock.receive(segment(10..16));
    stock.begin(4);
    stock.receive(segment(16..19).due(3));
    assert_eq!(stock.next(9).unwrap().range, 10..16);
    stock.finished(&Block { range: 10..16 });
    assert_eq!((stock.next(99).unwrap().range, times(&stock)), (10..19, vec![(10, 9, 3)]));
}

#[test]
fn units_that_are_to_be_done_most_often_leave_first() {
    let mut stock = Stock::new();
    stock.receive(segment(10..20));
    stock.begin(5);
    stock.receive(segment(30..34).due(7));
    let block = stock.next(99).unwrap();
    assert_eq!(block.range, 30..34);
    // None, where that is nearer: three is less than half of seven.
    assert!(stock.ship(3).is_empty());
    let went = |stock: &mut Stock<Rows<u64>>, times: u64| {
        let all: Vec<_> =
            stock.ship(times).into_iter().map(|s| (s.first, s.left, s.units.into_values())).collect();
        all
    };
    assert_eq!(went(&mut stock, 4), [(33, 7, vec![33, 33])]);
    // The other three, and two of the next: 21 + 10 of 32.
    let all = went(&mut stock, 32);
    let firsts: Vec<(u64, u64)> = all.iter().map(|(first, left, _)| (*first, *left)).collect();
    assert_eq!((firsts, stock.undone(), stock.held()), (vec![(30, 7), (18, 5)], 40, 8));
    // Of a segment whose pass is begun those leave first that have not had it.
    let block = stock.next(6).unwrap();
    stock.finished(&block);
    assert_eq!(went(&mut stock, 18), [(16, 5, vec![16, 16, 17, 17]), (14, 4, vec![14, 14, 15, 15])]);
    assert_eq!((times(&stock), stock.undone()), (vec![(10, 4, 4)], 16));
}
