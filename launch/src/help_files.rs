//! `armature completions` and `armature man`, whose output follows from the definition of the command line.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::error::LaunchError;

/// Print the completions of this command for a shell.
///
/// Write them to a file that the shell loads:
///
/// bash: armature completions bash > ~/.local/share/bash-completion/completions/armature
///
/// zsh: armature completions zsh > ~/.zfunc/_armature, with ~/.zfunc in fpath before compinit
///
/// fish: armature completions fish > ~/.config/fish/completions/armature.fish
///
/// Exit code: 0; 2 if the shell is unknown.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell that completes commands
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Print the man page of a command, or write all pages to a directory.
///
/// `armature man run | man -l -` shows the page of `armature run`. With --dir ~/.local/share/man/man1, `man armature-run` finds the page afterwards.
///
/// Exit code: 0; 2 if there is no such command; 1 if a page cannot be written.
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// Names of the command, such as `workflow run` [default: the page of `armature`]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands to this directory, which is created if it does not exist
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(args: &Completions, mut command: Command) -> String {
    let (name, mut text) = (command.get_name().to_string(), Vec::new());
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns a man page, or writes all man pages and returns a line with the name of their directory.
pub(crate) fn manual(args: &Manual, root: Command) -> Result<String, LaunchError> {
    // Man pages for `armature help COMMAND` would only repeat those of the commands.
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let Some(dir) = &args.dir else {
        let named = args.command.iter().try_fold(&root, |command, name| command.find_subcommand(name));
        let unknown = || {
            let named = armature_text::line(args.command.join(" "));
            LaunchError::Usage(format!("no command `armature {named}`; `armature --help` lists the commands"))
        };
        return Ok(String::from_utf8_lossy(&page(named.ok_or_else(unknown)?)).into_owned());
    };
    let write = || -> io::Result<usize> {
        std::fs::create_dir_all(dir)?;
        let commands = with_subcommands(&root);
        for command in &commands {
            let file = dir.join(format!("{}.1", page_name(command)));
            armature_files::output::publish(&file, &page(command))?;
        }
        Ok(commands.len())
    };
    let count = write().map_err(LaunchError::io(format!("write man pages to {}", dir.display())))?;
    Ok(format!("{count} man pages are in {}\n", armature_text::path(dir)))
}

fn with_subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().flat_map(with_subcommands);
    std::iter::once(command).chain(below).collect()
}

/// Returns the name of a man page, such as `armature-workflow-run`.
fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> Vec<u8> {
    let mut text = Vec::new();
    let page = Man::new(command.clone()).source(concat!("armature ", env!("CARGO_PKG_VERSION")));
    let _ = page.render(&mut text);
    text
}
