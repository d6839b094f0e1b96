//! Tests of the equations of farms, loops and queues against values that were computed independently.

use armature_planner::farm::{IterationModel, MessageCosts, Protocol};

use crate::reference::Case;
use crate::*;

impl Case {
    fn whole(&self, name: &str) -> u64 {
        self.inputs[name].parse().unwrap()
    }

    fn barriers(&self) -> Barriers {
        Barriers {
            ranks: self.whole("P") as usize,
            units: self.whole("n"),
            iterations: if self.inputs.contains_key("m") { self.whole("m") } else { 1 },
            unit: self.get("t_iteration"),
            barrier: self.get("t_barrier"),
        }
    }

    fn oscillation(&self) -> Oscillation {
        let ranks = self.whole("P") as usize;
        Oscillation { ranks, share: 0.5, off: self.get("ta"), on: self.get("tb") }
    }

    fn or(&self, name: &str, default: f64) -> f64 {
        if self.inputs.contains_key(name) { self.get(name) } else { default }
    }

    fn messages(&self) -> MessageCosts {
        MessageCosts::new(self.get("mo"), self.get("lam"))
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
}

#[test]
fn loop_equations_match_reference_values() {
    let cases = Case::all(include_str!("../tests/data/loops.txt"));
    for case in &cases {
        let found = match case.name {
            "barrier_eff" => case.barriers().efficiency(),
            "barrier_total" => case.barriers().time(),
            "blocksize" => block_of_grain(case.get("t_grain"), case.get("t_iteration")) as f64,
            "model8" => {
                let reaction = Reaction {
                    to_off: case.get("tc"),
                    move_back: case.get("td"),
                    to_on: case.get("tf"),
                    move_away: case.get("tg"),
                };
                case.get("e0") * case.oscillation().balanced(&reaction)
            }
            "model8_nolb" => case.oscillation().unbalanced(),
            other => panic!("nothing is known of {other}"),
        };
        case.holds(&[found]);
    }
    assert_eq!(cases.len(), 5);
}

#[test]
fn farm_equations_match_reference_values() {
    use Protocol::{Asynchronous, Synchronous};
    let cases = Case::all(include_str!("../tests/data/farm.txt"));
    for case in &cases {
        let get = |name: &str| case.get(name);
        let unbalanced = |protocol, to: &[f64]| {
            let (from, work) = (case.list("vw"), case.list("work"));
            unbalanced_time(&case.messages(), protocol, to, &from, &work, get("lm")).unwrap()
        };
        let found = match case.name {
            "nopt7" => real_optima(&case.model(Asynchronous), 7).0,
            "npi7" => real_optima(&case.model(Asynchronous), 7).1,
            "npi8" => real_optima(&case.model(Asynchronous), 8).1,
            "nopt9" => real_optima(&case.model(Synchronous), 9).0,
            "npi9" => real_optima(&case.model(Synchronous), 9).1,
            // If the start-up time of a message is shorter than the transfer of its bytes, equation 5 of Cesar et al.
            // gives a larger time than equation 4. Equation 4 results if all workers except the last one receive no
            // bytes.
            "tt4" => unbalanced(Asynchronous, &[0.0, 0.0, case.list("vm")[2]]),
            "tt5" => unbalanced(Asynchronous, &case.list("vm")),
            "tt6" => unbalanced(Synchronous, &case.list("vm")),
            "quality_bound" => idle_bound(get("x") as usize, get("mu"), get("sigma")),
            "tt_bound" => time_bound(get("x") as usize, get("N") as u64, get("mu"), get("sigma")),
            "quality_idle" => idle_index(&case.list("busy"), get("Tt")),
            other => panic!("nothing is known of {other}"),
        };
        case.holds(&[found]);
    }
    assert_eq!(cases.len(), 16);
}

#[test]
fn imbalance_below_the_threshold_costs_little() {
    for (ranks, percent) in [(4, 93.3), (6, 95.7), (8, 96.8)] {
        let load = Oscillation { ranks, share: 0.5, off: 30.0, on: 30.0 };
        assert!((100.0 * load.unchanged() - percent).abs() < 0.05);
    }
}
