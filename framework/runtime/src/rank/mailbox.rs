//! A channel between two threads, most of whose code is compiled once for all types of values.
//!
//! The standard channel carries one `()` for each value and reports that an end was dropped; the values are in a separate queue. A standard channel
//! compiles to several hundred functions for each type of value, and a rank has two channels for each type of task.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};

type Queue<T> = Arc<Mutex<VecDeque<T>>>;

#[derive(Debug)]
pub(super) struct Sending<T> {
    queue: Queue<T>,
    signal: Sender<()>,
}

#[derive(Debug)]
pub(super) struct Receiving<T> {
    queue: Queue<T>,
    signal: Receiver<()>,
}

pub(super) fn mailbox<T>() -> (Sending<T>, Receiving<T>) {
    let (queue, (sender, receiver)) = (Queue::default(), channel());
    (Sending { queue: Arc::clone(&queue), signal: sender }, Receiving { queue, signal: receiver })
}

impl<T> Sending<T> {
    pub(super) fn send(&self, value: T) -> bool {
        // A poisoned lock of the queue is ignored: no operation on the queue panics halfway, so the queue is consistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(value);
        self.signal.send(()).is_ok()
    }
}

impl<T> Receiving<T> {
    /// Waits for the next value from the other thread. Returns `None` if no value is left and the sending end was dropped.
    pub(super) fn next(&self) -> Option<T> {
        self.signal.recv().ok().and_then(|()| self.pop())
    }

    /// Returns the next value, or `None` if the queue is empty.
    ///
    /// # Errors
    /// If the queue is empty and the sending end was dropped.
    pub(super) fn try_next(&self) -> Result<Option<T>, Disconnected> {
        match self.signal.try_recv() {
            Ok(()) => Ok(self.pop()),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Disconnected),
        }
    }

    fn pop(&self) -> Option<T> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disconnected;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_in_order_before_the_disconnect() {
        let (sending, receiving) = mailbox();
        assert_eq!(receiving.try_next(), Ok(None));
        assert!(sending.send(1) && sending.send(2));
        assert_eq!(receiving.try_next(), Ok(Some(1)));
        drop(sending);
        assert_eq!((receiving.next(), receiving.next()), (Some(2), None));
        assert_eq!(receiving.try_next(), Err(Disconnected));
    }

    #[test]
    fn send_fails_after_the_receiver_is_dropped() {
        let (sending, receiving) = mailbox();
        drop(receiving);
        assert!(!sending.send("lost"));
    }
}
