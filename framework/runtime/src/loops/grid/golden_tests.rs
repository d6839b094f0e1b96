//! Tests that the bytes of grid loop messages do not change.

use armature_planner::loops::BlockMove;

use super::directive::{Directive, Movement};
use super::messages::{Coordination, HaloRow, Rows, ToCoordinator, ToNeighbour};
use crate::comm::message::Encode;
use crate::error::Result;
use crate::golden::{Messages, RUN};
use crate::loops::doall::golden_tests::{report, sample, saved};

#[test]
fn grid_message_encoding_is_unchanged() -> Result<()> {
    let mut messages = Messages::default();
    let row = [1.0_f64, 2.0, 4.0, 8.0];
    let plain = Directive { sweep: 3, report_after: 300, movement: None, save_before: None };
    let moves = vec![vec![BlockMove { from: 0, to: 1, units: 2..300 }], vec![]];
    let movement = Some(Movement { before: 5, rounds: moves });
    let directive = Directive { movement, save_before: Some(7), ..plain.clone() };
    for (what, message) in [
        ("columns of a row", ToNeighbour::HaloRow(HaloRow::of(300, 1..3, &row))),
        ("a row for the other end of the grid", ToNeighbour::WrapRow(HaloRow::of(300, 0..4, &row))),
        ("rows are to come", ToNeighbour::RowsComing),
        ("rows are waited for", ToNeighbour::Wanted),
        ("rows that move", ToNeighbour::Rows(Rows::new(300, row.to_vec()))),
        ("orders", ToNeighbour::Directive(plain)),
        ("orders to move and to write rows", ToNeighbour::Directive(directive)),
    ] {
        messages.message(what, &message.encode(RUN)?);
    }
    for (what, message) in [
        ("a rank reports", ToCoordinator::Sample(sample())),
        ("a rank has written its rows", ToCoordinator::Saved(300, Ok(vec![saved()]))),
        ("a rank reports all that it did", ToCoordinator::Total(report())),
    ] {
        messages.message(what, &Coordination::Report(message).encode(RUN)?);
    }
    messages.message("the loop is over", &Coordination::Finish.encode(RUN)?);
    messages.check("grids");
    Ok(())
}
