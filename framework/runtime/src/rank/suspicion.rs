//! Blame for the death of a rank: how often ranks have died in a task, and which ranks may try the task again.
//!
//! A death counts as an attempt of the task in which the rank was. Where nobody knows which task that was, all tasks that it
//! may have been are suspects until another death or a result tells. Rank 0 tries no task that ranks may have died of, because
//! its death would be the job's.

use serde::{Deserialize, Serialize};

/// Deaths that are put down to a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspicion {
    /// Ranks that have died in the task for certain; its attempts count them, too.
    pub(crate) certain: u32,
    /// Ranks that have died in it or in another one.
    pub(crate) shared: u32,
    /// The number of the last of these deaths.
    pub(crate) death: u32,
    /// How many tasks may go into a chunk; 0 if nobody has died over them.
    pub(crate) most: u32,
}

impl Suspicion {
    /// The suspicion of tasks below a task in whose subtree a rank has died.
    pub(crate) const BELOW: Suspicion = Suspicion { certain: 0, shared: 1, death: 0, most: u32::MAX };

    /// The suspicion without the deaths that have turned out to be another task's.
    pub(crate) fn without_shared(self) -> Self {
        let most = if self.certain > 0 { self.most } else { 0 };
        Suspicion { shared: 0, death: 0, most, ..self }
    }

    /// Returns true if a rank has died over the task.
    pub(crate) fn is_there(self) -> bool {
        self.most > 0
    }

    /// Returns true if the task may be tried where `others` ranks beside rank 0 are left. The last of them is not risked for a
    /// task that two have died of.
    pub(crate) fn is_worth_a_rank(self, others: usize) -> bool {
        others >= if self.certain >= 2 { 2 } else { 1 }
    }
}

/// What a death says about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Innocent,
    /// The rank was in it or in another one. It is tried again in a chunk of at most this number of tasks.
    Suspect(u32),
    /// The rank was in it.
    Guilty,
}

impl Verdict {
    /// Attempts and suspicion of a task after the death with this number.
    pub(crate) fn after(self, attempt: u32, was: Suspicion, death: u32) -> (u32, Suspicion) {
        match self {
            Verdict::Innocent => (attempt, was),
            Verdict::Suspect(most) => {
                let most = if was.is_there() { most.min(was.most) } else { most };
                (attempt, Suspicion { shared: was.shared + 1, death, most, ..was })
            }
            // The deaths that it was suspected of were its doing, too.
            Verdict::Guilty => {
                let deaths = was.shared + 1;
                (attempt + deaths, Suspicion { certain: was.certain + deaths, shared: 0, death: 0, most: 1 })
            }
        }
    }
}
