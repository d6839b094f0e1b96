//! Runs the lines of standard input as commands of a [`Starter`](armature_commands::Starter) (a process that runs
//! commands for another process), and prints how each command ended. It is used to test and measure the starter
//! alone.
//!
//! `armature-commands [OUTPUT [CORES [TIMES]]]`: the output file (`-` for none), the number of cores, and the number
//! of runs of each line.

use std::io::BufRead;
use std::time::Duration;

use armature_commands::{Event, Options, Program, Request, Starter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    armature_commands::enter();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map_or(Ok(1), |text| text.parse::<u32>());
    let mut options = Options::new().cores(number(1)?);
    if let Some(file) = arguments.first().filter(|file| *file != "-") {
        options = options.output(file);
    }
    let mut starter = Starter::spawn(&options)?;
    let mut left: u64 = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        for _ in 0..number(2)? {
            left += 1;
            // A single word is started as a program, without a shell.
            let program = match line.contains(|c: char| !c.is_alphanumeric() && c != '/') {
                true => Program::shell(&line),
                false => Program::new(&line, [""; 0]),
            };
            starter.run(Request::new(left, program))?;
        }
    }
    while left > 0 {
        for event in starter.events(Duration::from_secs(3600))? {
            if let Event::Ended { id, ended } = event {
                left -= 1;
                if number(2)? == 1 {
                    println!("{id}: {ended}");
                }
            }
        }
    }
    Ok(starter.close()?)
}
