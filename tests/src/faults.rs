//! Programs that must fail, each at another place in the program, and the expected error messages.

use std::time::Duration;

use armature::farm::Farm;
use armature::loops::map;
use armature::pipeline::{MappingChoice, Pipeline};
use armature::workflow::{Action, Context, Description, Inputs, Task, Workflow};
use armature::{BoxError, Item, Session};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Case, disagree};

/// A program that must fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Name of the program, and the function that its ranks run.
    pub case: Case,
    /// Minimum number of ranks with which the program fails.
    pub ranks: usize,
    /// Rank that the error message must name.
    pub rank: ReportingRank,
    /// Pipeline stage that the error message must name, if any.
    pub stage: Option<&'static str>,
    /// Number of the item that the error message must name, if any.
    pub item: Option<u64>,
    /// True if the user code panics, and false if it returns an error.
    pub panic: bool,
    /// Text that the error message must contain.
    pub text: &'static str,
}

/// Rank that the error message of a program must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportingRank {
    /// The error message must name rank 0.
    Root,
    /// The error message must name the last rank.
    Last,
    /// The error message must name a rank, which cannot be predicted.
    Any,
    /// The error message must name no rank.
    Nowhere,
}

impl Fault {
    /// Checks that one line of `message` has all expected parts, if `ranks` ranks have run the program.
    ///
    /// # Errors
    /// Returns an error that lists the missing parts.
    pub fn check(&self, message: &str, ranks: usize) -> Result<(), String> {
        let mut expected = vec![self.text.to_string()];
        match self.rank {
            ReportingRank::Root => expected.push("rank 0: ".into()),
            ReportingRank::Last => expected.push(format!("rank {}: ", ranks - 1)),
            ReportingRank::Any => expected.push("rank ".into()),
            ReportingRank::Nowhere => {}
        }
        expected.extend(self.stage.map(|s| format!("stage {s}: ")));
        expected.extend(self.item.map(|i| format!("item {i}: ")));
        expected.extend(self.panic.then(|| "panicked: ".to_string()));
        // All expected parts (rank, stage, item, text) must be in one line of the error message.
        let best = message
            .lines()
            .map(|line| expected.iter().filter(|e| !line.contains(e.as_str())).collect::<Vec<_>>())
            .min_by_key(Vec::len)
            .unwrap_or_default();
        match best.is_empty() && !message.is_empty() {
            true => Ok(()),
            false => {
                Err(format!("{}: no line has all of {expected:?}, the best lacks {best:?}", self.case.name))
            }
        }
    }
}

/// Returns all programs that must fail.
pub fn all() -> Vec<Fault> {
    use ReportingRank::{Last, Root};
    let fault = |name, run: fn(&mut Session) -> Result<(), BoxError>, rank, stage, item, panic| {
        let text = if panic { "burst" } else { "torn" };
        Fault { case: Case { name, run }, ranks: 1, rank, stage, item, panic, text }
    };
    let two = |fault| Fault { ranks: 2, ..fault };
    let mut faults = vec![
        fault(
            "err-in-source",
            |s| pipeline(s, "source", false),
            Root,
            Some("numbers"),
            Some(FAILING_ITEM),
            false,
        ),
        fault(
            "panic-in-source",
            |s| pipeline(s, "source", true),
            Root,
            Some("numbers"),
            Some(FAILING_ITEM),
            true,
        ),
        fault("err-in-factory", |s| pipeline(s, "factory", false), Last, Some("narrow"), None, false),
        fault("panic-in-factory", |s| pipeline(s, "factory", true), Last, Some("narrow"), None, true),
        fault(
            "err-in-replica",
            |s| pipeline(s, "wide", false),
            ReportingRank::Any,
            Some("wide"),
            Some(FAILING_ITEM),
            false,
        ),
        fault(
            "panic-in-replica",
            |s| pipeline(s, "wide", true),
            ReportingRank::Any,
            Some("wide"),
            Some(FAILING_ITEM),
            true,
        ),
        fault(
            "err-in-serial-stage",
            |s| pipeline(s, "narrow", false),
            Last,
            Some("narrow"),
            Some(FAILING_ITEM),
            false,
        ),
        fault(
            "panic-in-serial-stage",
            |s| pipeline(s, "narrow", true),
            Last,
            Some("narrow"),
            Some(FAILING_ITEM),
            true,
        ),
        fault("err-in-sink", |s| pipeline(s, "sink", false), Root, Some("out"), Some(FAILING_ITEM), false),
        fault("panic-in-sink", |s| pipeline(s, "sink", true), Root, Some("out"), Some(FAILING_ITEM), true),
        two(fault("err-in-serialize", failing_transfer::<0>, Root, Some("front"), Some(FAILING_ITEM), false)),
        two(fault(
            "panic-in-serialize",
            failing_transfer::<1>,
            Root,
            Some("front"),
            Some(FAILING_ITEM),
            true,
        )),
        // The first items are also deserialised on the rank that sends them, so that either this rank or the last one detects the error first.
        two(fault(
            "err-in-deserialize",
            failing_transfer::<2>,
            ReportingRank::Any,
            None,
            Some(FAILING_ITEM),
            false,
        )),
        two(fault(
            "panic-in-deserialize",
            failing_transfer::<3>,
            ReportingRank::Any,
            None,
            Some(FAILING_ITEM),
            true,
        )),
        fault("err-in-workflow", |s| workflow(s, false), ReportingRank::Any, None, None, false),
        fault("panic-in-workflow", |s| workflow(s, true), ReportingRank::Any, None, None, true),
        fault("err-before", |s| fail_around_pipeline(s, false, true), Last, None, None, false),
        fault("panic-before", |s| fail_around_pipeline(s, true, true), Last, None, None, true),
        fault("err-after", |s| fail_around_pipeline(s, false, false), Last, None, None, false),
        fault("panic-after", |s| fail_around_pipeline(s, true, false), Last, None, None, true),
        Fault {
            text: "but rank 0 runs the pipeline [\"numbers\", \"a\", \"b\", \"out\"]",
            ..two(fault("other-pipeline", other_pipeline, Last, None, None, false))
        },
        Fault {
            text: "with indices 0..0, but rank 0 with indices 0..20",
            ..two(fault("other-length", sized_by_a_result, ReportingRank::Any, None, None, false))
        },
        Fault {
            text: "ends the program, but rank 0 runs the farm \"alone\"",
            ..two(fault("other-after", farm_on_root_only, ReportingRank::Any, None, None, false))
        },
        Fault {
            text: "mapping: `sag` in `sag@0`: stage a comes next",
            ..fault(
                "mapping-names-no-stage",
                |s| with_mapping_file(s, "sag@0"),
                ReportingRank::Nowhere,
                None,
                None,
                false,
            )
        },
        Fault {
            text: "names processor 99, but there are",
            ..fault(
                "mapping-names-no-rank",
                |s| with_mapping_file(s, "a+b@99"),
                ReportingRank::Nowhere,
                None,
                None,
                false,
            )
        },
        Fault { text: "endless", ..fault("endless", endless, ReportingRank::Any, None, None, false) },
        Fault { text: "hung", ..fault("never-comes", never_joins, ReportingRank::Any, None, None, false) },
    ];
    faults.extend(disagree::faults());
    faults
}

/// Number of the item in which the user code fails.
const FAILING_ITEM: u64 = 17;

fn fail(panic: bool) -> Result<(), BoxError> {
    assert!(!panic, "burst");
    Err("torn".into())
}

/// Pipeline that fails at `place`: the source, a replicated stage, the creation or a call of a serial stage, or the sink.
fn pipeline(session: &mut Session, place: &'static str, panic: bool) -> Result<(), BoxError> {
    let check =
        move |here: &str, item: u64| if here == place && item == FAILING_ITEM { fail(panic) } else { Ok(()) };
    let (rank, size) = (session.rank(), session.size());
    let everyone: Vec<String> = (0..size).map(|r| r.to_string()).collect();
    let mapping = format!("front@0 | wide@{} | narrow@{}", everyone.join(","), size - 1);
    let source = move || (0..200u64).map(move |x| check("source", x).map(|()| x));
    Pipeline::try_source("numbers", source)
        .map("front", |x| x)
        .try_map("wide", move |x| check("wide", x).map(|()| x))
        .stage("narrow", move || {
            if rank == size - 1 {
                check("factory", FAILING_ITEM)?;
            }
            Ok(Narrow(Box::new(move |x| check("narrow", x))))
        })
        .serial()
        .mapping(MappingChoice::Text(mapping))
        .try_for_each(session, "out", move |x| check("sink", x))?;
    Ok(())
}

/// Workflow in which one task of a chain fails in every attempt.
fn workflow(session: &mut Session, panic: bool) -> Result<(), BoxError> {
    let mut builder = Description::builder("tasks");
    for number in 0..=FAILING_ITEM + 5 {
        builder.task(Task::new(number.to_string(), Action::Closure("next".into())));
        if number > 0 {
            builder.edge((number - 1).to_string(), number.to_string(), 0);
        }
    }
    let next = move |inputs: &mut Inputs<'_>, cx: &Context| {
        let before: Vec<u64> = inputs.take_all()?;
        if cx.number() == FAILING_ITEM { fail(panic).map(|()| 0) } else { Ok(1 + before.iter().sum::<u64>()) }
    };
    Workflow::from_description(builder.build()?).retries(1).closure("next", next).run(session)?;
    Ok(())
}

struct Narrow<'a>(Box<dyn FnMut(u64) -> Result<(), BoxError> + Send + 'a>);

impl armature::pipeline::Stage for Narrow<'_> {
    type In = u64;
    type Out = u64;

    fn process(
        &mut self,
        x: u64,
        _: &mut armature::pipeline::Context,
    ) -> armature::pipeline::StageResult<u64> {
        (self.0)(x).map(|()| Some(x))
    }
}

/// Number whose transfer fails if it is [`FAILING_ITEM`]: in `Serialize` if `WHERE` is 0 or 1, in `Deserialize` if it is 2 or 3; odd values panic.
struct FailingItem<const WHERE: u8>(u64);

impl<const WHERE: u8> Serialize for FailingItem<WHERE> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == FAILING_ITEM && WHERE < 2 {
            fail(WHERE == 1).map_err(S::Error::custom)?;
        }
        self.0.serialize(serializer)
    }
}

impl<'de, const WHERE: u8> Deserialize<'de> for FailingItem<WHERE> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let x = u64::deserialize(deserializer)?;
        if x == FAILING_ITEM && WHERE >= 2 {
            fail(WHERE == 3).map_err(D::Error::custom)?;
        }
        Ok(FailingItem(x))
    }
}

/// Pipeline in which an item fails on its way from rank 0 to the last rank. The items before it are sent one by one.
fn failing_transfer<const WHERE: u8>(session: &mut Session) -> Result<(), BoxError>
where
    FailingItem<WHERE>: Item,
{
    Pipeline::source("numbers", || 0..200u64)
        .map("front", |x| {
            // The stage is slow enough that no batch holds two items.
            std::thread::sleep(Duration::from_millis(1));
            FailingItem::<WHERE>(x)
        })
        .map("back", |FailingItem(x)| x)
        .mapping(MappingChoice::Text(format!("front@0 | back@{}", session.size() - 1)))
        .for_each(session, "out", drop)?;
    Ok(())
}

fn fail_around_pipeline(session: &mut Session, panic: bool, before: bool) -> Result<(), BoxError> {
    let bad = session.rank() == session.size() - 1;
    if before && bad {
        fail(panic)?;
    }
    Pipeline::source("numbers", || 0..50u64)
        .map("a", |x| x)
        .mapping(MappingChoice::Orderly)
        .for_each(session, "out", drop)?;
    if bad { fail(panic) } else { Ok(()) }
}

/// The last rank builds another pipeline than the others, which must be an error.
fn other_pipeline(session: &mut Session) -> Result<(), BoxError> {
    let name = if session.rank() == session.size() - 1 { "c" } else { "b" };
    Pipeline::source("numbers", || 0..50u64)
        .map("a", |x| x)
        .map(name, |x| x)
        .mapping(MappingChoice::Orderly)
        .for_each(session, "out", drop)?;
    Ok(())
}

/// The length of a loop is the number of a farm's results, which only rank 0 has, so that the ranks disagree about it.
fn sized_by_a_result(session: &mut Session) -> Result<(), BoxError> {
    let results = Farm::new("twice", |x: u64| 2 * x).collect(session, 0..20)?.on_root();
    let length = results.map_or(0, |results| results.len() as u64);
    map(session, "sized", 0..length, |x| x)?;
    Ok(())
}

fn farm_on_root_only(session: &mut Session) -> Result<(), BoxError> {
    if session.is_root() {
        Farm::new("alone", |x: u64| 2 * x).collect(session, 0..20)?;
    }
    Ok(())
}

/// `text` is a mapping of stages to ranks that does not fit the pipeline or the number of ranks.
fn with_mapping_file(session: &mut Session, text: &str) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("mapping");
    if session.is_root() {
        std::fs::write(&path, text)?;
    }
    Pipeline::source("numbers", || 0..50u64)
        .map("a", |x| x)
        .map("b", |x| x)
        .mapping(MappingChoice::File(path))
        .for_each(session, "out", drop)?;
    Ok(())
}

/// Pipeline that takes ten minutes, for tests that stop or kill ranks.
fn endless(session: &mut Session) -> Result<(), BoxError> {
    let everyone: Vec<String> = (0..session.size()).map(|r| r.to_string()).collect();
    Pipeline::source("numbers", || 0..600_000u64)
        .map("wide", |x| {
            std::thread::sleep(Duration::from_millis(1));
            x
        })
        .mapping(MappingChoice::Text(format!("wide@{}", everyone.join(","))))
        .for_each(session, "out", |x| {
            if x == 20 {
                println!("endless: under way");
            }
        })?;
    Err("endless came to its end".into())
}

/// The last rank never joins the pipeline; the others wait for it until their time limit.
fn never_joins(session: &mut Session) -> Result<(), BoxError> {
    if session.rank() == session.size() - 1 {
        std::thread::sleep(Duration::from_secs(600));
    }
    fail_around_pipeline(session, false, false)
}
