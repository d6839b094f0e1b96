//! What all balancing stands on, whichever skeleton balances.

pub(crate) mod link_probe;
pub(crate) mod probe;
