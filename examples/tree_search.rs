//! Number of ways in which n queens can stand on a board of n × n so that none attacks another. A search in a tree
//! whose branches have unknown depths: a farm whose tasks create tasks.
//!
//! ```sh
//! mpirun -n 4 target/release/tree-search 14
//! ```

use armature::farm::Farm;
use armature::{BoxError, Config, Session};

/// Maximum number of board rows without a queen in a task that searches all of them. The task searches a few
/// thousand boards at most, too few to be divided into further tasks.
const REST: usize = 5;

fn main() -> std::process::ExitCode {
    armature::exit_code(run())
}

fn run() -> armature::Result<()> {
    let (config, args) = Config::from_args_and_rest()?;
    armature::run(&config, |session| {
        let size = args.first().map_or(Ok(10), |arg| arg.parse()).ok().filter(|size| (1..=20).contains(size));
        let size = size.ok_or("expected the size of the board, from 1 to 20")?;
        if let Some(ways) = ways(session, size)? {
            println!("{ways} ways for {size} queens");
        }
        Ok(())
    })
}

pub(crate) fn ways(session: &mut Session, size: u32) -> Result<Option<u64>, BoxError> {
    // A task with at most `REST` rows left counts the complete boards. Other tasks create a task for each place of
    // the next queen.
    let mut farm = Farm::exploring("queens", move |queens: &Vec<u32>, more| {
        if queens.len() + REST >= size as usize {
            return count(queens, size);
        }
        more.extend(next(queens, size));
        0
    });
    let mut total = 0;
    farm.explore(session, [Vec::new()], |ways| total += ways)?;
    Ok(session.is_root().then_some(total))
}

/// Returns all boards with one more queen that no other queen attacks. A board is the column of the queen in each row.
fn next(queens: &[u32], size: u32) -> Vec<Vec<u32>> {
    let is_free = |column: &u32| {
        (1..).zip(queens.iter().rev()).all(|(rows, queen)| ![0, rows].contains(&queen.abs_diff(*column)))
    };
    (0..size).filter(is_free).map(|column| [queens, &[column]].concat()).collect()
}

fn count(queens: &[u32], size: u32) -> u64 {
    if queens.len() == size as usize {
        return 1;
    }
    next(queens, size).iter().map(|queens| count(queens, size)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solution_count_equals_serial_count_on_1_to_3_ranks() {
        // The counts are the known numbers of solutions: https://oeis.org/A000170
        for (size, known) in [(1, 1), (2, 0), (3, 0), (7, 40), (8, 92)] {
            assert_eq!(count(&[], size), known);
            for ranks in 1..=3 {
                let found = armature::run(&Config::new().ranks(ranks), |session| ways(session, size));
                assert_eq!(found.unwrap(), Some(known));
            }
        }
    }
}
