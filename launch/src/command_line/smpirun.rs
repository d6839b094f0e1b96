//! Command line of SimGrid's `smpirun`, which runs all ranks in one process on simulated hosts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{CommandLine, Word, words};

/// Options of SimGrid. Only declared work takes simulated time, unless the caller measures the work. Waiting for a message by polling takes simulated
/// time, which the last two options limit to a microsecond for each poll.
const OPTIONS: [&str; 4] = [
    "--log=root.thresh:warning",
    "--cfg=smpi/grow-injected-times:no",
    "--cfg=smpi/iprobe:1e-6",
    "--cfg=smpi/test:1e-6",
];

/// Simulation of a job: program, hosts and options of SimGrid.
#[derive(Debug)]
pub(crate) struct Simulation<'a> {
    /// Path of `smpirun`.
    pub(crate) smpirun: PathBuf,
    pub(crate) ranks: usize,
    /// File with the description of the hosts for SimGrid.
    pub(crate) platform: &'a Path,
    /// Names of the hosts, one for each rank and line.
    pub(crate) hosts: String,
    /// Directory for the copies of the program that SimGrid makes, one for each rank.
    pub(crate) copies: &'a Path,
    /// Operations per second of this machine, if the time of the program's computations is measured.
    pub(crate) measured: Option<f64>,
    /// Further options of SimGrid, as KEY:VALUE.
    pub(crate) configuration: &'a [String],
    /// The program and its arguments.
    pub(crate) command: &'a [OsString],
}

/// Returns the setting of the C library for thread-local memory of all ranks' copies of the program. By default, the C library reserves memory for
/// eight copies only.
fn static_tls(ranks: usize) -> String {
    format!("glibc.rtld.optional_static_tls={}", 1024 * ranks + 4096)
}

impl Simulation<'_> {
    pub(crate) fn command_line(self) -> CommandLine {
        let mut line: Vec<Word> = words(["-np", &self.ranks.to_string(), "-platform"]).collect();
        line.push(Word::Text(self.platform.into()));
        line.extend(words(["-hostfile"]));
        line.push(Word::Hostfile);
        line.extend(words(OPTIONS));
        let measured = match self.measured {
            Some(speed) => format!("--cfg=smpi/host-speed:{speed}f"),
            None => "--cfg=smpi/simulate-computation:no".into(),
        };
        line.extend(words([&measured, &format!("--cfg=smpi/tmpdir:{}", self.copies.display())]));
        line.extend(self.configuration.iter().map(|option| Word::Text(format!("--cfg={option}").into())));
        line.extend(self.command.iter().cloned().map(Word::Text));
        CommandLine {
            program: self.smpirun,
            hostfile: Some(self.hosts),
            variables: vec![("GLIBC_TUNABLES", static_tls(self.ranks).into())],
            ranks: self.ranks,
            all_here: true,
            is_labelled: false,
            minds_end_of_input: false,
            warning: None,
            words: line,
        }
    }
}
