//! Trait of types whose values can be sent to another thread.

/// Alias of [`Send`] with an explanation in the compiler's error message if it is not implemented.
///
/// There is nothing to implement by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot move to another thread",
    label = "this is, or captures, something that stays on its thread",
    note = "user code, sources and sinks have threads of their own: what they capture must be `Send`, such as an `Arc` instead of an `Rc`",
    note = "a `Session` stays on the thread of its rank: take what is needed of it before, `let rank = session.rank();`",
    note = "lines of standard input come from `std::io::BufReader::new(std::io::stdin()).lines()`; `stdin().lines()` holds a lock of its thread"
)]
pub trait Movable: Send {}

#[diagnostic::do_not_recommend]
impl<T: Send + ?Sized> Movable for T {}
