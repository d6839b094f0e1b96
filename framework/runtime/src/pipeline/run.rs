//! Execution of a pipeline on a session.

use super::NAME;
use super::choice::MappingChoice;
use super::collect::Collect;
use super::coordinator::Coordinator;
use super::messages::frame;
use super::participant::Participant;
use super::run_spec::RunSpec;
use super::runnable::{PipelineDef, Runnable};
use super::stage_host::StageHost;
use super::summary::Summary;
use super::worker::Worker;
use crate::error::Result;
use crate::rank::driver::Driver;
use crate::rank::executor::Executor;
use crate::session::{Announcement, Balance, Session};
use crate::wire::{Codec, Item};

impl Runnable<'_> {
    /// Runs the pipeline to the end of its stream. Every rank of the session calls this with the same pipeline.
    ///
    /// Returns a [`Summary`] on rank 0 and `None` on the others.
    ///
    /// # Errors
    /// The first error or panic of the source, a stage or the sink, with rank, stage and item; an option that cannot be used; a
    /// mapping that does not fit; another rank's failure. On MPI a failure ends the job instead of returning.
    pub fn run(self, session: &Session) -> Result<Option<Summary>> {
        self.def.run(session, false)
    }
}

impl<T: Item> Runnable<'_, Collect<T>> {
    /// Makes [`run`](Runnable::run) return the items on every rank instead of rank 0 only.
    pub fn on_all_ranks(mut self) -> Self {
        self.collect.on_all_ranks = true;
        self
    }

    /// Runs the pipeline to the end of its stream. Every rank of the session calls this with the same pipeline.
    ///
    /// Returns all items in the order of the source, and a [`Summary`], on rank 0, or on every rank with
    /// [`on_all_ranks`](Runnable::on_all_ranks); `None` on the others.
    ///
    /// # Errors
    /// The errors of a pipeline that ends in [`for_each`](super::Pipeline::for_each).
    pub fn run(self, session: &Session) -> Result<Option<(Vec<T>, Summary)>> {
        let Runnable { def, collect } = self;
        let (name, on_all_ranks) = (def.name().to_string(), collect.on_all_ranks);
        let all = def.run(session, on_all_ranks)?.map(|summary| (collect.into_items(), summary));
        if !on_all_ranks {
            return Ok(all);
        }
        let what = format!("the pipeline {name:?}");
        session.share(&what, &Codec::of_type(), all, |error| error.in_pipeline(&name)).map(Some)
    }
}

impl PipelineDef<'_> {
    /// Runs the pipeline. With `shares`, all ranks get the collected items.
    fn run(mut self, session: &Session, shares: bool) -> Result<Option<Summary>> {
        let mut endpoint = session.endpoint()?;
        let endpoint = &mut *endpoint;
        let settings = self.settings(session.config()).map_err(|error| error.at_rank(endpoint.rank()));
        let config = &settings.inspect_err(|error| endpoint.report(error))?;
        let run = endpoint.begin_run(&self.announcement(shares), config.join_limit)?;
        let (rank, size, clock) = (endpoint.rank(), endpoint.size(), endpoint.clock());
        let names: Vec<String> = self.stage_names().into_iter().map(String::from).collect();
        let mut kinds = vec![self.source_name.clone()];
        kinds.extend(names.iter().cloned());
        kinds.push(self.sink_name.clone());
        let stages = (names, self.stages.iter().map(|stage| stage.expands).collect());
        let run_spec = if rank == 0 { Some(RunSpec::of(&mut self, size, session)?) } else { None };
        let balanced = config.balance.map_or(self.mapping == MappingChoice::Auto, |b| b != Balance::Off);
        let logs = config.events.is_some();
        let stage_host =
            StageHost::new(self, (rank, size), clock, (config.monitor || balanced || logs, logs));
        let (codecs, activity) = (stage_host.codecs(), stage_host.activity());
        let waker = endpoint.transport().waker();
        std::thread::scope(|scope| {
            let executor = Executor::new(scope, rank, config.driver, waker, clock, stage_host)?;
            let participant = Participant::new((rank, size, run), codecs, activity, stages, config);
            let driver = Driver::of_kinds(endpoint, executor, config, NAME, kinds);
            let result = match run_spec {
                Some(run_spec) => {
                    let coordinator = Coordinator::new(participant, run_spec, config, endpoint);
                    coordinator.and_then(|coordinator| coordinator.run(driver, endpoint)).map(Some)
                }
                None => {
                    Worker::new(participant, config.events.clone()).run(driver, endpoint).and_then(|report| {
                        endpoint.send_ready(0, frame(run, &report)?)?;
                        Ok(None)
                    })
                }
            };
            // The scope waits for the compute thread, which may be in user code for a long time. Other ranks must not wait for that, so a failure is
            // reported first.
            result.inspect_err(|error| endpoint.report(error))
        })
    }

    /// Returns the properties of the run that must agree on all ranks. Mappings and the kind of dispatch are not among them: only rank 0 reads them,
    /// and it sends them to the other ranks.
    fn announcement(&self, shares: bool) -> Announcement {
        let mut names = vec![self.source_name.as_str()];
        names.extend(self.stage_names());
        names.push(&self.sink_name);
        let mut what = Announcement::new(format!("runs the pipeline {names:?}"));
        what = what.with("name", format_args!("{:?}", self.name()));
        for (at, codec) in self.codecs.iter().enumerate() {
            what = what.with(&format!("behind {:?} items of type", names[at]), codec.item());
        }
        for stage in &self.stages {
            let place = match (stage.serial, stage.at_root) {
                (_, true) => "on rank 0",
                (true, false) => "on one rank",
                (false, false) => "on any ranks",
            };
            what = what.with(&format!("the stage {:?}", stage.name), place);
        }
        what = what.with("on_all_ranks", shares);
        what.with("order", if self.ordered { "as of the source" } else { "as they come" })
    }
}
