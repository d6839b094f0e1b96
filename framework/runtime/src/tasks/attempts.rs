//! Attempts of tasks and the deaths of ranks attributed to them: number of deaths per task, and the ranks that may retry the task.

use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;
use crate::failed_task::FailedTask;

/// Failed attempts of a task, and the deaths attributed to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempts {
    /// Number of failed attempts. A rank that certainly died in the task is one of them.
    pub(crate) failed: u32,
    pub(crate) suspicion: Suspicion,
}

/// Deaths of ranks that are attributed to a task, certainly or possibly.
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

impl Suspicion {
    /// Suspicion of a task that a suspected task has created.
    pub(crate) const BELOW: Suspicion = Suspicion { certain: 0, shared: 1, death: 0, most: u32::MAX };
}

impl Attempts {
    /// Returns true if a rank died that may have been in the task. Rank 0 never runs a suspect.
    pub(crate) fn is_suspect(self) -> bool {
        self.suspicion.most > 0
    }

    /// Returns true if the task has used all its `tries`.
    pub(crate) fn is_exhausted(self, tries: u32) -> bool {
        self.failed >= tries
    }

    /// Returns true if the task has used all its `tries` and does not get another one. A suspect in which no rank certainly died gets another one,
    /// because another task may explain the death.
    fn is_spent(self, tries: u32) -> bool {
        self.is_exhausted(tries) && (self.suspicion.certain > 0 || !self.is_suspect())
    }

    /// Returns true if no rank may run the task any more: its `tries` are used up, or too few of the `others`, the living ranks without rank 0, are
    /// left. The last of them does not run a task in which two ranks died.
    pub(crate) fn is_hopeless(self, tries: u32, others: usize) -> bool {
        let needed = if self.suspicion.certain >= 2 { 2 } else { 1 };
        self.is_spent(tries) || (self.is_suspect() && others < needed)
    }

    /// Returns new attempts for a task that had used all its attempts in an earlier run of the job. If there are `others`, living ranks without rank
    /// 0, a task in which a rank died remains a suspect, so that one of them runs it.
    pub(crate) fn renewed(self, others: usize) -> Self {
        let suspicion = Suspicion { certain: 1, most: 1, ..Suspicion::default() };
        let is_suspect = self.suspicion.certain > 0 && others > 0;
        Attempts { failed: 0, suspicion: if is_suspect { suspicion } else { Suspicion::default() } }
    }

    /// Clears the deaths that the task shares with other tasks, because another task explains them.
    pub(crate) fn clear_shared(&mut self) {
        let most = if self.suspicion.certain > 0 { self.suspicion.most } else { 0 };
        self.suspicion = Suspicion { shared: 0, death: 0, most, ..self.suspicion };
    }

    /// Clears the shared deaths if the last death of which the task was suspected is one of the `explained` deaths. Returns true if it is.
    pub(crate) fn clear(&mut self, explained: &[u32]) -> bool {
        let was_suspected = self.suspicion.shared > 0 && explained.contains(&self.suspicion.death);
        if was_suspected {
            self.clear_shared();
        }
        was_suspected
    }

    /// Returns the attempts after death number `death`, whose relation to the task is `verdict`.
    fn after(self, blame: Blame, death: u32) -> Self {
        let Attempts { failed, suspicion: was } = self;
        match blame {
            Blame::Innocent => self,
            Blame::Suspect(most) => {
                let most = if self.is_suspect() { most.min(was.most) } else { most };
                Attempts { failed, suspicion: Suspicion { shared: was.shared + 1, death, most, ..was } }
            }
            // Earlier deaths of which the task was suspected become certain too.
            Blame::Guilty => {
                let deaths = was.shared + 1;
                let suspicion = Suspicion { certain: was.certain + deaths, shared: 0, death: 0, most: 1 };
                Attempts { failed: failed + deaths, suspicion }
            }
        }
    }

    /// Returns the failure of a task that no rank may run any more, after deaths in it. `last` is the rank that died last, with the reason; `None` if
    /// it died in an earlier run of the job. The skeleton chooses the wording of the message: `died` is "died" or "has died", and `elsewhere`
    /// describes the other tasks in which the rank may have been.
    pub(crate) fn failure(
        self,
        (task, name): (u64, Option<String>),
        tries: u32,
        last: Option<(usize, &str)>,
        (died, elsewhere): (&str, &str),
    ) -> FailedTask {
        let is_spent = self.is_spent(tries);
        let place = match self.suspicion.certain > 0 {
            true => "it".to_string(),
            false => format!("it, or in {elsewhere}"),
        };
        let mut message = match last {
            Some((rank, why)) => format!("the process of rank {rank} {died} in {place}{why}"),
            // The journal does not record the rank.
            None => format!("a process {died} in {place} (in an earlier run of the job)"),
        };
        if !is_spent {
            message += ", and no rank is left to retry it";
        }
        // The task may succeed in another run, unless it has used all its tries and the deaths are its own: two ranks died in it. A single
        // rank may have been killed for another reason.
        let is_its_own = is_spent && self.suspicion.certain >= 2;
        let kind = if is_its_own { ErrorKind::User } else { ErrorKind::Timeout };
        let (rank, tries) = (last.map_or(0, |(rank, _)| rank), self.failed + self.suspicion.shared.min(1));
        FailedTask { task, name, rank, tries, kind, message }
    }
}

/// Relation of a death to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The task was not running on the rank.
    Innocent,
    /// The rank was in this task or in another one. The task is retried in a chunk of at most this number of tasks.
    Suspect(u32),
    /// The rank was in this task.
    Guilty,
}

/// Deaths of ranks that tasks may have caused.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    /// Number of the last death, the deaths of earlier runs included.
    pub(crate) last: u32,
    /// Earlier deaths that the last one explains, until the caller has [cleared](Attempts::clear) their other suspects.
    pub(crate) explained: Vec<u32>,
}

impl Deaths {
    /// Returns the attempts of a task after the last death. If the task is blamed, the death explains the earlier death of which the task
    /// was suspected.
    pub(crate) fn judge(&mut self, was: Attempts, blame: Blame) -> Attempts {
        if blame != Blame::Innocent && was.suspicion.shared > 0 {
            self.explained.push(was.suspicion.death);
        }
        was.after(blame, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspected_deaths_count_once_a_task_is_guilty() {
        let was = Suspicion { certain: 0, shared: 2, death: 3, most: 5 };
        let after = |blame| {
            let Attempts { failed, suspicion } = Attempts { failed: 1, suspicion: was }.after(blame, 8);
            (failed, suspicion)
        };
        assert_eq!(after(Blame::Innocent), (1, was));
        assert_eq!(after(Blame::Suspect(9)), (1, Suspicion { shared: 3, death: 8, ..was }));
        let guilty = Suspicion { certain: 3, shared: 0, death: 0, most: 1 };
        assert_eq!(after(Blame::Guilty), (4, guilty));
    }
}
