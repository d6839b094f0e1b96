//! Command line of MPICH's `mpirun` (Hydra), which passes the environment to the ranks, accepts more ranks than slots, and runs as root.

use super::{Bind, Needs, Word, words};

pub(super) fn options(needs: &Needs<'_>) -> Vec<Word> {
    let mut line: Vec<Word> = words(["-n", &needs.ranks.to_string()]).collect();
    if needs.hosts.is_some() {
        line.extend(words(["-f"]));
        line.push(Word::Hostfile);
    }
    match needs.binding() {
        Some(Bind::Core) => line.extend(words(["-bind-to", "core"])),
        Some(Bind::None) => line.extend(words(["-bind-to", "none"])),
        _ => {}
    }
    if needs.label {
        line.extend(words(["-prepend-rank"]));
    }
    line
}
