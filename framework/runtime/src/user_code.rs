//! The boundary between the framework and user code: the only place that catches panics.
//!
//! A panic becomes an [`Error`]. An error value and the payload of a panic are user code as well: `Display` of the error and `Drop` of both run
//! in this module, so that their panics are caught too.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{BoxError, Cause, Error, ErrorKind, Result};

/// Calls user code and returns its error or panic as an [`Error`], to which the caller has to add rank, stage and task.
///
/// A panic may leave the captured variables of the closure in an inconsistent state. The caller must end the job or create the variables again.
///
/// # Errors
/// [`ErrorKind::User`] with the returned error as the cause, and its text and those of its causes as the message; the same error if it is an
/// [`Error`]; [`ErrorKind::Panic`] if user code panics.
pub(crate) fn call<R, E: Into<BoxError>>(work: impl FnOnce() -> Result<R, E>) -> Result<R> {
    match caught(|| work().map_err(|error| described(error.into()))) {
        Ok(result) => result,
        Err(text) => Err(Error::new(ErrorKind::Panic, text)),
    }
}

/// Converts an error that user code returned. If it is an [`Error`] already, it is returned unchanged.
pub(crate) fn described(error: BoxError) -> Error {
    let theirs = match error.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(theirs) => theirs,
    };
    let text = caught(|| {
        let mut text = theirs.to_string();
        let mut source = theirs.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    });
    let failed = |panic| format!("an error that cannot be formatted: formatting panics with {panic:?}");
    Error::new(ErrorKind::User, text.unwrap_or_else(failed)).caused_by(Theirs(Some(theirs)))
}

/// Holder of an error of user code; empty only while the error is dropped. A panic in the `Drop` of the error is caught and ignored.
struct Theirs(Option<BoxError>);

impl Cause for Theirs {
    fn error(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let error = self.0.as_deref()?;
        Some(error)
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let error = self.0.take();
        let _ = caught(|| drop(error));
    }
}

pub(crate) fn in_framework(payload: &(dyn Any + Send)) -> Error {
    Error::new(ErrorKind::Panic, format!("in the framework itself: {}", panic_text(payload)))
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with a value that is not a text")
        .to_string()
}

fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(into_text)
}

#[cold]
fn into_text(payload: Box<dyn Any + Send>) -> String {
    let text = panic_text(&*payload);
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // The panic's payload has panicked while it was dropped. The payload of this second panic is leaked, which costs little, because dropping it
        // could panic again, without end.
        std::mem::forget(another);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Malicious {
        when_shown: bool,
        when_dropped: bool,
    }

    impl fmt::Display for Malicious {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            assert!(!self.when_shown, "no text for you");
            f.write_str("a bad end")
        }
    }

    impl std::error::Error for Malicious {}

    impl Drop for Malicious {
        fn drop(&mut self) {
            assert!(!self.when_dropped || std::thread::panicking(), "never drop me");
        }
    }

    fn failing(when_shown: bool, when_dropped: bool) -> Error {
        call(|| Err::<(), BoxError>(Malicious { when_shown, when_dropped }.into())).unwrap_err()
    }

    #[test]
    fn results_and_errors_of_user_code_are_returned() {
        assert_eq!(call(|| Ok::<_, BoxError>(7)).unwrap(), 7);
        let ours = Error::new(ErrorKind::Config, "no").at_rank(3);
        assert_eq!(call(|| Err::<(), _>(ours)).unwrap_err().rank(), Some(3));
        assert_eq!(failing(false, false).message(), "a bad end");
    }

    #[test]
    fn clones_keep_the_error_source() {
        let cause = "x".parse::<u32>().unwrap_err();
        let error = call(|| "x".parse::<u32>()).unwrap_err();
        let copy = error.clone().at_rank(1);
        drop(error);
        assert_eq!((copy.message(), copy.downcast_ref()), (cause.to_string().as_str(), Some(&cause)));
        assert!(copy.downcast_ref::<fmt::Error>().is_none());
        assert!(Error::new(ErrorKind::Io, "no").downcast_ref::<fmt::Error>().is_none());
    }

    #[test]
    fn error_that_panics_on_display_or_drop_is_contained() {
        let shown = failing(true, false);
        assert_eq!(shown.kind(), ErrorKind::User);
        assert!(shown.message().contains("no text for you"), "{shown}");
        let dropped = failing(false, true);
        assert_eq!(dropped.message(), "a bad end");
        drop(dropped);
    }

    #[test]
    fn panic_payload_that_panics_on_drop_is_contained() {
        let error = call(|| -> Result<(), BoxError> {
            std::panic::panic_any(Malicious { when_shown: false, when_dropped: true })
        });
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Panic, "with a value that is not a text"));
        let text = call(|| -> Result<(), BoxError> { panic!("{} left", 3) }).unwrap_err();
        assert_eq!(text.message(), "3 left");
    }
}
