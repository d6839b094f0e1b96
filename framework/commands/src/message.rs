//! Messages between a caller and its starter (the process that runs its commands), and their encoding.
//!
//! A message is sent as a frame: the length of its body (four bytes, little endian) and the body, which is one byte
//! for the kind of message, and its fields. Both sides are the same program, so the format has no version number.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{CommandStatus, Ended, Event, Stopped};
use crate::request::{Destination, Input, Program, Request};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToStarter {
    /// Settings of the starter. They are the caller's first message; the caller sends them again when the output file
    /// changes.
    Setup(Setup),
    Run(Box<Request>),
    Cancel(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FromStarter {
    /// Reply to `Setup`: `None` if the starter is ready to run commands, otherwise the reason why it is not.
    Ready(Option<String>),
    Event(Event),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setup {
    pub(crate) output: Option<PathBuf>,
    pub(crate) cores: u32,
    pub(crate) grace: Duration,
}

/// Maximum number of bytes of a message's body; a larger length means that the stream is damaged. Only the standard
/// input of a command may be large, and an even larger input can be passed as a file.
pub(crate) const LONGEST: usize = 1 << 28;

/// Value that can be encoded for the socket between caller and starter.
pub(crate) trait Wire: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut Body<'_>) -> Option<Self>;
}

pub(crate) fn put_frame(message: &impl Wire, to: &mut Vec<u8>) -> Result<()> {
    let start = to.len();
    0_u32.put(to);
    let body = to.len();
    message.put(to);
    let length = to.len() - body;
    if length > LONGEST {
        to.truncate(start);
        let message =
            format!("a request has {length} bytes, expected at most {LONGEST}: pass larger input in a file");
        return Err(Error::new(ErrorKind::Protocol, message));
    }
    // The cast is lossless: the length is at most 2²⁸.
    to[start..body].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Decodes the frame at the beginning of `bytes`. Returns its message and the length of the frame in bytes; `None` if
/// the frame is incomplete.
pub(crate) fn take_frame<M: Wire>(bytes: &[u8]) -> Result<Option<(M, usize)>> {
    let damaged = |what: String| Error::new(ErrorKind::Protocol, format!("a message is damaged: {what}"));
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(damaged(format!("its length is given as {length} bytes")));
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    match take(body) {
        Some(message) => Ok(Some((message, bytes.len() - rest.len() + length))),
        None => Err(damaged(format!("{length} bytes are not a message"))),
    }
}

/// Decodes a value that must take up all of `bytes`.
pub(crate) fn take<T: Wire>(bytes: &[u8]) -> Option<T> {
    let mut body = Body(bytes);
    T::take(&mut body).filter(|_| body.0.is_empty())
}

/// Part of a message's body that has not been decoded.
pub(crate) struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend(self.to_le_bytes());
            }
            fn take(from: &mut Body<'_>) -> Option<Self> {
                from.bytes(size_of::<Self>()).map(|bytes| {
                    Self::from_le_bytes(bytes.try_into().expect("as many bytes as were asked for"))
                })
            }
        }
    )*};
}
numbers!(u8, u32, u64, i32);

impl Wire for Vec<u8> {
    fn put(&self, to: &mut Vec<u8>) {
        put_bytes(self, to);
    }
    fn take(from: &mut Body<'_>) -> Option<Self> {
        let length = usize::try_from(u64::take(from)?).ok()?;
        from.bytes(length).map(<[u8]>::to_vec)
    }
}

fn put_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    (bytes.len() as u64).put(to);
    to.extend(bytes);
}

impl Wire for OsString {
    fn put(&self, to: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), to);
    }
    fn take(from: &mut Body<'_>) -> Option<Self> {
        Vec::take(from).map(OsString::from_vec)
    }
}

impl Wire for PathBuf {
    fn put(&self, to: &mut Vec<u8>) {
        put_bytes(Path::as_os_str(self).as_bytes(), to);
    }
    fn take(from: &mut Body<'_>) -> Option<Self> {
        OsString::take(from).map(PathBuf::from)
    }
}

impl Wire for String {
    fn put(&self, to: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), to);
    }
    fn take(from: &mut Body<'_>) -> Option<Self> {
        String::from_utf8(Vec::take(from)?).ok()
    }
}

impl Wire for Duration {
    fn put(&self, to: &mut Vec<u8>) {
        self.as_secs().put(to);
        self.subsec_nanos().put(to);
    }
    fn take(from: &mut Body<'_>) -> Option<Self> {
        let (seconds, nanos) = (u64::take(from)?, u32::take(from)?);
        (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            None => 0_u8.put(to),
            Some(value) => {
                1_u8.put(to);
                value.put(to);
            }
        }
    }
    fn take(from: &mut Body<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(None),
            1 => T::take(from).map(Some),
            _ => None,
        }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }
    fn take(from: &mut Body<'_>) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

fn put_list<T: Wire>(list: &[T], to: &mut Vec<u8>) {
    (list.len() as u64).put(to);
    list.iter().for_each(|item| item.put(to));
}

fn take_list<T: Wire>(from: &mut Body<'_>) -> Option<Vec<T>> {
    // Memory is allocated item by item, because a damaged message may claim a huge number of items.
    (0..u64::take(from)?).map(|_| T::take(from)).collect()
}

/// Implements `Wire` for an enum. A value is encoded as the number of its variant, which the macro call states, and
/// the variant's fields.
macro_rules! variants {
    ($name:ident { $($number:literal => $variant:ident $(($($item:ident),*))? $({$($field:ident),*})?,)* }) => {
        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $($name::$variant $(($($item),*))? $({$($field),*})? => {
                        to.push($number);
                        $($($item.put(to);)*)?
                        $($($field.put(to);)*)?
                    })*
                }
            }
            fn take(from: &mut Body<'_>) -> Option<Self> {
                Some(match u8::take(from)? {
                    $($number => {
                        $($(let $item = Wire::take(from)?;)*)?
                        $($(let $field = Wire::take(from)?;)*)?
                        $name::$variant $(($($item),*))? $({$($field),*})?
                    })*
                    _ => return None,
                })
            }
        }
    };
}

/// Implements `Wire` for a struct, which is encoded as its fields in the order in which the macro call lists them.
macro_rules! fields {
    ($name:ident { $($field:ident),* }) => {
        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($field.put(to);)*
            }
            fn take(from: &mut Body<'_>) -> Option<Self> {
                $(let $field = Wire::take(from)?;)*
                Some($name { $($field),* })
            }
        }
    };
}

macro_rules! lists {
    ($($item:ty),*) => {$(
        impl Wire for Vec<$item> {
            fn put(&self, to: &mut Vec<u8>) {
                put_list(self, to);
            }
            fn take(from: &mut Body<'_>) -> Option<Self> {
                take_list(from)
            }
        }
    )*};
}
lists!(OsString, (OsString, OsString));

impl<T: Wire> Wire for Box<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (**self).put(to);
    }
    fn take(from: &mut Body<'_>) -> Option<Self> {
        T::take(from).map(Box::new)
    }
}

variants!(ToStarter { 0 => Setup(setup), 1 => Run(request), 2 => Cancel(id), });
variants!(FromStarter { 0 => Ready(refusal), 1 => Event(event), });
variants!(Event { 0 => Started { id, process }, 1 => Ended { id, ended }, });
variants!(CommandStatus { 0 => Exited(code), 1 => Signalled(signal), 2 => NotStarted(why), });
variants!(Stopped { 0 => TimeLimit, 1 => MemoryLimit, 2 => Cancelled, 3 => OutOfMemory, });
variants!(Program { 0 => Program { program, arguments }, 1 => Shell(line), });
variants!(Input { 0 => Nothing, 1 => File(path), 2 => Bytes(bytes), });
variants!(Destination { 0 => Output, 1 => Nowhere, 2 => File(path), });
fields!(Setup { output, cores, grace });
fields!(Request {
    id,
    attempt,
    program,
    environment,
    directory,
    stdin,
    stdout,
    stderr,
    time_limit,
    memory_limit,
    cores
});
fields!(Ended { outcome, stopped, run_time, cpu_time, peak_memory, lost_output, last_line });

impl Ended {
    /// Encodes the result of a command, for another process of the same program.
    ///
    /// ```
    /// use armature_commands::{CommandStatus, Ended};
    ///
    /// let mut ended = Ended::new(CommandStatus::Exited(3));
    /// ended.run_time = std::time::Duration::from_millis(1200);
    /// ended.last_line = "cannot open a".into();
    /// let bytes = ended.to_bytes();
    /// assert_eq!(Ended::from_bytes(&bytes[1..]), None);
    /// assert_eq!(Ended::from_bytes(&bytes), Some(ended));
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        bytes
    }

    /// Decodes the result of a command from the bytes of [`to_bytes`](Ended::to_bytes); `None` if they are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        take(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ToStarter {
        let mut request = Request::new(7, Program::new("/bin/tr", ["a", "\u{e4}"]));
        request.program = Program::Program {
            program: "tr".into(),
            arguments: vec![OsString::from_vec(vec![0xff, b'x']), OsString::new()],
        };
        request.environment.push(("A".into(), "b=c".into()));
        request.directory = Some("/tmp".into());
        request.stdin = Input::Bytes(vec![0, 1, 2]);
        request.stderr = Destination::File("e".into());
        request.time_limit = Some(Duration::from_millis(1500));
        ToStarter::Run(Box::new(request))
    }

    fn ended() -> FromStarter {
        let ended = Ended {
            outcome: CommandStatus::Signalled(9),
            stopped: Some(Stopped::MemoryLimit),
            run_time: Duration::from_nanos(1_000_000_001),
            cpu_time: Duration::ZERO,
            peak_memory: u64::MAX,
            lost_output: 3,
            last_line: "no room".into(),
        };
        FromStarter::Event(Event::Ended { id: u64::MAX, ended })
    }

    #[test]
    fn messages_round_trip_from_partial_frames() {
        let mut bytes = Vec::new();
        put_frame(&request(), &mut bytes).unwrap();
        let first = bytes.len();
        put_frame(&ToStarter::Cancel(3), &mut bytes).unwrap();
        for end in 0..first {
            assert_eq!(take_frame::<ToStarter>(&bytes[..end]).unwrap(), None);
        }
        assert_eq!(take_frame(&bytes).unwrap(), Some((request(), first)));
        assert_eq!(take_frame::<ToStarter>(&bytes[first..]).unwrap().unwrap().0, ToStarter::Cancel(3));
        let mut bytes = Vec::new();
        put_frame(&ended(), &mut bytes).unwrap();
        assert_eq!(take_frame(&bytes).unwrap(), Some((ended(), bytes.len())));
    }

    /// Decoding of a damaged message must neither panic nor allocate memory for a length that the message claims.
    #[test]
    fn damaged_frames_are_errors_and_do_not_panic() {
        let mut messages = Vec::new();
        put_frame(&request(), &mut messages).unwrap();
        for at in 0..messages.len() {
            for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut damaged = messages.clone();
                damaged[at] = value;
                let _ = take_frame::<ToStarter>(&damaged);
                let _ = take_frame::<FromStarter>(&damaged);
            }
        }
        let error = take_frame::<ToStarter>(&[0xff; 8]).unwrap_err();
        assert_eq!(error.to_string(), "a message is damaged: its length is given as 4294967295 bytes");
        assert!(take_frame::<ToStarter>(&[1, 0, 0, 0, 9]).is_err());
    }
}
