//! What all balancing stands on, whichever skeleton balances.

pub(crate) mod probe;
