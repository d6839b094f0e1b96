//! Failed attempts of a task and deaths of ranks that the task may have caused: how many there are, and which ranks may retry the task.

use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;
use crate::failed_task::FailedTask;

/// Failed attempts of a task, and the deaths attributed to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempts {
    /// Number of failed attempts of the task. The death of a rank that certainly died in the task counts as a failed attempt.
    pub(crate) failed: u32,
    pub(crate) suspicion: Suspicion,
}

/// Deaths of ranks that are attributed to a task, certainly or possibly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspicion {
    /// Number of ranks that certainly died in the task. Each of these deaths is also counted as a failed attempt of the task.
    pub(crate) certain: u32,
    /// Number of ranks that died in one of several tasks, of which this task is one.
    pub(crate) shared: u32,
    /// Identifying number of the last death of a rank in one of several tasks, of which this task is one.
    pub(crate) death: u32,
    /// Maximum number of tasks in the chunk (tasks that a rank gets together) in which the task may be retried; 0 if no rank died that may have
    /// been in the task.
    pub(crate) most: u32,
}

impl Suspicion {
    /// Suspicion of a task that was created by another task (in a farm whose tasks create tasks): a rank may have died in that other task.
    pub(crate) const BELOW: Suspicion = Suspicion { certain: 0, shared: 1, death: 0, most: u32::MAX };
}

impl Attempts {
    /// Returns true if a rank died that may have been in the task. Rank 0 never runs such a task.
    pub(crate) fn is_suspect(self) -> bool {
        self.suspicion.most > 0
    }

    pub(crate) fn is_exhausted(self, tries: u32) -> bool {
        self.failed >= tries
    }

    /// Returns true if the task gets no further attempt after its `tries`. A task that may have caused a death, but has certainly caused none, gets
    /// further attempts, because another task may have been the cause.
    fn is_spent(self, tries: u32) -> bool {
        self.is_exhausted(tries) && (self.suspicion.certain > 0 || !self.is_suspect())
    }

    /// Returns true if no rank may run the task any more: it has used all its `tries`, or too few ranks other than 0 are alive (`others` is their
    /// number). The last rank other than rank 0 does not run a task in which two ranks died.
    pub(crate) fn is_hopeless(self, tries: u32, others: usize) -> bool {
        let needed = if self.suspicion.certain >= 2 { 2 } else { 1 };
        self.is_spent(tries) || (self.is_suspect() && others < needed)
    }

    /// Returns new attempts for a task that had used all its attempts in an earlier run of the job. If ranks other than 0 are alive (`others` is
    /// their number), a task in which a rank died remains a suspect, so that one of these ranks runs it.
    pub(crate) fn renewed(self, others: usize) -> Self {
        let suspicion = Suspicion { certain: 1, most: 1, ..Suspicion::default() };
        let is_suspect = self.suspicion.certain > 0 && others > 0;
        Attempts { failed: 0, suspicion: if is_suspect { suspicion } else { Suspicion::default() } }
    }

    /// Clears the deaths that this task or another one may have caused, because the other task has turned out to be the cause.
    pub(crate) fn clear_shared(&mut self) {
        let most = if self.suspicion.certain > 0 { self.suspicion.most } else { 0 };
        self.suspicion = Suspicion { shared: 0, death: 0, most, ..self.suspicion };
    }

    /// Clears the deaths that this task or another one may have caused, if the last of them is one of the numbered deaths in `explained`: another
    /// task was their cause. Returns true if deaths were cleared.
    pub(crate) fn clear(&mut self, explained: &[u32]) -> bool {
        let was_suspected = self.suspicion.shared > 0 && explained.contains(&self.suspicion.death);
        if was_suspected {
            self.clear_shared();
        }
        was_suspected
    }

    /// Returns the attempts of the task after the death of a rank, which has the number `death`. `blame` states whether the dead rank was
    /// in this task.
    fn after(self, blame: Blame, death: u32) -> Self {
        let Attempts { failed, suspicion: was } = self;
        match blame {
            Blame::Innocent => self,
            Blame::Suspect(most) => {
                let most = if self.is_suspect() { most.min(was.most) } else { most };
                Attempts { failed, suspicion: Suspicion { shared: was.shared + 1, death, most, ..was } }
            }
            // The task has now killed a rank, so earlier deaths of which it was suspected count as caused by it.
            Blame::Guilty => {
                let deaths = was.shared + 1;
                let suspicion = Suspicion { certain: was.certain + deaths, shared: 0, death: 0, most: 1 };
                Attempts { failed: failed + deaths, suspicion }
            }
        }
    }

    /// Returns the failure of a task that no rank may run any more, after deaths of ranks in it. `last` is the rank that died last, with the
    /// reason; `None` if the rank died in an earlier run of the job. The skeleton chooses the wording of the message: `died` is "died" or "has
    /// died", and `elsewhere` describes the other tasks in which the rank may have been.
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
            // The error message names no rank, because the journal (record of task results) of an earlier run does not contain its number.
            None => format!("a process {died} in {place} (in an earlier run of the job)"),
        };
        if !is_spent {
            message += ", and no rank is left to retry it";
        }
        // The failure counts as the program's own only if the task has used all its tries and two ranks died in it. Otherwise the task may succeed
        // in another run: a single rank may have been killed for another reason.
        let is_its_own = is_spent && self.suspicion.certain >= 2;
        let kind = if is_its_own { ErrorKind::User } else { ErrorKind::Timeout };
        let (rank, tries) = (last.map_or(0, |(rank, _)| rank), self.failed + self.suspicion.shared.min(1));
        FailedTask { task, name, rank, tries, kind, message }
    }
}

/// Judgement whether a dead rank was in a given task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    Innocent,
    /// The dead rank was in this task or in another task. This task is retried in a chunk of at most the given number of tasks.
    Suspect(u32),
    Guilty,
}

/// Identifying numbers of the deaths of ranks that tasks may have caused; the deaths of a job are numbered in order.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    /// Identifying number of the last death of a rank. Deaths of earlier runs of the job are numbered too.
    pub(crate) last: u32,
    /// Identifying numbers of earlier deaths whose cause has become known through the last death. They are kept until the caller has
    /// [cleared](Attempts::clear) the suspicion of the other tasks.
    pub(crate) explained: Vec<u32>,
}

impl Deaths {
    /// Returns the attempts of a task after the last death of a rank. If that rank was or may have been in the task, an earlier death that
    /// the task may have caused counts as explained by the task.
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
