//! Tests of the farm model and of the policies for chunk sizes, against values that were computed independently.

use std::collections::BTreeSet;

use super::model::{capability_by_bytes, capability_by_start_up, capability_synchronous};
use super::policy::{self, daf_divisor, fac_divisor, kruskal_weiss_size, real_chunk};
use super::*;
use crate::reference::Case;
use crate::simulate::farm::{Dispatch, Farm, Tasks};

const DATA: &str = include_str!("../../tests/data/farm.txt");

impl Case {
    fn or(&self, name: &str, default: f64) -> f64 {
        if self.inputs.contains_key(name) { self.get(name) } else { default }
    }

    fn messages(&self) -> MessageCosts {
        match self.list("mo")[..] {
            [small, large] => {
                MessageCosts { start_up: StartUp { small, border: 3200.0, large }, per_byte: self.get("lam") }
            }
            [mo] => MessageCosts::new(mo, self.get("lam")),
            _ => panic!("one or two start-up times"),
        }
    }

    fn model(&self, protocol: Protocol) -> IterationModel {
        let model = IterationModel {
            messages: self.messages(),
            volume: self.get("V"),
            out: self.or("alpha", 0.5),
            compute: self.or("Tc", 0.0),
            master: self.or("lm", 0.0),
            protocol,
        };
        model.validate().unwrap();
        model
    }

    fn knowledge(&self) -> Knowledge {
        let (each, out) = (self.get("V") / self.get("N"), self.get("alpha"));
        Knowledge {
            messages: self.messages(),
            task_bytes: out * each,
            result_bytes: (1.0 - out) * each,
            ..Knowledge::default()
        }
    }
}

fn sizes(mut next: impl FnMut(usize) -> Option<u64>, workers: usize) -> Vec<f64> {
    (0..).map_while(|i| next(i % workers)).map(|size| size as f64).collect()
}

/// Returns a chunker (chooser of chunk sizes) that knows the mean and the standard deviation of task times from an earlier iteration, in which each
/// worker had two tasks.
fn informed(chunking: Chunking, workers: usize, mean: f64, deviation: f64) -> Chunker {
    let ids: Vec<usize> = (0..workers).collect();
    let mut chunker = Chunker::new(chunking);
    chunker.begin(Supply::Exactly(2 * workers as u64), &ids, &Knowledge::default());
    // The policy AF uses the two tasks of each worker separately; the other policies use all tasks together.
    let tasks = if chunking == Chunking::Policy(Published::Af) { 2.0 } else { 2.0 * workers as f64 };
    let off = deviation * ((tasks - 1.0) / tasks).sqrt();
    for worker in 0..workers {
        let (a, b) = (mean - off, mean + off);
        chunker.done(&ChunkDone { worker, tasks: 2, sum: a + b, squares: a * a + b * b, elapsed: a + b });
    }
    chunker
}

fn lcg_tasks(rows: usize, tasks: usize) -> Vec<Vec<f64>> {
    let mut x: u64 = 12345;
    let mut next = || {
        x = (1_103_515_245 * x + 12345) % (1 << 31);
        0.5 + x as f64 / (1_u64 << 31) as f64
    };
    (0..rows).map(|_| (0..tasks).map(|_| next()).collect()).collect()
}

fn simulated(case: &Case) -> Vec<f64> {
    let chunking = match case.inputs["policy"] {
        "none" => Chunking::Static,
        name => name.parse().unwrap(),
    };
    let workers: Vec<usize> = (0..case.get("n") as usize).collect();
    let knowledge = case.knowledge();
    let farm = Farm::new(knowledge);
    let mut chunker = Chunker::new(chunking);
    let (mut busy, mut time, mut chunks) = (0.0, 0.0, 0);
    let rows = lcg_tasks(case.get("iterations") as usize, case.get("N") as usize);
    for row in &rows {
        let run = Dispatch::new(&mut chunker, &Tasks::new(row), knowledge).iteration(&farm, &workers);
        busy += run.busy;
        time += run.time;
        chunks += run.chunks;
    }
    vec![busy / (workers.len() as f64 * time), time, chunks as f64 / rows.len() as f64]
}

fn chunks(case: &Case, chunking: Chunking) -> Vec<f64> {
    let (n, tasks) = (case.get("n") as usize, case.get("N") as u64);
    let workers: Vec<usize> = (0..n).collect();
    let knowledge = Knowledge::default();
    let mut chunker = if case.inputs.contains_key("mu") {
        informed(chunking, n, case.get("mu"), case.get("sigma"))
    } else {
        Chunker::new(chunking)
    };
    chunker.begin(Supply::Exactly(tasks), &workers, &knowledge);
    sizes(|worker| chunker.next(worker, &knowledge), n)
}

fn fractions(case: &Case, of_rest: bool) -> Vec<f64> {
    let (n, total) = (case.get("n") as usize, case.get("N") as u64);
    let workers: Vec<usize> = (0..n).collect();
    let (statistics, knowledge) = (TaskStatistics::default(), Knowledge::default());
    let mut left = total;
    let mut policy = policy::fraction(case.get("factor"), of_rest);
    let view = |left| policy::View {
        iteration: 1,
        total,
        left,
        workers: &workers,
        statistics: &statistics,
        knowledge: &knowledge,
    };
    policy.begin(&view(left));
    let next = |worker| {
        let size = (left > 0).then(|| policy.next(worker, left, &view(left)))?;
        left -= size;
        Some(size)
    };
    sizes(next, n)
}

#[test]
fn farm_formulas_match_reference_values() {
    use Protocol::{Asynchronous, Synchronous};
    let mut seen = BTreeSet::new();
    for case in Case::all(DATA) {
        let get = |name: &str| case.get(name);
        let n = case.or("n", 1.0) as usize;
        let messages = || (get("mo"), get("lam") * get("V"), get("alpha"), get("Tc"));
        let one = |value: f64| vec![value];
        let found = match case.name {
            "x0" => one(daf_divisor(true, get("sigma") / get("mu"), n)),
            "xj" => one(daf_divisor(false, get("sigma") / get("mu"), n)),
            "tt7" => {
                // If no bytes are sent to the workers, the model uses equation 7 of the paper of Cesar et al. for every number of workers.
                one(IterationModel { out: 0.0, ..case.model(Asynchronous) }.time(n))
            }
            "tt8" => {
                let model = case.model(Synchronous);
                one(model.time(n) - (n as f64 - 1.0) * get("mo"))
            }
            "tt9" => one(case.model(Synchronous).time(n)),
            "tt_async" => one(case.model(Asynchronous).time(n)),
            "regime" => one(if case.model(Asynchronous).is_start_up_bound(n) { 7.0 } else { 8.0 }),
            "pi" => one(performance_index(n, get("Tt"), get("Tc"))),
            "efficiency" => one(get("Tc") / (n as f64 * get("Tt"))),
            "argmin_tt7" | "argmin_pi7" => {
                let model = case.model(Asynchronous);
                let range = get("lo") as usize..=get("hi") as usize;
                if case.name == "argmin_tt7" {
                    let best = model.fastest(range);
                    vec![best as f64, model.time(best)]
                } else {
                    let best = model.best(range);
                    vec![best as f64, model.performance_index(best)]
                }
            }
            "mcmc10_real" => {
                let (mo, carry, out, compute) = messages();
                one(capability_by_start_up(mo, carry, out, compute))
            }
            "mcmc11_real" => {
                let (mo, carry, out, compute) = messages();
                one(capability_by_bytes(mo, carry, out, compute))
            }
            "mcmc12_real" => {
                let (mo, carry, out, compute) = messages();
                one(capability_synchronous(mo, carry, out, compute))
            }
            "mcmc_async" => {
                let model = case.model(Asynchronous);
                let capability = model.capability(1);
                let bytes = !model.is_start_up_bound(capability);
                vec![capability as f64, if bytes { 11.0 } else { 10.0 }]
            }
            "table_expected" => {
                let protocol = if case.inputs["protocol"] == "async" { Asynchronous } else { Synchronous };
                let model = case.model(protocol);
                let range = 2..=120;
                let best =
                    [model.fastest(range.clone()), model.most_workers(range.clone()), model.best(range)];
                best.map(|n| n as f64).to_vec()
            }
            "kmin_mcmc" => {
                one(case.knowledge().least_chunk(n, get("mu")).map_or(f64::INFINITY, |least| least as f64))
            }
            "af_chunk_real" => {
                let (means, variances) = (case.list("mu"), case.list("var"));
                let pairs = means.iter().copied().zip(variances);
                one(real_chunk(pairs, get("R") as u64, means[get("i") as usize]))
            }
            "fsc_kruskal_weiss_real" => {
                one(kruskal_weiss_size(get("N") as u64, get("P") as usize, get("h"), get("sigma")))
            }
            "run" => simulated(&case),
            "chunks.none" => chunks(&case, Chunking::Static),
            "chunks.FSC" => fractions(&case, false),
            "chunks.DPF" => fractions(&case, true),
            name => match name.strip_prefix("chunks.") {
                Some(policy) => chunks(&case, policy.parse().unwrap()),
                None => panic!("nothing checks {name}"),
            },
        };
        case.holds(&found);
        seen.insert(case.name);
    }
    assert_eq!(seen.len(), 29, "{seen:?}");
}

#[test]
fn figure_6_is_reproduced() {
    let model = IterationModel {
        messages: MessageCosts::new(1.0, 0.001),
        volume: 4096.0,
        out: 0.5,
        compute: 1600.0,
        master: 0.0,
        protocol: Protocol::Asynchronous,
    };
    let printed = |value: f64, expected: f64, digits: i32| {
        let unit = 10_f64.powi(-digits);
        assert!((value - expected).abs() <= 0.5 * unit, "{value} is not {expected}");
    };
    printed(model.time(23), 93.7433, 4);
    printed(model.time(40), 81.1024, 4);
    let gain = |a: usize, b: usize| 100.0 * (1.0 - model.time(b) / model.time(a));
    printed(gain(15, 20), 17.6793, 4);
    printed(gain(30, 40), 3.9866, 4);
    printed(gain(23, 40), 13.4846, 4);
    printed(100.0 * (40.0 / 23.0 - 1.0), 73.91, 2);
}

/// Compares the predicted numbers of workers with Tables 1 to 4 of Cesar et al. (2006), for start-up times that were fitted to the tables.
#[test]
fn tables_1_to_4_are_reproduced() {
    use Protocol::{Asynchronous, Synchronous};
    let switching = StartUp { small: 1.32, border: 3200.0, large: 2.145 };
    let kib = |k: f64| 1024.0 * k;
    // The last column has the expected numbers of workers: that with the shortest time, the maximum that the master can serve, and that with the
    // smallest performance index. The 22 in the first row is not in the tables of the paper of Cesar et al.
    let rows = [
        (kib(100.0), 1000.0, Asynchronous, switching, 1.93e-4, 0.34, [32, 22, 12]),
        (kib(2048.0), 1000.0, Asynchronous, switching, 1.93e-4, 0.34, [64, 10, 9]),
        (kib(100.0), 5000.0, Asynchronous, switching, 1.93e-4, 0.34, [62, 62, 35]),
        (kib(512.0), 5000.0, Asynchronous, switching, 1.93e-4, 0.34, [49, 49, 28]),
        (kib(100.0), 15000.0, Asynchronous, switching, 1.93e-4, 0.34, [107, 107, 61]),
        (kib(512.0), 15000.0, Asynchronous, switching, 1.93e-4, 0.34, [84, 84, 48]),
        (kib(100.0), 5000.0, Synchronous, StartUp::constant(1.66), 1.38e-4, 0.35, [55, 54, 31]),
        (kib(2048.0), 5000.0, Synchronous, StartUp::constant(2.41), 1.38e-4, 0.35, [46, 30, 21]),
    ];
    for (volume, compute, protocol, start_up, per_byte, out, expected) in rows {
        let messages = MessageCosts { start_up, per_byte };
        let model = IterationModel { messages, volume, out, compute, master: 0.0, protocol };
        let range = 2..=120;
        let found = [model.fastest(range.clone()), model.most_workers(range.clone()), model.best(range)];
        assert_eq!(found, expected, "{model:?}");
    }
}

#[test]
fn divisor_is_smaller_for_independent_tasks() {
    for left in [100, 10_000] {
        assert!(fac_divisor(false, 0.5, 20, left) < daf_divisor(false, 0.5, 20));
        assert_eq!(fac_divisor(true, 0.0, 20, left), 1.0);
    }
}
