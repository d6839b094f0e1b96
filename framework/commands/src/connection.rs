//! One end of the socket between a starter (a process that runs commands) and its caller. Sending and receiving
//! messages never blocks.

use std::io::{self, ErrorKind as Io, Read, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Wire, put_frame, take_frame};

/// Maximum number of bytes per read from the socket, enough for several hundred events of commands.
const READ: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Connection<In> {
    stream: UnixStream,
    incoming: Vec<u8>,
    /// Receive buffer. It is reused, because clearing a new buffer for each command would take longer than the rest
    /// of a receive.
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

    /// Appends a message to the send buffer, which [`flush`](Connection::flush) sends.
    pub(crate) fn queue(&mut self, message: &impl Wire) -> Result<()> {
        put_frame(message, &mut self.outgoing)
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends queued messages as far as the socket accepts them. If the other side has closed the connection, they are
    /// discarded, and the next receive reports the closed connection.
    pub(crate) fn flush(&mut self) -> Result<()> {
        while self.is_pending() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) if error.kind() == Io::WouldBlock => return Ok(()),
                Err(error) if matches!(error.kind(), Io::BrokenPipe | Io::ConnectionReset) => break,
                Err(error) => return Err(Error::io(ErrorKind::Dead, "write to the peer process")(error)),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

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
                Err(error) => return Err(Error::io(ErrorKind::Dead, "read from the peer process")(error)),
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

    pub(crate) fn close(&self) {
        // The other side may already have closed the connection.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}

impl<In> AsFd for Connection<In> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
