//! Tests of the window, which limits a pipeline's batches in flight: when it is full, and how its size follows the measurements.

use super::*;

fn plan() -> WindowPlan {
    let batch_time = Duration::from_micros(500);
    WindowPlan {
        batch: BatchMode::Auto,
        batch_time,
        fixed: None,
        bytes: 1 << 20,
        hosts: 4,
        ranks: 2,
        ahead: 2,
    }
}

fn batch(items: usize, service: Duration, bytes: u64) -> Consumed {
    Consumed { items, done: items as u32, sources: items, ended: 0, produced: None, service, bytes }
}

fn run(window: &mut Window, batches: u32, item: Duration, bytes: u64) {
    for i in 0..batches {
        let n = window.batch_items();
        window.produced();
        window.consumed(&batch(n, item * n as u32, bytes * n as u64), Duration::from_millis(u64::from(i)));
    }
}

#[test]
fn batch_size_follows_item_time() {
    let mut window = Window::new(plan(), 0, Duration::ZERO);
    run(&mut window, 30, Duration::from_nanos(100), 8);
    assert_eq!(window.batch_items(), MOST_ITEMS);
    let mut window = Window::new(plan(), 0, Duration::ZERO);
    run(&mut window, 30, Duration::from_micros(50), 8);
    assert_eq!(window.batch_items(), 10, "500 µs of work at 50 µs each");
    let mut window = Window::new(plan(), 0, Duration::ZERO);
    run(&mut window, 30, Duration::from_millis(5), 8);
    assert_eq!(window.batch_items(), 1);
}

#[test]
fn wide_items_limit_batch_and_window() {
    let mut window = Window::new(plan(), 0, Duration::ZERO);
    run(&mut window, 30, Duration::from_nanos(100), 40 << 10);
    assert_eq!(window.batch_items(), 3);
    assert_eq!(window.limit(), 8, "1 MiB of window, 120 KiB a batch");
    run(&mut window, 30, Duration::from_nanos(100), 4 << 20);
    assert_eq!((window.batch_items(), window.limit()), (1, 1), "one batch is always allowed");
}

#[test]
fn wide_items_limit_the_window_before_the_first_acknowledgement() {
    let mut window = Window::new(plan(), 0, Duration::ZERO);
    window.produced();
    window.sent(1, 512 << 10);
    assert!(window.is_open());
    window.produced();
    assert!(!window.is_open(), "1 MiB of window, half of it for each batch");
}

#[test]
fn out_of_order_batches_count_by_bytes() {
    let mut window = Window::new(plan(), 0, Duration::ZERO);
    (0..20).for_each(|_| window.produced());
    window.out_of_order(1, 10, 200 << 10);
    assert!(window.limit() > 30, "they keep nobody busy: {}", window.limit());
    window.out_of_order(1, 10, 900 << 10);
    assert_eq!(window.limit(), 11, "124 KiB are left, and others may become as wide as these");
    window.out_of_order(2, 9, 200 << 10);
    assert_eq!(window.limit(), 19, "nothing is left");
    assert!(!window.is_open());
    window.forget_out_of_order();
    assert!(window.limit() > 20);
}

#[test]
fn full_window_closes_and_reopens() {
    let mut window = Window::new(WindowPlan { fixed: Some(2), ..plan() }, 0, Duration::ZERO);
    window.produced();
    assert!(window.is_open());
    window.produced();
    assert!(!window.is_open());
    window.consumed(&batch(1, Duration::ZERO, 0), Duration::ZERO);
    assert!(window.is_open());
    assert_eq!((window.next_batch(), window.in_flight()), (2, 1));
}

#[test]
fn slow_replica_widens_the_window() {
    let mut window = Window::new(plan(), 0, Duration::ZERO);
    let floor = window.limit();
    // In this test, 1,000 batches per second reach the sink. The stages take 5 ms for nine of ten batches, and 100 ms for one in ten, as on a slow
    // rank.
    for i in 0..200u64 {
        window.produced();
        let service = if i % 10 == 0 { 100 } else { 5 };
        window.consumed(&batch(1, Duration::from_millis(service), 0), Duration::from_millis(i));
    }
    assert!(window.limit() > 300 && window.limit() > floor, "{}", window.limit());
}

#[test]
fn pieces_grow_to_four_times_the_batch_work() {
    let mut window = Window::new(plan(), 1, Duration::ZERO);
    let mut sizes = Vec::new();
    for i in 0..30 {
        let produced = window.piece_items() as u32;
        sizes.push(produced);
        // The stages take 50 µs for each item that the first stage makes (several from one item), and the last stage drops all items of a batch
        // except one.
        let piece =
            Consumed { produced: Some(produced), ..batch(1, Duration::from_micros(50) * produced, 8) };
        window.consumed(&piece, Duration::from_millis(i));
    }
    assert_eq!((&sizes[..4], sizes[29]), (&[1, 2, 4, 8][..], 40), "500 µs of work, four times");
}

#[test]
fn granted_pieces_count_as_in_flight() {
    let mut window = Window::new(WindowPlan { fixed: Some(4), ..plan() }, 1, Duration::ZERO);
    window.produced();
    assert_eq!(window.room(), 3);
    window.granted(1, 3);
    assert_eq!((window.room(), window.is_open(), window.batches()), (0, false, (0, 1)));
    window.returned(1, 2);
    assert_eq!(window.room(), 2);
}
