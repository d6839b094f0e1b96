//! Tests of pipelines that consist of a source and a sink only.

use std::time::Duration;

use armature::pipeline::Pipeline;
use armature::{Balance, Config};

/// A pipeline without stages has no mapping of stages to ranks. The coordinator, which improves mappings, must therefore do nothing.
#[test]
fn pipeline_without_stages_runs_under_live_balancing() {
    let slowly = || (0..300u64).inspect(|_| std::thread::sleep(Duration::from_millis(8)));
    for balance in [Balance::Live, Balance::Once] {
        let config = Config::new().ranks(2).balance(balance);
        let items = armature::run(&config, |session| {
            Ok(Pipeline::source("numbers", slowly).collect(session)?.on_root())
        });
        assert_eq!(items.unwrap(), Some((0..300).collect()));
    }
}
