//! The benchmark experiments, one module for each.

mod build_time;
mod farm_deaths;
mod farm_efficiency;
mod farm_explore;
mod farm_overhead;
mod farm_policies;
mod farm_second_copies;
mod farm_simgrid;
mod farm_workers;
mod ferret_costs;
mod ferret_runs;
mod ferret_scaling;
mod ferret_simgrid;
mod idle_yield;
mod live_burner;
mod live_hosts;
mod live_settling;
mod loops;
mod matmul_stream;
mod monitor_cost;
mod peers;
mod pipeline_flat_map;
mod pipeline_snapshots;
mod pipeline_throughput;
mod planner_instances;
mod planner_time;
mod rabin_karp_peers;
mod rate_applications;
mod rate_estimator;
mod rate_phases;
mod remap_cost;
mod scale;
pub(crate) mod session_values;
pub(crate) mod start_up;
mod stream_runs;
mod task_bench;
mod workflows;

use crate::Experiment;

/// All benchmark experiments, in the order in which they run.
pub const ALL: &[Experiment] = &[
    pipeline_throughput::EXPERIMENT,
    pipeline_flat_map::EXPERIMENT,
    pipeline_snapshots::EXPERIMENT,
    ferret_scaling::EXPERIMENT,
    ferret_simgrid::EXPERIMENT,
    monitor_cost::EXPERIMENT,
    live_settling::EXPERIMENT,
    idle_yield::EXPERIMENT,
    live_burner::EXPERIMENT,
    live_burner::ON_FOUR,
    live_hosts::EXPERIMENT,
    remap_cost::EXPERIMENT,
    farm_overhead::EXPERIMENT,
    farm_efficiency::EXPERIMENT,
    farm_explore::EXPERIMENT,
    farm_deaths::EXPERIMENT,
    farm_second_copies::EXPERIMENT,
    farm_simgrid::EXPERIMENT,
    farm_workers::EXPERIMENT,
    scale::EXPERIMENT,
    task_bench::EXPERIMENT,
    session_values::EXPERIMENT,
    start_up::EXPERIMENT,
    loops::overhead::EXPERIMENT,
    loops::rows::EXPERIMENT,
    loops::burner::EXPERIMENT,
    loops::oscillating::EXPERIMENT,
    loops::simgrid::EXPERIMENT,
    loops::hooks::EXPERIMENT,
    planner_time::EXPERIMENT,
    workflows::quality::EXPERIMENT,
    workflows::time::EXPERIMENT,
    workflows::replan::EXPERIMENT,
    workflows::simgrid::EXPERIMENT,
    workflows::rate::EXPERIMENT,
    workflows::memory::EXPERIMENT,
    workflows::deaths::EXPERIMENT,
    workflows::peers::EXPERIMENT,
    rate_estimator::EXPERIMENT,
    rate_applications::EXPERIMENT,
    rate_phases::EXPERIMENT,
    rabin_karp_peers::EXPERIMENT,
    matmul_stream::EXPERIMENT,
    farm_policies::EXPERIMENT,
    build_time::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_fit_a_file_name() {
        let names: BTreeSet<&str> = super::ALL.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), super::ALL.len());
        for name in names {
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
                "{name}"
            );
        }
    }
}
