//! Blame for the death of a rank: the number of deaths per task, and the ranks that may retry the task.
//!
//! A death counts as an attempt of the task in which the rank was. If that task is not known, all candidates are suspects until another
//! death or a result decides. Rank 0 never runs a suspected task, because the death of rank 0 ends the job.

use serde::{Deserialize, Serialize};

/// Deaths attributed to a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspicion {
    /// Number of ranks that certainly died in the task. The attempts of the task include them.
    pub(crate) certain: u32,
    /// Number of ranks that died in this task or in another one.
    pub(crate) shared: u32,
    /// Number of the last death in `shared`.
    pub(crate) death: u32,
    /// Maximum number of tasks in a chunk with this task; 0 if no rank died.
    pub(crate) most: u32,
}

/// Number of attempts of a task, and the deaths attributed to it.
pub(crate) type Tried = (u32, Suspicion);

impl Suspicion {
    /// Suspicion of a task that a suspected task has created.
    pub(crate) const BELOW: Suspicion = Suspicion { certain: 0, shared: 1, death: 0, most: u32::MAX };

    /// Returns the suspicion after the deaths in `shared` were attributed to another task.
    pub(crate) fn without_shared(self) -> Self {
        let most = if self.certain > 0 { self.most } else { 0 };
        Suspicion { shared: 0, death: 0, most, ..self }
    }

    /// Returns true if a rank died that may have been in the task.
    pub(crate) fn is_there(self) -> bool {
        self.most > 0
    }

    /// Returns true if the deaths are certainly caused by the task itself, so that a restart of the job would not help: two ranks died in it. A
    /// single rank may have been killed for another reason.
    pub(crate) fn is_its_own(self) -> bool {
        self.certain >= 2
    }

    /// Returns the attempts and the suspicion of a task that had used all its attempts in an earlier run of the job. The task gets new attempts, on
    /// the `others` ranks besides rank 0 if there are any.
    pub(crate) fn anew(self, others: usize) -> Tried {
        let suspicion = Suspicion { certain: 1, most: 1, ..Suspicion::default() };
        (0, if self.certain > 0 && others > 0 { suspicion } else { Suspicion::default() })
    }

    /// Returns true if the task may run while `others` ranks besides rank 0 are left. The last of them does not run a task in which two
    /// ranks died.
    pub(crate) fn is_worth_a_rank(self, others: usize) -> bool {
        others >= if self.certain >= 2 { 2 } else { 1 }
    }
}

/// Relation of a death to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The task was not running on the rank.
    Innocent,
    /// The rank was in this task or in another one. The task is retried in a chunk of at most this number of tasks.
    Suspect(u32),
    /// The rank was in this task.
    Guilty,
}

impl Verdict {
    /// Returns attempts and suspicion of a task after the death with this number.
    pub(crate) fn after(self, attempt: u32, was: Suspicion, death: u32) -> (u32, Suspicion) {
        match self {
            Verdict::Innocent => (attempt, was),
            Verdict::Suspect(most) => {
                let most = if was.is_there() { most.min(was.most) } else { most };
                (attempt, Suspicion { shared: was.shared + 1, death, most, ..was })
            }
            // The earlier suspected deaths are attributed to the task as well.
            Verdict::Guilty => {
                let deaths = was.shared + 1;
                (attempt + deaths, Suspicion { certain: was.certain + deaths, shared: 0, death: 0, most: 1 })
            }
        }
    }
}
