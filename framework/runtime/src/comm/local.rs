//! Transport between ranks that are threads of one process.
//!
//! The transport does not need MPI. Examples in the documentation, most tests and first experiments on a laptop use it. Messages are serialized to
//! bytes as with MPI, so a program that works on this transport works under `mpirun`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use super::{Capabilities, Frame, Group, Transport, Waker};
use crate::comm::clock::Clock;
use crate::error::{Error, Result};

/// State shared by the ranks (threads) of a local job.
#[derive(Debug)]
pub(crate) struct World {
    boxes: Vec<Mailbox>,
    /// True once a rank has failed. The flag is atomic and not behind the mutex of the stored error, because every poll reads the flag.
    poisoned: AtomicBool,
    poison: Mutex<Option<Error>>,
    /// State of the job from which these ranks were split as a group; `None` if they are the whole job.
    whole: Option<Arc<World>>,
    /// Groups of ranks that are being created, by the number of the collective operation (run) that creates them and the number of the group.
    groups: Mutex<BTreeMap<(u32, usize), NewGroup>>,
}

#[derive(Debug)]
struct NewGroup {
    world: Arc<World>,
    missing: usize,
}

#[derive(Debug, Default)]
struct Mailbox {
    frames: Mutex<VecDeque<(usize, Frame)>>,
    /// Number of received frames in the queue. It is read without a lock, so that a poll of an empty queue takes no lock.
    waiting: AtomicUsize,
    owner: OnceLock<Thread>,
}

impl Mailbox {
    /// Wakes the thread of the rank that receives from this queue. A rank whose thread has not started does not sleep and need not be woken.
    fn wake(&self) {
        if let Some(owner) = self.owner.get() {
            owner.unpark();
        }
    }
}

/// Locks a mutex, ignoring poison: the mutexes of this module guard plain queues that are valid at every step, so a panic does not corrupt
/// them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(ranks: usize) -> Arc<Self> {
        World::within(None, ranks)
    }

    fn within(whole: Option<Arc<World>>, ranks: usize) -> Arc<Self> {
        Arc::new(World {
            boxes: (0..ranks).map(|_| Mailbox::default()).collect(),
            poisoned: AtomicBool::new(false),
            poison: Mutex::new(None),
            whole,
            groups: Mutex::default(),
        })
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        if self.poisoned.load(Ordering::Acquire) {
            return lock(&self.poison).clone();
        }
        self.whole.as_ref().and_then(|whole| whole.failure())
    }

    /// Ends the local job because of `error`. A failure in a group of ranks also ends the job from which the group was created.
    fn poison(&self, error: &Error) {
        if let Some(whole) = &self.whole {
            whole.poison(error);
        }
        lock(&self.poison).get_or_insert_with(|| error.clone());
        self.poisoned.store(true, Ordering::Release);
        for mailbox in &self.boxes {
            mailbox.wake();
        }
    }
}

/// Transport of one rank of a local job, whose ranks are threads.
#[derive(Debug)]
pub(crate) struct LocalTransport {
    world: Arc<World>,
    rank: usize,
    clock: Clock,
}

impl LocalTransport {
    /// Opens the transport of `rank` in a local job. The calling thread is that rank from now on.
    pub(crate) fn open(world: Arc<World>, rank: usize) -> Self {
        world.boxes[rank].owner.get_or_init(std::thread::current);
        LocalTransport { world, rank, clock: Clock::wall() }
    }
}

impl Transport for LocalTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.boxes.len()
    }

    fn describe(&self) -> String {
        "local: ranks as threads".to_string()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { processes: false, real_time: true, threads: true, ranks_may_end: false }
    }

    fn send(&mut self, to: usize, frame: Frame) -> Result<()> {
        let mailbox = &self.world.boxes[to];
        let mut frames = lock(&mailbox.frames);
        frames.push_back((self.rank, frame));
        mailbox.waiting.store(frames.len(), Ordering::Release);
        drop(frames);
        mailbox.wake();
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<(usize, Frame)>> {
        if let Some(error) = self.world.failure() {
            return Err(error);
        }
        let mailbox = &self.world.boxes[self.rank];
        if mailbox.waiting.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        let mut frames = lock(&mailbox.frames);
        let next = frames.pop_front();
        mailbox.waiting.store(frames.len(), Ordering::Release);
        Ok(next)
    }

    fn is_receiving(&self) -> bool {
        false
    }

    fn sends_done(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        std::thread::park_timeout(limit.unwrap_or(Duration::from_millis(1)));
        Ok(())
    }

    fn waker(&self) -> Waker {
        Waker::for_this_thread()
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn fail(&mut self, error: &Error) {
        self.world.poison(error);
    }

    fn leave_now(&mut self) {}

    fn group(&mut self, group: &Group) -> Result<Option<Box<dyn Transport>>> {
        let size = group.members.len();
        let Some(rank) = group.members.iter().position(|&rank| rank == self.rank) else { return Ok(None) };
        let mut groups = lock(&self.world.groups);
        let key = (group.run, group.number);
        let new = || NewGroup { world: World::within(Some(self.world.clone()), size), missing: size };
        let group = groups.entry(key).or_insert_with(new);
        group.missing -= 1;
        let (world, is_last) = (group.world.clone(), group.missing == 0);
        if is_last {
            groups.remove(&key);
        }
        Ok(Some(Box::new(LocalTransport { clock: self.clock, ..LocalTransport::open(world, rank) })))
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Part;
    use crate::error::ErrorKind;

    #[test]
    fn messages_keep_order_and_sender() {
        let world = World::new(2);
        let mut a = LocalTransport::open(world.clone(), 0);
        let mut b = LocalTransport::open(world, 1);
        for i in 0..3u8 {
            a.send(1, Frame::new(vec![i])).unwrap();
        }
        for i in 0..3u8 {
            assert_eq!(b.poll().unwrap(), Some((0, Frame::new(vec![i]))));
        }
        assert_eq!(b.poll().unwrap(), None);
    }

    #[test]
    fn vectors_are_moved_without_a_copy() {
        let world = World::new(2);
        let mut a = LocalTransport::open(world.clone(), 0);
        let mut b = LocalTransport::open(world, 1);
        let numbers = vec![1.5_f64; 10_000];
        let place = numbers.as_ptr();
        a.send(1, Frame { parts: vec![Part::of(numbers)], ..Frame::default() }).unwrap();
        let (_, mut frame) = b.poll().unwrap().unwrap();
        let arrived = frame.parts.remove(0).into_values::<f64>().unwrap();
        assert_eq!((arrived.as_ptr(), arrived.len()), (place, 10_000));
    }

    #[test]
    fn first_failure_reaches_every_rank() {
        let world = World::new(3);
        let mut ranks: Vec<_> = (0..3).map(|r| LocalTransport::open(world.clone(), r)).collect();
        ranks[1].fail(&Error::new(ErrorKind::User, "first").at_rank(1));
        ranks[2].fail(&Error::new(ErrorKind::User, "second").at_rank(2));
        for rank in &mut ranks {
            assert_eq!(rank.poll().unwrap_err().to_string(), "rank 1: first");
        }
    }
}
