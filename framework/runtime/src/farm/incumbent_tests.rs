//! Tests of farms whose ranks share an incumbent.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::incumbent_link::IncumbentLink;
use super::messages::{Tag, carries_incumbent};
use super::*;
use crate::comm::Frame;
use crate::comm::endpoint::Endpoint;
use crate::comm::local::{LocalTransport, World};
use crate::comm::message::frame_header;
use crate::error::ErrorKind;
use crate::rank::protocol::Outgoing;
use crate::session::{Balance, Config, Driver, run};

fn config(ranks: usize) -> Config {
    Config::new().ranks(ranks).progress(crate::Progress::Off)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} after 60 s");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn meet(begun: &AtomicUsize, tasks: usize) {
    begun.fetch_add(1, Ordering::SeqCst);
    wait_until("not all ranks are in a task", || begun.load(Ordering::SeqCst) >= tasks);
}

/// Number of ranks, number of sub-masters, and true if rank 0 runs no tasks, for each farm under test.
const FARMS: [(usize, usize, bool); 8] = [
    (1, 0, false),
    (2, 0, false),
    (3, 0, true),
    (4, 0, false),
    (5, 2, false),
    (5, 1, true),
    (7, 2, true),
    (7, 3, false),
];

fn shaped<'f, I: crate::Item, O: crate::Item>(
    farm: Farm<'f, I, O>,
    (ranks, leaders, dedicated): (usize, usize, bool),
) -> (Farm<'f, I, O>, usize) {
    let farm = farm.sub_masters(leaders).balance(Balance::Off);
    let farm = if dedicated { farm.dedicated_master() } else { farm };
    (farm, ranks - leaders - usize::from(dedicated))
}

#[test]
fn improvement_reaches_running_tasks_on_other_ranks() {
    for shape in FARMS {
        for driver in [Driver::Auto, Driver::Threaded] {
            let (begun, last) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
            run(&config(shape.0).driver(driver), |session| {
                let best = Incumbent::minimum(100u64);
                let count = AtomicUsize::new(0);
                // Task 0 improves the incumbent to 7. The last task improves it to 3 when 7 has reached its rank. All tasks wait until 3 has reached
                // their ranks.
                let work = |task: usize| {
                    let tasks = count.load(Ordering::SeqCst);
                    meet(&begun, tasks);
                    match task {
                        0 => best.improve(7),
                        _ => {
                            wait_until("7 has not arrived", || best.get() <= 7);
                            task == tasks - 1 && best.improve(3)
                        }
                    };
                    wait_until("3 has not arrived", || tasks == 1 || best.get() == 3);
                };
                let farm = Farm::new("spread", work).chunking(Chunking::fixed(1)).request_ahead(0);
                let (farm, tasks) = shaped(farm, shape);
                count.store(tasks, Ordering::SeqCst);
                farm.incumbent(&best).collect(session, 0..tasks)?;
                last.lock().unwrap().push(best.get());
                Ok(())
            })
            .unwrap();
            let expected = vec![if shape.0 == 1 { 7 } else { 3 }; shape.0];
            assert_eq!(last.into_inner().unwrap(), expected, "{shape:?}, {driver:?}");
        }
    }
}

#[test]
fn sink_improves_the_value_seen_by_running_tasks() {
    let begun = AtomicUsize::new(0);
    let best = run(&config(3), |session| {
        let best = Incumbent::maximum(0u64);
        let work = |task: u64| {
            meet(&begun, 2);
            wait_until("the sink has not improved the value", || task == 0 || best.get() == 10);
            task
        };
        let farm = Farm::new("sink", work).chunking(Chunking::fixed(1)).request_ahead(0).dedicated_master();
        farm.incumbent(&best).for_each(session, 0..2, |number, _| {
            best.improve(10 + number);
        })?;
        Ok(best.get())
    });
    assert_eq!(best.unwrap(), 11);
}

/// Number of nodes in each subtree of the search tree that has no good solution.
const SUBTREE: usize = (1 << 11) - 1;

/// Searches a binary tree of `size` nodes, and stops when an incumbent of at least 99 is known, because no node can improve it. Returns the number
/// of searched nodes.
fn search(best: &Incumbent<u32>, size: usize) -> usize {
    if size == 0 || best.get() >= 99 {
        return 0;
    }
    std::thread::sleep(Duration::from_micros(50));
    1 + search(best, size / 2) + search(best, size / 2)
}

#[test]
fn sharing_the_incumbent_reduces_searched_nodes() {
    let nodes = |shares: bool| {
        let begun = AtomicUsize::new(0);
        let nodes = run(&config(4), |session| {
            let best = Incumbent::maximum(0);
            // The best solution is in the first of four subtrees, which four ranks search.
            let work = |subtree: usize| {
                meet(&begun, 4);
                if subtree == 0 { usize::from(best.improve(100)) } else { search(&best, SUBTREE) }
            };
            let mut farm = Farm::new("nodes", work).chunking(Chunking::fixed(1)).request_ahead(0);
            if shares {
                farm = farm.incumbent(&best);
            }
            Ok(farm.collect(session, 0..4)?.on_root())
        });
        nodes.unwrap().unwrap().into_iter().sum::<usize>()
    };
    let (shared, apart) = (nodes(true), nodes(false));
    assert_eq!(apart, 1 + 3 * SUBTREE, "each rank searches its subtree");
    assert!(shared < apart, "{shared} nodes");
}

/// Returns the weights and values of the items of a knapsack problem, sorted by value per weight, highest first.
fn items() -> Vec<(u32, u32)> {
    let mut state = 17u32;
    let mut draw = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        20 + (state >> 16) % 80
    };
    let mut items: Vec<(u32, u32)> = (0..16).map(|_| draw()).map(|weight| (weight, weight + 10)).collect();
    items.sort_by(|a, b| (b.1 * a.0).cmp(&(a.1 * b.0)));
    items
}

const CAPACITY: u32 = 450;

/// State after the decisions for the first items of a knapsack problem: number of these items, capacity left, and value so far.
type Node = (usize, u32, u32);

const ROOT: Node = (0, CAPACITY, 0);

/// Returns an upper bound of the value of all knapsacks that contain the items chosen at a node of the search tree: items count as if
/// they could be divided.
fn bound(items: &[(u32, u32)], (next, mut room, mut value): Node) -> u32 {
    for &(weight, worth) in &items[next..] {
        if weight > room {
            return value + worth * room / weight;
        }
        (room, value) = (room - weight, value + worth);
    }
    value
}

/// Runs the task of a node: improves the incumbent, and returns the child nodes that can still improve it.
fn branch(items: &[(u32, u32)], best: &Incumbent<u32>, node: Node) -> Vec<Node> {
    let (next, room, value) = node;
    best.improve(value);
    if next == items.len() || bound(items, node) <= best.get() {
        return Vec::new();
    }
    let (weight, worth) = items[next];
    let with = (weight <= room).then(|| (next + 1, room - weight, value + worth));
    with.into_iter().chain([(next + 1, room, value)]).collect()
}

fn largest(items: &[(u32, u32)]) -> u32 {
    let mut values = vec![0; CAPACITY as usize + 1];
    for &(weight, worth) in items {
        for room in (weight as usize..values.len()).rev() {
            values[room] = values[room].max(values[room - weight as usize] + worth);
        }
    }
    values[CAPACITY as usize]
}

#[test]
fn exploration_finds_the_serial_optimum() {
    let items = items();
    for shape in FARMS {
        for (driver, ahead) in [(Driver::Auto, 1), (Driver::Inline, 3), (Driver::Threaded, 0)] {
            let failed = Mutex::new(BTreeSet::new());
            let found = run(&config(shape.0).driver(driver), |session| {
                let best = Incumbent::maximum(0);
                let farm = Farm::try_exploring("knapsack", |&node: &Node, more| {
                    more.extend(branch(&items, &best, node));
                    // One task in seven fails at its first try, after it has improved the incumbent.
                    let fails = node.2 % 7 == 3 && failed.lock().unwrap().insert(node);
                    if fails { Err("torn".into()) } else { Ok(node.2) }
                });
                let (farm, _) = shaped(farm.retries(2).request_ahead(ahead), shape);
                farm.incumbent(&best).explore(session, [ROOT], |_| ())?;
                Ok(best.get())
            });
            assert_eq!(found.unwrap(), largest(&items), "{shape:?}, {driver:?}");
        }
    }
}

#[test]
fn iterations_and_worklists_find_the_serial_optimum() {
    let items = items();
    for shape in FARMS {
        let found = run(&config(shape.0), |session| {
            let best = Incumbent::maximum(0);
            let farm = || {
                let farm = Farm::new("knapsack", |node: Node| branch(&items, &best, node));
                shaped(farm.incumbent(&best), shape).0
            };
            farm().iterate(session, [ROOT], |nodes, _| {
                let nodes: Vec<Node> = nodes.concat();
                Ok((!nodes.is_empty()).then_some(nodes))
            })?;
            let first = best.get();
            // The incumbent of the second run begins with the best value of the first run, so no node is searched in vain.
            let mut tasks = 0;
            farm().unordered().worklist(session, [ROOT], |_, nodes, more| {
                tasks += 1;
                more.extend(nodes);
            })?;
            Ok((first, best.get(), tasks))
        });
        let (first, second, tasks) = found.unwrap();
        assert_eq!((first, second), (largest(&items), first), "{shape:?}");
        let open = |nodes: &[Node]| -> Vec<Node> {
            let optimum = Incumbent::maximum(first);
            nodes.iter().flat_map(|&node| branch(&items, &optimum, node)).collect()
        };
        let levels = std::iter::successors(Some(vec![ROOT]), |nodes| Some(open(nodes)));
        let fewest: usize = levels.map(|nodes| nodes.len()).take_while(|&nodes| nodes > 0).sum();
        assert_eq!(tasks, fewest, "{shape:?}");
    }
}

#[test]
fn improvement_before_the_end_of_the_run_reaches_rank_0() {
    let (begun, is_found) = (AtomicUsize::new(0), AtomicBool::new(false));
    let best = run(&config(3), |session| {
        let best = Incumbent::maximum(0);
        let work = |task: u64| {
            meet(&begun, 2);
            if task == 0 {
                wait_until("no task has found 5", || is_found.load(Ordering::SeqCst));
                return;
            }
            for value in 1..=5 {
                best.improve(value);
            }
            is_found.store(true, Ordering::SeqCst);
            // Task 1 is still running when the run ends, because the sink ends the run after the result of task 0.
            std::thread::sleep(Duration::from_millis(50));
        };
        let farm = Farm::new("ended", work).chunking(Chunking::fixed(1)).request_ahead(0).unordered();
        let mut farm = farm.dedicated_master().incumbent(&best);
        farm.for_each(session, 0..2, |_, ()| ControlFlow::Break(()))?;
        Ok(best.get())
    });
    assert_eq!(best.unwrap(), 5);
}

#[test]
fn initial_value_of_rank_0_reaches_all_ranks() {
    let last = Mutex::new(Vec::new());
    run(&config(3), |session| {
        let best = Incumbent::minimum(10.0 + session.rank() as f64);
        let mut farm = Farm::new("start", |_: u64| best.get()).incumbent(&best);
        let seen = farm.collect(session, 0..20)?.on_root();
        assert!(seen.is_none_or(|seen| seen.iter().all(|&value| value == 10.0)));
        last.lock().unwrap().push(best.get());
        Ok(())
    })
    .unwrap();
    assert_eq!(last.into_inner().unwrap(), [10.0; 3]);
}

#[test]
fn all_ranks_must_attach_the_same_kind_of_incumbent() {
    let refused = |attach: fn(Farm<'static, u64, u64>, bool) -> Farm<'static, u64, u64>| {
        let error = run(&config(2), |session| {
            let mut farm = attach(Farm::new("odd", |x: u64| x), session.is_root());
            Ok(farm.collect(session, 0..10).map(drop)?)
        });
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let error =
        refused(|farm, is_root| if is_root { farm.incumbent(&Incumbent::minimum(1.0)) } else { farm });
    let expected = "with no incumbent, but rank 0 with incumbent minimum of type f64";
    assert!(error.contains(expected), "{error}");
    let error = refused(|farm, is_root| match is_root {
        true => farm.incumbent(&Incumbent::minimum(1u8)),
        false => farm.incumbent(&Incumbent::maximum(1u8)),
    });
    assert!(error.contains("with incumbent maximum of type u8, but rank 0"), "{error}");
}

struct Rank {
    best: Incumbent<u32>,
    link: IncumbentLink,
    endpoint: Endpoint,
}

fn ranks() -> [Rank; 3] {
    let world = World::new(3);
    std::array::from_fn(|rank| {
        let best = Incumbent::minimum(100);
        let options = Farm::new("ranks", |x: u64| x).incumbent(&best).options;
        let link = IncumbentLink::new(options.incumbent, "ranks", 3);
        let transport = Box::new(LocalTransport::open(world.clone(), rank));
        Rank { best, link, endpoint: Endpoint::new(transport, Duration::from_millis(1)) }
    })
}

impl Rank {
    fn send(&mut self, to: usize) -> bool {
        let bare = Frame::new(frame_header(self.endpoint.run(), Tag::Chunk).to_vec());
        let frame = self.link.add(to, bare.clone()).unwrap();
        let is_added = frame != bare;
        self.endpoint.send_ready(to, frame).unwrap();
        is_added
    }

    fn round(&mut self, to: &[usize], milliseconds: u64) -> bool {
        let now = Duration::from_millis(milliseconds);
        self.link.send_round(to.iter().copied(), now, &mut Outgoing::new(&mut self.endpoint)).unwrap()
    }

    fn receive(&mut self) -> bool {
        let message = self.endpoint.poll().unwrap().unwrap();
        self.link.take(message).unwrap().is_none()
    }
}

#[test]
fn value_is_sent_once_to_each_rank_that_lacks_it() {
    let [mut zero, mut one, mut two] = ranks();
    assert!(zero.send(1) && !zero.send(1), "the first chunk has the value of the start");
    one.best.improve(50);
    assert!(one.send(0) && !one.send(0));
    zero.receive();
    assert!(zero.best.get() == 50 && zero.link.has_improved());
    assert!(!zero.send(1), "rank 1 knows its own value");
    assert!(zero.send(2));
    two.best.improve(40);
    two.receive();
    assert_eq!((two.best.get(), two.send(0)), (40, true));
    // Rank 0 receives a message of rank 1 without a value, then the better value 40 of rank 2. It sends 40 to rank 1, and not to
    // rank 2, which has sent it.
    zero.receive();
    zero.receive();
    assert!(zero.best.get() == 40 && zero.send(1) && !zero.send(2));
}

#[test]
fn separate_value_messages_are_rate_limited() {
    let [mut zero, mut one, mut two] = ranks();
    assert!(!zero.link.has_improved(), "no message is due for the value of the start");
    zero.best.improve(50);
    assert!(zero.link.has_improved() && zero.round(&[1, 2], 0) && !zero.link.has_improved());
    assert!(one.receive() && two.receive() && (one.best.get(), two.best.get()) == (50, 50));
    assert!(!one.round(&[0], 0), "rank 0 has sent it");
    zero.best.improve(40);
    assert!(!zero.round(&[1, 2], 9) && zero.link.has_improved() && zero.round(&[1, 2], 10));
    zero.best.improve(30);
    assert!(zero.send(1), "messages that are sent anyway take it along at any time");
    assert!(zero.round(&[1, 2], 20) && one.receive() && !one.receive() && two.receive() && two.receive());
    assert_eq!((one.best.get(), two.best.get(), one.endpoint.poll().unwrap().is_none()), (30, 30, true));
    one.link.repeat_round();
    assert!(!one.round(&[0], 100), "rank 0 knows it, although the round is repeated");
}

#[test]
fn farm_without_incumbent_refuses_incumbent_messages() {
    let [mut zero, mut one, _] = ranks();
    zero.send(1);
    let message = one.endpoint.poll().unwrap().unwrap();
    assert!(carries_incumbent(&message));
    let error = IncumbentLink::new(None, "plain", 3).take(message).unwrap_err();
    assert!(error.kind() == ErrorKind::Wire && error.to_string().contains("farm plain"), "{error}");
}
