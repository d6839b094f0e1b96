//! One end of the socket between a caller and its starter: messages out and in, never waited for while there is no room.

use std::io::{self, ErrorKind as Io, Read, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Wire, put_frame, take_frame};

/// Bytes that are read at once: some hundred events.
const READ: usize = 1 << 16;

/// An end from which messages `In` come.
#[derive(Debug)]
pub(crate) struct Connection<In> {
    stream: UnixStream,
    incoming: Vec<u8>,
    /// What is read at once: kept, as clearing it anew for each command would take longer than the rest.
    buffer: Vec<u8>,
    outgoing: Vec<u8>,
    sent: usize,
    closed: bool,
    of: PhantomData<In>,
}

impl<In: Wire> Connection<In> {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            incoming: Vec::new(),
            buffer: vec![0; READ],
            outgoing: Vec::new(),
            sent: 0,
            closed: false,
            of: PhantomData,
        })
    }

    /// Puts a message on its way; [`flush`](Connection::flush) sends it.
    pub(crate) fn queue(&mut self, message: &impl Wire) -> Result<()> {
        put_frame(message, &mut self.outgoing)
    }

    /// Whether something is on its way that has not been taken.
    pub(crate) fn is_pending(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Whether the other side has closed its end, or has died.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends as much as there is room for. That nobody reads any more is found out by reading.
    pub(crate) fn flush(&mut self) -> Result<()> {
        while self.is_pending() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) if error.kind() == Io::WouldBlock => return Ok(()),
                Err(error) if matches!(error.kind(), Io::BrokenPipe | Io::ConnectionReset) => break,
                Err(error) => return Err(Error::io(ErrorKind::Dead, "write to the other side")(error)),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// The messages that have come.
    pub(crate) fn receive(&mut self) -> Result<Vec<In>> {
        loop {
            let result = self.stream.read(&mut self.buffer);
            self.incoming.extend_from_slice(&self.buffer[..*result.as_ref().unwrap_or(&0)]);
            match result {
                Ok(0) => {
                    self.closed = true;
                    break;
                }
                Ok(count) if count < READ => break,
                Ok(_) => {}
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) if error.kind() == Io::WouldBlock => break,
                Err(error) if error.kind() == Io::ConnectionReset => {
                    self.closed = true;
                    break;
                }
                Err(error) => return Err(Error::io(ErrorKind::Dead, "read from the other side")(error)),
            }
        }
        let (mut messages, mut at) = (Vec::new(), 0);
        while let Some((message, length)) = take_frame(&self.incoming[at..])? {
            messages.push(message);
            at += length;
        }
        self.incoming.drain(..at);
        Ok(messages)
    }

    /// Tells the other side that nothing more comes.
    pub(crate) fn close(&self) {
        // It may have closed already.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}

impl<In> AsFd for Connection<In> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
