//! Command-line options of every farm.

use crate::terminal::eprint_line;
use armature::farm::{Chunking, Farm};
use armature::{Item, Session};
use clap::Args;
use std::time::Duration;

/// Command-line options of a program that runs a farm.
#[derive(Debug, Args)]
pub struct FarmArgs {
    /// Number of tasks that a rank gets at a time: a number, or one of static, ss, fsc, dpf, daf, gss, tss, fac2, fac, awf-b, af, fsc-kw; `auto`
    /// measures the tasks and chooses
    #[arg(long, default_value = "auto", value_name = "NAME|NUMBER")]
    chunking: Chunking,
    /// Do not run tasks on rank 0, which then only dispatches them and collects the results
    #[arg(long)]
    dedicated_master: bool,
    /// Number of chunks that a rank requests in advance [default: chosen from measurements]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(..=1024))]
    request_ahead: Option<u16>,
    /// Time limit of a task in seconds; a task that exceeds it has failed [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    task_limit: Option<Duration>,
    /// Number of further tries of a failed task, on another rank if there is one
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(..=1000))]
    retries: u16,
    /// Print a table of the work of each rank at the end
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    run: armature::cli::RunArgs,
}

impl FarmArgs {
    /// Returns the configuration of the framework from environment variables, overridden by these command-line options.
    ///
    /// # Errors
    /// An environment variable with an invalid value.
    pub fn config(&self) -> armature::Result<armature::Config> {
        self.run.config()
    }

    /// Returns true if the user requested a summary table of the work of each rank.
    pub fn summary(&self) -> bool {
        self.summary
    }

    /// Applies these command-line options to the farm (a master and workers). Prints a message for each option that has no effect because the session
    /// has only one rank.
    pub fn set_up<'f, I: Item, O: Item>(&self, session: &Session, farm: Farm<'f, I, O>) -> Farm<'f, I, O> {
        if session.size() == 1 {
            self.idle_options().for_each(|option| {
                eprint_line(format_args!("{option} has no effect: there is only one rank"))
            });
        }
        let mut farm = farm.chunking(self.chunking).retries(self.retries.into());
        if self.dedicated_master {
            farm = farm.dedicated_master();
        }
        if let Some(chunks) = self.request_ahead {
            farm = farm.request_ahead(chunks.into());
        }
        if let Some(limit) = self.task_limit {
            farm = farm.task_limit(limit);
        }
        farm
    }

    /// Returns the names of the given options that have no effect on one rank. The time limit of a task is not among the names, because a farm on one
    /// rank rejects it.
    fn idle_options(&self) -> impl Iterator<Item = &'static str> {
        let flags = [
            ("--dedicated-master", self.dedicated_master),
            ("--request-ahead", self.request_ahead.is_some()),
        ];
        flags.into_iter().filter_map(|(option, is_given)| is_given.then_some(option))
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| *s > 0.0 && *s <= 86_400.0);
    seconds
        .map(Duration::from_secs_f64)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "expected seconds, more than 0 and at most 86400".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        farm: FarmArgs,
    }

    fn parse(arguments: &str) -> Result<FarmArgs, String> {
        let line = Line::try_parse_from(["test"].into_iter().chain(arguments.split_whitespace()));
        line.map(|line| line.farm).map_err(|e| e.to_string())
    }

    #[test]
    fn farm_options_reach_the_farm() {
        let farm = |arguments| {
            let line = parse(arguments).unwrap();
            let show = |session: &mut Session| {
                Ok(format!("{:?}", line.set_up(session, Farm::new("same", |x: u64| x))))
            };
            armature::run(&armature::Config::new(), show).unwrap()
        };
        let plain = farm("");
        assert!(plain.contains("chunking: Auto") && plain.contains("dedicated: false"), "{plain}");
        assert!(plain.contains("retries: 1"), "{plain}");
        let set = farm("--chunking fac2 --dedicated-master --request-ahead 3 --task-limit 1.5 --retries 4");
        for part in [
            "chunking: Policy(Fac2)",
            "dedicated: true",
            "ahead: Some(3)",
            "task_limit: Some(1.5s)",
            "retries: 4",
        ] {
            assert!(set.contains(part), "{part}: {set}");
        }
        assert!(farm("--chunking 32").contains("chunking: Fixed(32)"));
    }

    #[test]
    fn unusable_options_are_refused() {
        assert!(parse("--chunking some").unwrap_err().contains("awf-b"));
        assert!(parse("--chunking 0").is_err());
        for limit in ["0", "1e-12", "nan", "86401"] {
            assert!(
                parse(&format!("--task-limit {limit}")).unwrap_err().contains("expected seconds"),
                "{limit}"
            );
        }
        assert!(parse("--request-ahead -1").is_err());
        assert!(parse("--retries 1001").unwrap_err().contains("0..=1000"));
    }

    #[test]
    fn options_without_effect_on_one_rank_are_listed() {
        let idle = |arguments| parse(arguments).unwrap().idle_options().collect::<Vec<_>>();
        assert!(idle("--retries 2 --chunking ss").is_empty());
        assert_eq!(
            idle("--dedicated-master --task-limit 3 --request-ahead 1"),
            ["--dedicated-master", "--request-ahead"]
        );
    }

    #[test]
    fn help_is_complete() {
        use clap::CommandFactory;
        let help = Line::command().render_long_help().to_string();
        for chunking in Chunking::all() {
            assert!(help.contains(&chunking.to_string()), "{chunking} is not in the help");
        }
    }
}
