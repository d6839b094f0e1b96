//! Tables of the report page.

use armature::observe::number_format::percent;

use crate::account::{KINDS, shares};
use crate::efficiency::Efficiencies;
use crate::run::Run;
use crate::units::{bytes_text, short_count, time};

/// Maximum number of ranks for which the messages between ranks are shown as a matrix.
const MAX_MATRIX_RANKS: usize = 32;
/// Maximum number of listed pairs of ranks if the ranks are too many for a matrix.
const MAX_LISTED_PAIRS: usize = 200;

/// The whole time of a rank (100 %) in the unit in which shares of the time are shown: tenths of a
/// per cent.
const THOUSANDTHS: u32 = 1000;

/// Row of the table of efficiencies, about the run or a phase of it.
pub(crate) struct EfficiencyRow {
    pub(crate) name: String,
    pub(crate) cells: Vec<String>,
}

/// Row of the table of ranks: the shares of a rank's time, its messages and its memory.
pub(crate) struct RankRow {
    pub(crate) rank: usize,
    pub(crate) host: String,
    pub(crate) cells: Vec<String>,
}

/// Messages between ranks: a matrix for few ranks, otherwise a list of the pairs with the most bytes.
pub(crate) struct Traffic {
    pub(crate) heads: Vec<usize>,
    pub(crate) rows: Vec<(usize, Vec<String>)>,
    pub(crate) list: Vec<(usize, usize, String, String)>,
    pub(crate) shown: String,
}

pub(crate) fn efficiency_row(e: &Efficiencies) -> EfficiencyRow {
    let known = |part: Option<f64>| part.map_or("–".to_string(), |part| percent(part, 1));
    let cells = vec![
        e.ranks.to_string(),
        time(e.elapsed_time),
        percent(e.parallel_efficiency, 1),
        percent(e.load_balance, 1),
        percent(e.communication_efficiency, 1),
        known(e.capacity_balance),
        format!("{:.1} %", e.imbalance_percent),
        format!("{:.3}", e.coefficient_of_variation),
    ];
    EfficiencyRow { name: e.name.clone(), cells }
}

pub(crate) fn rank_row(run: &Run, rank: usize) -> RankRow {
    let shares = shares(run, rank, (0.0, run.seconds));
    let its = &run.ranks[rank];
    let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
    let memory = match (its.memory_peak, its.memory_limit) {
        (Some(peak), Some(limit)) => format!("{} of {}", mib(peak), mib(limit)),
        (Some(peak), None) => mib(peak),
        _ => "–".to_string(),
    };
    let (messages, bytes) = its.sent.values().fold((0, 0), |sum, sent| (sum.0 + sent.0, sum.1 + sent.1));
    let mut cells = match shares.rounded(THOUSANDTHS) {
        Some(shares) => shares.map(|share| percent(f64::from(share) / f64::from(THOUSANDTHS), 1)).to_vec(),
        None => vec!["–".to_string(); KINDS.len()],
    };
    cells.extend([short_count(messages), bytes_text(bytes), memory]);
    RankRow { rank, host: its.host.clone(), cells }
}

/// Row of the table of changes whose effect was measured.
pub(crate) struct ChangeRow {
    pub(crate) cells: Vec<String>,
}

/// Returns the changes of the distribution of work whose effect was measured, the first ones if there are more than [`MAX_LISTED_PAIRS`].
pub(crate) fn changes(run: &Run) -> Vec<ChangeRow> {
    let finite = run.outcomes.iter().filter(|o| o.after_s.is_finite() && o.before_s.is_finite());
    let row = |o: &crate::run::ChangeResult| {
        let faster =
            if o.after_s > 0.0 { format!("{:.2}", o.before_s / o.after_s) } else { "–".to_string() };
        ChangeRow { cells: vec![time(o.at), time(o.before_s), time(o.predicted_s), time(o.after_s), faster] }
    };
    finite.take(MAX_LISTED_PAIRS).map(row).collect()
}

/// Returns the table of the messages between the ranks of a run.
pub(crate) fn traffic(run: &Run) -> Traffic {
    let bytes = |from: usize, to: usize| run.ranks[from].sent.get(&to).copied();
    if run.ranks.len() <= MAX_MATRIX_RANKS {
        let heads: Vec<usize> = (0..run.ranks.len()).collect();
        let cell = |from, to| bytes(from, to).map_or(String::new(), |sent| bytes_text(sent.1));
        let rows =
            heads.iter().map(|&from| (from, heads.iter().map(|&to| cell(from, to)).collect())).collect();
        return Traffic { heads, rows, list: Vec::new(), shown: String::new() };
    }
    let pairs = run.ranks.iter().enumerate();
    let mut list: Vec<(usize, usize, u64, u64)> = pairs
        .flat_map(|(from, rank)| rank.sent.iter().map(move |(to, sent)| (from, *to, sent.0, sent.1)))
        .collect();
    list.sort_by_key(|pair| std::cmp::Reverse(pair.3));
    let count = list.len();
    list.truncate(MAX_LISTED_PAIRS);
    let list = list
        .into_iter()
        .map(|(from, to, messages, bytes)| (from, to, short_count(messages), bytes_text(bytes)));
    let shown = shown_of(count, MAX_LISTED_PAIRS, "pairs of ranks, those with the most bytes");
    Traffic { heads: Vec::new(), rows: Vec::new(), list: list.collect(), shown }
}

/// Returns the texts of the events as JSON of at most `room` bytes, and a sentence on the number of omitted events.
pub(crate) fn lines(run: &Run, room: usize) -> (String, String) {
    let (mut json, mut listed) = (String::from("["), 0);
    for line in &run.lines {
        let row = serde_json::json!([(line.at * 1e3).round() / 1e3, line.rank, line.text]).to_string();
        if json.len() + row.len() > room {
            break;
        }
        if listed > 0 {
            json.push(',');
        }
        json += &row;
        listed += 1;
    }
    json.push(']');
    let shown = if listed < run.lines.len() {
        format!("Showing the first {listed} of {} events; armature events prints all.", run.lines.len())
    } else {
        String::new()
    };
    (json, shown)
}

/// Returns a sentence that states how many of the `count` entries of a list are shown, or an empty
/// text if all are.
pub(crate) fn shown_of(count: usize, most: usize, what: &str) -> String {
    if count > most { format!("Showing {most} of {count} {what}.") } else { String::new() }
}
