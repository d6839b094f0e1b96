//! Synthetic runs for tests.

use armature::observe::activity::{Activity, RankStart, SCHEMA};

use crate::run::{Kind, Part, Rank, Run, Skeleton};

/// Returns the start event of one of `ranks` ranks.
pub(crate) fn start(ranks: usize) -> RankStart {
    RankStart {
        schema: SCHEMA,
        ranks,
        what: "the farm".into(),
        host: "h".into(),
        program: "p".into(),
        clock_s: 0.0,
        kinds: vec!["task".into()],
        memory_limit: None,
        threads: Vec::new(),
    }
}

/// Synthetic run in which each rank spends a constant fraction of its time on each activity.
pub(crate) struct Situation(Run);

impl Situation {
    pub(crate) fn new(seconds: f64) -> Self {
        let kinds = vec![Kind { name: "task".into(), ..Kind::default() }];
        Situation(Run { seconds, has_ended: true, skeleton: Skeleton::Farm, kinds, ..Run::default() })
    }

    pub(crate) fn of(mut self, skeleton: Skeleton) -> Self {
        self.0.skeleton = skeleton;
        self
    }

    /// Adds a rank that computed for `work` seconds, had no core for `lost` of these seconds, and waited for the rest of the run.
    pub(crate) fn rank(self, work: f64, lost: f64) -> Self {
        let idle = self.0.seconds - work;
        self.busy(work, lost, idle)
    }

    /// Adds a rank that computed for `work` seconds, waited for `idle` seconds, and handled messages for the rest of the run.
    pub(crate) fn busy(mut self, work: f64, lost: f64, idle: f64) -> Self {
        let seconds = self.0.seconds;
        let pieces = 100;
        let part = |n: usize| {
            let share = 1.0 / f64::from(pieces);
            let activity = Activity {
                seconds: seconds * share,
                work_s: work * share,
                idle_s: idle * share,
                messages_s: (seconds - work - idle) * share,
                lost_s: lost * share,
                done: vec![1],
                ..Activity::default()
            };
            Part { to: seconds * share * n as f64, activity }
        };
        let parts = (1..=pieces as usize).map(part).collect();
        self.0.ranks.push(Rank { parts, end: Some(seconds), ..Rank::default() });
        self
    }

    pub(crate) fn parked(mut self) -> Self {
        let seconds = self.0.seconds;
        let activity = Activity { seconds, parked_s: seconds, done: vec![0], ..Activity::default() };
        self.0.ranks.push(Rank { parts: vec![Part { to: seconds, activity }], ..Rank::default() });
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Run)) -> Self {
        change(&mut self.0);
        self
    }

    pub(crate) fn run(self) -> Run {
        self.0
    }
}
