//! The bytes of a grid loop's messages.

use armature_planner::loops::BlockMove;

use super::driver::Told;
use super::mail::{Border, Out, send_coming, send_rows, send_told, send_wanted};
use super::orders::{Movement, Orders};
use crate::comm::Part;
use crate::comm::message::{Tag, frame_header};
use crate::error::Result;
use crate::golden::{Messages, RUN};
use crate::loops::doall::golden_tests::{note, report, saved};

/// Keeps what is sent under the name that comes next.
#[derive(Default)]
struct Kept {
    what: &'static str,
    messages: Messages,
}

impl Kept {
    fn called(&mut self, what: &'static str) -> &mut Self {
        self.what = what;
        self
    }
}

impl Out for Kept {
    fn begin(&mut self, tag: Tag, _: usize) -> Vec<u8> {
        frame_header(RUN, tag).to_vec()
    }

    fn send(&mut self, _: usize, head: Vec<u8>, parts: Vec<Part>) -> Result<()> {
        self.messages.head_and_parts(self.what, &head, &parts);
        Ok(())
    }
}

#[test]
fn messages_of_a_grid_loop_are_as_they_were() -> Result<()> {
    let mut kept = Kept::default();
    let row = [1.0_f64, 2.0, 4.0, 8.0];
    Border::send(kept.called("columns of a row"), 1, 300, 1..3, &row)?;
    send_coming(kept.called("rows are to come"), 1)?;
    send_wanted(kept.called("rows are waited for"), 1)?;
    send_rows(kept.called("rows that move"), Tag::Units, 1, 300, row.to_vec())?;
    let plain = Orders { sweep: 3, report_after: 300, movement: None, save_before: None };
    send_told(kept.called("orders"), Tag::Orders, 1, &plain)?;
    let moves = vec![vec![BlockMove { from: 0, to: 1, units: 2..300 }], vec![]];
    let movement = Some(Movement { before: 5, rounds: moves });
    let orders = Orders { movement, save_before: Some(7), ..plain };
    send_told(kept.called("orders to move and to write rows"), Tag::Orders, 1, &orders)?;
    let messages = &mut kept.messages;
    messages.value("a rank reports", Tag::Report, &Told::Note(note()));
    messages.value("a rank has written its rows", Tag::Report, &Told::Saved(300, vec![saved()]));
    messages.value("a rank reports all that it did", Tag::Report, &Told::Total(report()));
    messages.value("a rank is alive", Tag::Status, &());
    messages.value("the loop is over", Tag::Finish, &());
    messages.check("grids");
    Ok(())
}
