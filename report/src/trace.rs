//! Export of a run as a trace for external viewers, in the formats of Perfetto and Chrome.
//!
//! Each rank is a process in the viewer. Counters show how the rank divides its time among kinds of
//! activity. Slices (bars) show the longest call of user code in each interval between activity
//! records or, for a workflow, the tasks. Instants (marks) show the events of the rank, and flows
//! (arrows) the migrations of stages.

use std::collections::BTreeMap;

use armature::observe::{Event, Log};
use serde_json::json;

use crate::account::{KINDS, Shares};
use crate::run::{Run, call_text};

/// Element of a trace. Times are in nanoseconds since the start of the first run.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Slice {
        rank: usize,
        /// Number of the lane (a row of the rank in a viewer) in which the slice (bar) is drawn. Slices of one lane do
        /// not overlap.
        lane: usize,
        begin: u64,
        end: u64,
        name: String,
    },
    Point {
        rank: usize,
        at: u64,
        name: String,
        flow: Option<Flow>,
    },
    /// Share of the rank's time in per cent that was spent on the kind of activity with the index `of` in [`KINDS`].
    Counter {
        rank: usize,
        at: u64,
        of: usize,
        value: f64,
    },
}

/// Point at which a flow (an arrow between two ranks in a viewer) begins or ends, with the number of the flow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flow {
    Begins(u64),
    Ends(u64),
}

/// Elements of a trace in order of time, independent of the output format.
struct Trace {
    /// Name of each rank's host.
    hosts: BTreeMap<usize, String>,
    /// Number of lanes (rows in the viewer) of each rank. Concurrent slices (bars) of a rank are in different lanes.
    lanes: BTreeMap<usize, usize>,
    /// Elements of the trace in order of time.
    items: Vec<Item>,
}

impl Item {
    fn at(&self) -> u64 {
        match self {
            Item::Slice { begin: at, .. } | Item::Point { at, .. } | Item::Counter { at, .. } => *at,
        }
    }
}

/// Converts seconds into nanoseconds. Negative times become zero.
fn nanos(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9).round() as u64
}

impl Trace {
    fn of(log: &Log) -> Self {
        let runs = Run::all(&log.records);
        let first = runs.first().and_then(|run| run.began);
        let mut trace = Trace { hosts: BTreeMap::new(), lanes: BTreeMap::new(), items: Vec::new() };
        let mut flows = BTreeMap::new();
        let mut end = 0.0f64;
        for (records, run) in log.records.chunk_by(|a, b| a.run == b.run).zip(&runs) {
            // If the runs of a job have no common clock, they are placed one after another.
            let begin = match (first, run.began) {
                (Some(first), Some(began)) => began - first,
                _ => end,
            };
            trace.add_ranks(run, begin);
            trace.add_tasks(run, begin);
            for record in records.iter().filter(|record| !record.event.is_of_activity()) {
                let flow = match &record.event {
                    Event::HandOver { stage, next_batch, .. } | Event::TakeOver { stage, next_batch, .. } => {
                        let count = flows.len() as u64 + 1;
                        let number = *flows.entry((record.run, stage.clone(), *next_batch)).or_insert(count);
                        let begins = matches!(record.event, Event::HandOver { .. });
                        Some(if begins { Flow::Begins(number) } else { Flow::Ends(number) })
                    }
                    _ => None,
                };
                let (rank, at) = (record.rank, nanos(begin + record.at));
                trace.hosts.entry(rank).or_default();
                trace.items.push(Item::Point { rank, at, name: record.event.to_string(), flow });
            }
            end = begin + run.seconds;
        }
        trace.items.sort_by_key(Item::at);
        trace
    }

    fn add_ranks(&mut self, run: &Run, begin: f64) {
        for (rank, its) in run.ranks.iter().enumerate() {
            self.hosts.insert(rank, its.host.clone());
            // If two of the longest calls of a rank overlap, the later one is drawn from the end of the earlier one on.
            let mut free = 0;
            for part in &its.parts {
                let activity = &part.activity;
                if let Some(longest) = activity.longest.as_ref().filter(|_| run.tasks.is_empty()) {
                    let to = nanos(begin + part.to);
                    let from = nanos(begin + part.to - longest.seconds).max(free);
                    if from < to {
                        let name = call_text(longest, &run.kinds);
                        self.items.push(Item::Slice { rank, lane: 0, begin: from, end: to, name });
                        free = to;
                    }
                }
                let whole = activity.seconds.max(f64::MIN_POSITIVE);
                let mut shares = Shares::default();
                shares.add(activity, 1.0);
                let at = nanos(begin + part.from());
                for (of, value) in shares.named().into_iter().enumerate() {
                    self.items.push(Item::Counter { rank, at, of, value: 100.0 * value / whole });
                }
            }
        }
    }
}

impl Trace {
    /// Adds the tasks of a workflow. Concurrent tasks of a rank are placed in separate lanes.
    fn add_tasks(&mut self, run: &Run, begin: f64) {
        let mut free: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for task in &run.tasks {
            let Some(end) = task.end else { continue };
            let (from, to) = (nanos(begin + task.begin), nanos(begin + end));
            let lanes = free.entry(task.rank).or_default();
            let lane = lanes.iter().position(|&free| free <= from).unwrap_or(lanes.len());
            if lane == lanes.len() {
                lanes.push(0);
            }
            lanes[lane] = to;
            if from < to {
                self.items.push(Item::Slice {
                    rank: task.rank,
                    lane,
                    begin: from,
                    end: to,
                    name: task.task.clone(),
                });
            }
            let most = self.lanes.entry(task.rank).or_default();
            *most = (*most).max(lanes.len());
        }
    }

    fn lanes_of(&self, rank: usize) -> usize {
        self.lanes.get(&rank).copied().unwrap_or(0).max(1)
    }
}

/// Returns the events as a trace in Perfetto's protobuf format.
pub fn perfetto(log: &Log) -> Vec<u8> {
    let trace = Trace::of(log);
    let mut packets = Vec::new();
    for (&rank, host) in &trace.hosts {
        let name = if host.is_empty() { format!("rank {rank}") } else { format!("rank {rank} on {host}") };
        // The numbers of processes begin with 1, because viewers treat process 0 as the idle process of the system.
        let process = Proto::default().number(1, rank as u64 + 1).text(6, &name);
        packet(
            &mut packets,
            Proto::default().message(60, Proto::default().number(1, track(rank, 0)).message(3, process)),
        );
        for lane in 0..trace.lanes_of(rank) {
            // The number of the lane is stored above bit 20 of a thread number, because viewers read only 32 bits of the number.
            let number = rank as u64 + 1 + ((lane as u64) << 20);
            let thread = Proto::default().number(1, rank as u64 + 1).number(2, number).text(5, "user code");
            let descriptor = Proto::default()
                .number(1, lane_track(rank, lane))
                .number(5, track(rank, 0))
                .message(4, thread);
            packet(&mut packets, Proto::default().message(60, descriptor));
        }
        for (of, name) in KINDS.iter().enumerate() {
            let counter = Proto::default().text(6, "%");
            let descriptor =
                Proto::default().number(1, track(rank, 2 + of)).number(5, track(rank, 0)).text(2, name);
            packet(&mut packets, Proto::default().message(60, descriptor.message(8, counter)));
        }
    }
    for item in &trace.items {
        match item {
            Item::Slice { rank, lane, begin, end, name } => {
                let track = lane_track(*rank, *lane);
                let event =
                    Proto::default().number(9, BEGIN).number(11, track).text(22, "call").text(23, name);
                packet(&mut packets, at(*begin, event));
                packet(&mut packets, at(*end, Proto::default().number(9, END).number(11, track)));
            }
            Item::Point { rank, at: when, name, flow } => {
                let event = Proto::default()
                    .number(9, INSTANT)
                    .number(11, track(*rank, 0))
                    .text(22, "event")
                    .text(23, name);
                let event = match flow {
                    Some(Flow::Begins(number)) => event.fixed64(47, *number),
                    Some(Flow::Ends(number)) => event.fixed64(48, *number),
                    None => event,
                };
                packet(&mut packets, at(*when, event));
            }
            Item::Counter { rank, at: when, of, value } => {
                let event = Proto::default().number(9, COUNTER).number(11, track(*rank, 2 + of));
                packet(&mut packets, at(*when, event.fixed64(44, value.to_bits())));
            }
        }
    }
    packets
}

/// Values of the field `type` of Perfetto's message `TrackEvent`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Returns the number of a track (row in the viewer) of a rank: 0 for the rank itself, 1 for its calls, from 2 on for its counters.
fn track(rank: usize, which: usize) -> u64 {
    1 + rank as u64 * 16 + which as u64
}

/// Returns the number of the track (row in the viewer) for a lane, which contains slices (bars) that do not overlap.
fn lane_track(rank: usize, lane: usize) -> u64 {
    track(rank, 1) + ((lane as u64) << 40)
}

fn at(nanos: u64, event: Proto) -> Proto {
    Proto::default().number(8, nanos).message(11, event)
}

/// Adds a packet (field 1 of a trace), with the number of the sequence to which the packet belongs (field 10 of a packet).
fn packet(trace: &mut Vec<u8>, content: Proto) {
    trace.extend(Proto::default().message(1, content.number(10, 1)).0);
}

/// Protobuf message that is being encoded.
#[derive(Default)]
struct Proto(Vec<u8>);

impl Proto {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn fixed64(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: Proto) -> Self {
        self.bytes(field, &message.0)
    }
}

/// Returns the events as a trace in Chrome's format, a list of JSON objects.
pub fn chrome(log: &Log) -> String {
    let trace = Trace::of(log);
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let mut list = Vec::new();
    for (rank, host) in &trace.hosts {
        let name = if host.is_empty() { format!("rank {rank}") } else { format!("rank {rank} on {host}") };
        list.push(json!({"ph": "M", "name": "process_name", "pid": rank + 1, "args": {"name": name}}));
    }
    for item in &trace.items {
        list.push(match item {
            Item::Slice { rank, lane, begin, end, name } => {
                json!({"ph": "X", "cat": "call", "name": name, "pid": rank + 1,
                "tid": lane + 1, "ts": micros(*begin), "dur": micros(end - begin)})
            }
            Item::Point { rank, at, name, .. } => json!({"ph": "i", "s": "p", "cat": "event", "name": name,
                "pid": rank + 1, "tid": 0, "ts": micros(*at)}),
            Item::Counter { rank, at, of, value } => {
                json!({"ph": "C", "name": KINDS[*of], "pid": rank + 1,
                "ts": micros(*at), "args": {"%": value}})
            }
        });
        if let Item::Point { rank, at, name: _, flow: Some(flow) } = item {
            let (ph, id) = match flow {
                Flow::Begins(id) => ("s", id),
                Flow::Ends(id) => ("f", id),
            };
            list.push(
                json!({"ph": ph, "bp": "e", "cat": "move", "name": "stage moves", "id": id, "pid": rank + 1,
                "tid": 0, "ts": micros(*at)}),
            );
        }
    }
    let lines: Vec<String> = list.iter().map(ToString::to_string).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature::observe::Record;
    use armature::observe::activity::{Activity, Longest};

    fn log() -> Log {
        let record = |at, rank, event| Record { at, rank, run: 0, event };
        let longest = Some(Longest { of: 0, first: Some(3), count: 1, seconds: 0.5 });
        let part = Activity { seconds: 1.0, work_s: 0.5, idle_s: 0.5, longest, ..Activity::default() };
        let hand_over = Event::HandOver { stage: "<s>".into(), to: 1, next_batch: 9, bytes: 1 };
        let take = Event::TakeOver { stage: "<s>".into(), from: 0, next_batch: 9 };
        let records = vec![
            record(0.5, 0, hand_over),
            record(0.75, 1, take),
            record(1.0, 0, Event::Activity(part.clone())),
            record(
                1.25,
                0,
                Event::Activity(Activity {
                    longest: Some(Longest { of: 0, first: None, count: 1, seconds: 0.5 }),
                    ..part
                }),
            ),
        ];
        Log::new(records)
    }

    #[test]
    fn protocol_buffer_encoding_matches_the_specification() {
        // The first two values are the examples in the documentation of the protocol buffer encoding.
        assert_eq!(Proto::default().number(1, 150).0, [0x08, 0x96, 0x01]);
        assert_eq!(
            Proto::default().text(2, "testing").0,
            [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]
        );
        assert_eq!(Proto::default().fixed64(47, 1).0, [0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn calls_of_a_rank_do_not_overlap_and_times_rise() {
        let trace = Trace::of(&log());
        let slices: Vec<(u64, u64)> = trace
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Slice { begin, end, .. } => Some((*begin, *end)),
                _ => None,
            })
            .collect();
        assert_eq!(slices, [(500_000_000, 1_000_000_000), (1_000_000_000, 1_250_000_000)]);
        assert!(trace.items.windows(2).all(|pair| pair[0].at() <= pair[1].at()));
    }

    /// Tasks of a workflow, including commands, are slices. Concurrent tasks are in different lanes.
    #[test]
    fn concurrent_tasks_are_trace_slices_in_separate_lanes() {
        let began = |task: &str| {
            let (task, attempt, waits, reads) = (task.to_string(), 0, Vec::new(), Vec::new());
            Event::TaskBegan(armature::observe::TaskBegan { task, attempt, waits, reads })
        };
        let ended = |task: &str| {
            let (task, seconds, bytes, peak_memory, failure) = (task.to_string(), 1.0, 0, None, None);
            Event::TaskEnded(armature::observe::TaskEnded { task, seconds, bytes, peak_memory, failure })
        };
        let events = [
            (0.0, began("a")),
            (0.5, began("b")),
            (1.0, ended("a")),
            (1.0, began("c")),
            (1.5, ended("b")),
            (2.0, ended("c")),
        ];
        let records = events.map(|(at, event)| Record { at, rank: 0, run: 0, event }).to_vec();
        let list: Vec<serde_json::Value> = serde_json::from_str(&chrome(&Log::new(records))).unwrap();
        let slices = list.iter().filter(|item| item["ph"] == "X");
        let lanes: Vec<_> =
            slices.map(|item| (item["name"].as_str().unwrap(), item["tid"].as_u64().unwrap())).collect();
        assert_eq!(lanes, [("a", 1), ("b", 2), ("c", 1)]);
    }

    #[test]
    fn chrome_trace_is_json_with_both_ends_of_each_flow() {
        let list: Vec<serde_json::Value> = serde_json::from_str(&chrome(&log())).unwrap();
        let count = |ph: &str| list.iter().filter(|item| item["ph"] == ph).count();
        assert_eq!(["M", "X", "i", "C", "s", "f"].map(count), [2, 2, 2, 14, 1, 1]);
        let id = |ph: &str| list.iter().find(|item| item["ph"] == ph).unwrap()["id"].clone();
        assert_eq!(id("s"), id("f"));
    }
}
