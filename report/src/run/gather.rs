//! Construction of the runs of a report from the events of all ranks.

use armature::observe::activity::{Activity, RankStart, Traffic, Work};
use armature::observe::{Event, Held, Record, Subject, TaskBegan, TaskEnded, WaitedFor};

use super::{Arrangement, ChangeResult, Decision, HeldAt, Kind, Line, Part, Rank, Run, Skeleton, TaskRun};
use crate::mapping::Mapping;

/// Time of the year 2000 in seconds since 1970. A clock that shows an earlier time is that of a simulated run.
const YEAR_2000: f64 = 946_684_800.0;
/// Maximum number of ranks that is accepted from an event, because a damaged log may contain any number.
const MAX_RANKS: usize = 1 << 20;

impl Run {
    /// Returns the runs of a log, in order.
    pub fn all(records: &[Record]) -> Vec<Run> {
        records.chunk_by(|a, b| a.run == b.run).map(Run::of).collect()
    }

    fn of(records: &[Record]) -> Run {
        let mut run = Run { number: records[0].run, ..Run::default() };
        for record in records {
            run.take(record);
        }
        run.update_length();
        run
    }

    /// Extends the length of the run to the last event that was added.
    pub(crate) fn update_length(&mut self) {
        let last_part = self.ranks.iter().filter_map(|rank| rank.parts.last()).map(|part| part.to);
        let last = last_part.chain(self.lines.iter().map(|line| line.at)).fold(0.0, f64::max);
        self.seconds = if self.has_ended && self.seconds > 0.0 { self.seconds } else { last };
    }

    /// Adds an event of the log to the run.
    pub(crate) fn take(&mut self, record: &Record) {
        let Record { at, rank, event, .. } = record;
        let (at, rank) = (*at, *rank);
        match event {
            Event::RankStart(start) => return self.add_rank_start(rank, start),
            Event::Activity(activity) => return self.add_activity(at, rank, activity),
            Event::Work(work) => return self.add_work(rank, work),
            Event::Traffic(traffic) => return self.add_traffic(rank, traffic),
            Event::RankEnd { .. } => {
                self.rank(rank).end = Some(at);
                return;
            }
            Event::Held(held) => return self.add_held_memory(at, rank, held),
            Event::Progress(reached) => {
                if self.reached.last().is_none_or(|(_, last)| last.done != reached.done) {
                    self.reached.push((at, reached.clone()));
                }
                return;
            }
            Event::TaskBegan(began) => self.task_began(at, rank, began),
            Event::TaskEnded(ended) => self.task_ended(at, rank, ended),
            Event::ValueCame(came) => {
                let sent = self.values_sent.entry((came.from, rank)).or_default();
                *sent = (sent.0 + 1, sent.1.saturating_add(came.bytes));
            }
            event => self.apply_event(at, event),
        }
        self.lines.push(Line { at, rank, text: event.to_string() });
    }

    fn rank(&mut self, rank: usize) -> &mut Rank {
        if rank >= self.ranks.len() {
            self.ranks.resize_with(rank + 1, Rank::default);
        }
        &mut self.ranks[rank]
    }

    fn kind(&mut self, of: usize) -> &mut Kind {
        if of >= self.kinds.len() {
            self.kinds.resize_with(of + 1, Kind::default);
        }
        &mut self.kinds[of]
    }

    fn add_rank_start(&mut self, rank: usize, start: &RankStart) {
        self.ensure_ranks(start.ranks);
        let its = self.rank(rank);
        (its.host, its.memory_limit) = (start.host.clone(), start.memory_limit);
        its.threads.clone_from(&start.threads);
        if rank == 0 {
            // A simulated run has no start time, because the clock of a simulator begins with the simulation.
            self.began = (start.clock_s > YEAR_2000).then_some(start.clock_s);
        }
        self.program.clone_from(&start.program);
        for (of, name) in start.kinds.iter().enumerate() {
            self.kind(of).name.clone_from(name);
        }
    }

    fn add_activity(&mut self, at: f64, rank: usize, activity: &Activity) {
        if let Some(longest) = &activity.longest {
            let kind = self.kind(longest.of);
            if kind.longest.as_ref().is_none_or(|known| longest.seconds > known.seconds) {
                kind.longest = Some(longest.clone());
            }
        }
        self.rank(rank).parts.push(Part { to: at, activity: activity.clone() });
    }

    fn add_work(&mut self, rank: usize, work: &Work) {
        let kind = self.kind(work.of);
        kind.done += work.done;
        kind.seconds += work.seconds;
        let on_rank = kind.by_rank.entry(rank).or_default();
        *on_rank = (on_rank.0 + work.done, on_rank.1 + work.seconds);
        for &(step, count) in &work.steps {
            *kind.steps.entry(step).or_default() += count;
        }
    }

    fn add_traffic(&mut self, rank: usize, traffic: &Traffic) {
        let its = self.rank(rank);
        its.memory_peak = its.memory_peak.max(traffic.memory_peak);
        its.throttled_s += traffic.throttled_s;
        for &(to, messages, bytes) in &traffic.to {
            let sent = its.sent.entry(to).or_default();
            *sent = (sent.0 + messages, sent.1 + bytes);
        }
    }

    fn add_held_memory(&mut self, at: f64, rank: usize, held: &Held) {
        let Held { bytes, most, budget } = *held;
        let its = self.rank(rank);
        its.budget = budget;
        its.held.push(HeldAt { at, bytes, most });
    }

    fn task_began(&mut self, at: f64, rank: usize, began: &TaskBegan) {
        let TaskBegan { task, attempt, waits, reads } = began.clone();
        let run = TaskRun { task, rank, attempt, begin: at, waits, reads, ..TaskRun::default() };
        *self.memory_wait_s.get_or_insert(0.0) += run.waited(WaitedFor::Memory);
        let number = self.tasks.len();
        self.tasks.push(run);
        self.rank(rank).running.push(number);
    }

    fn task_ended(&mut self, at: f64, rank: usize, ended: &TaskEnded) {
        self.rank(rank);
        let running = &mut self.ranks[rank].running;
        let number = match running.iter().position(|&number| self.tasks[number].task == ended.task) {
            Some(place) => running.remove(place),
            // If the log lacks the start of the task, the start time is computed from the end and the duration of the
            // task.
            None => {
                let begin = at - if ended.seconds.is_finite() { ended.seconds } else { 0.0 };
                self.tasks.push(TaskRun { task: ended.task.clone(), rank, begin, ..TaskRun::default() });
                self.tasks.len() - 1
            }
        };
        let run = &mut self.tasks[number];
        (run.end, run.bytes, run.failure) = (Some(at), ended.bytes, ended.failure.clone());
    }

    /// Adds ranks until the run has at least this number of ranks.
    fn ensure_ranks(&mut self, ranks: usize) {
        // The number of ranks is limited, because a damaged log may name a rank with any number.
        let last = ranks.clamp(1, MAX_RANKS) - 1;
        self.rank(last);
    }

    /// Adds an event of a kind that the table of events lists as text.
    fn apply_event(&mut self, at: f64, event: &Event) {
        match event {
            Event::Start { ranks, mapping, balance } => {
                self.skeleton = Skeleton::Pipeline;
                self.ensure_ranks(*ranks);
                self.balance.clone_from(balance);
                self.record_arrangement(at, Arrangement::Mapping(Mapping::parse(mapping)));
            }
            Event::FarmStart { farm, ranks, workers, balance, .. } => {
                self.skeleton = Skeleton::Farm;
                self.ensure_ranks(*ranks);
                self.name.clone_from(farm);
                self.balance.clone_from(balance);
                self.record_arrangement(at, Arrangement::Workers(*workers));
            }
            Event::LoopStart { name, held, balance, .. } => {
                self.skeleton = Skeleton::Loop;
                self.ensure_ranks(held.len());
                self.name.clone_from(name);
                self.balance.clone_from(balance);
                self.record_arrangement(at, Arrangement::Units(held.clone()));
            }
            Event::Probe { speeds, slowest_link, .. } => {
                self.speeds.clone_from(speeds);
                self.slowest_probed = *slowest_link;
            }
            Event::Link { from, to, bandwidth, setup, .. } => {
                self.links.insert((*from, *to), (*bandwidth, *setup));
            }
            Event::Chunks { message_s, .. } => self.message_s = Some(*message_s),
            Event::WorkflowStart(start) => {
                self.skeleton = Skeleton::Workflow;
                self.ensure_ranks(start.ranks);
                self.name.clone_from(&start.name);
                self.total = Some(start.tasks.saturating_sub(start.known));
            }
            Event::Planned(planned) => {
                // The first plan of a workflow is not listed as a change.
                if planned.by.is_some() && !planned.kept && self.is_planned {
                    self.changes.push((at, "another plan".to_string()));
                }
                self.is_planned |= planned.by.is_some();
                self.plans.extend(planned.ends_s.map(|ends| (at, at + ends)));
            }
            Event::Plan(plan) => self.schedules.push((at, plan.clone())),
            Event::WorkflowEnd(end) => {
                (self.has_ended, self.seconds, self.done) = (true, end.seconds, Some(end.tasks));
            }
            Event::Lost { rank, .. } => {
                self.lost.push(*rank);
                self.changes.push((at, format!("rank {rank} lost")));
            }
            Event::Switch { epoch, mapping } => {
                // Epoch 1 has the initial mapping, which is not listed as a change.
                if *epoch > 1 {
                    self.changes.push((at, format!("mapping {epoch}")));
                }
                self.record_arrangement(at, Arrangement::Mapping(Mapping::parse(mapping)));
            }
            Event::Moved { number, .. } => self.changes.push((at, format!("movement {number}"))),
            Event::Parked { ranks } => self.changes.push((at, format!("{} parked", ranks.len()))),
            Event::Woken { ranks } => self.changes.push((at, format!("{} woken", ranks.len()))),
            Event::Outcome { before_s, predicted_s, after_s, .. } => {
                let (before_s, predicted_s, after_s) = (*before_s, *predicted_s, *after_s);
                self.outcomes.push(ChangeResult { at, before_s, predicted_s, after_s });
            }
            Event::Decision { .. } => self.apply_decision(at, event),
            Event::Finish { items, seconds } => {
                (self.has_ended, self.seconds, self.done) = (true, *seconds, Some(*items));
            }
            Event::LoopEnd { passes, seconds } => {
                (self.has_ended, self.seconds, self.done) = (true, *seconds, Some(*passes));
            }
            _ => {}
        }
    }

    fn apply_decision(&mut self, at: f64, event: &Event) {
        let Event::Decision { of, candidate, speeds, inputs, acted, .. } = event else { return };
        self.decisions.push(Decision { at, acted: *acted, text: event.to_string() });
        if !speeds.is_empty() {
            self.speeds.clone_from(speeds);
        }
        for input in inputs.iter().filter(|input| input.unit == "units/s") {
            let rank = input.name.strip_prefix("rank ").and_then(|rest| rest.split(' ').next());
            if let Some(rank) = rank.and_then(|rank| rank.parse().ok()) {
                self.filtered.push((at, rank, input.value));
            }
        }
        if let (true, Some(candidate)) = (*acted, candidate) {
            match of {
                Subject::Units => {
                    let held: Option<Vec<u64>> =
                        candidate.split_whitespace().map(|n| n.parse().ok()).collect();
                    if let Some(held) = held {
                        self.record_arrangement(at, Arrangement::Units(held));
                    }
                }
                Subject::Workers => {
                    if let Ok(workers) = candidate.parse() {
                        self.record_arrangement(at, Arrangement::Workers(workers));
                    }
                }
                // The new mapping is not taken from the decision, but from the event that follows when the mapping takes effect.
                _ => {}
            }
        }
    }

    fn record_arrangement(&mut self, at: f64, arrangement: Arrangement) {
        if self.arrangements.last().is_none_or(|(_, last)| *last != arrangement) {
            self.arrangements.push((at, arrangement));
        }
    }
}
