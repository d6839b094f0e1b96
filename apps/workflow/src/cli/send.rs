//! Execution of a workflow's commands on ranks without a shared directory. Rank 0 has the workflow file and the input files, and receives all output
//! files.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

use armature::workflow::{Cluster, Summary, TaskMemory};
use armature::{BoxError, Commands};
use armature_files::lock::LockFile;
use armature_files::regular;
use armature_workflow_files::{Description, Format, platform, read_as};

use super::{
    Cli, completed_flags, path_with_suffix, print_completed, rescue, run_and_report_failures, set_up,
    write_trace,
};
use crate::command::{CompletionHandler, Settings};
use crate::prepare::{self, NOTHING};
use crate::record;
use crate::rescue::Rescue;

/// Data that rank 0 broadcasts: name and text of the workflow, flag for each task that is true if the task is done, and name and text of the platform
/// file (processors and links).
type RootData = ((String, Vec<u8>), Vec<bool>, Option<(String, Vec<u8>)>);

pub(super) fn commands(args: &Cli, file: &Path) -> Result<Option<Summary>, armature::BoxError> {
    let rescue = rescue(args, file);
    let outputs =
        std::path::absolute(args.outputs.clone().unwrap_or_else(|| path_with_suffix(file, ".outputs")))?;
    let config = args.config()?.commands(Commands::new().cores(args.cores).output_on_root(&outputs));
    let start = SystemTime::now();
    let found = armature::run(&config, |session| {
        let (data, lock) = session.is_root().then(|| read(args, file, &rescue)).transpose()?.unzip();
        let (described, cluster) = parse_root_data(session.broadcast(data)?)?;
        let description = prepare::with_sent_files(&described).map_err(|error| error.to_string())?;
        let machines = session.all_gather(record::machine())?;
        if session.is_root() {
            print_completed(&described, &rescue);
        }
        let settings =
            Settings { directory: args.directory.clone(), outputs: outputs.clone(), check_outputs: false };
        let handler = || {
            CompletionHandler::new(&described, &settings, &rescue, 0)
                .map(|handler| handler.for_hosts(machines))
        };
        let mut handler = session.is_root().then(handler).transpose()?;
        let mut workflow = set_up(args, cluster.as_ref(), description, TaskMemory::Additive)
            .directory(&args.directory)
            .send_files()
            .closure(NOTHING, |_, _| Ok(()))
            .after_command(|ended, cx| handler.as_mut().map_or(Ok(()), |handler| handler.handle(ended, cx)));
        if args.enforce_memory {
            workflow = workflow.enforce_memory();
        }
        let summary = run_and_report_failures(session, workflow)?;
        Ok(summary.map(|summary| (summary, described.clone(), lock)))
    })?;
    let Some((summary, mut described, _lock)) = found else { return Ok(None) };
    write_trace(args, &mut described, &outputs, (start, &summary))?;
    Ok(Some(summary))
}

/// Reads, on rank 0, the workflow, the names of completed tasks and the platform, which all ranks need, and locks the rescue file (list of completed
/// tasks) against other runs.
fn read(args: &Cli, file: &Path, rescue: &Rescue) -> Result<(RootData, LockFile), BoxError> {
    let name = file.display().to_string();
    let bytes = regular::read(file).map_err(|error| format!("cannot read the workflow {name}: {error}"))?;
    let format = Format::of(&name, &bytes)?;
    let mut described = read_as(format, &name, &bytes)?;
    let lock = rescue.begin(&mut described, &BTreeSet::new()).map_err(|error| error.to_string())?;
    let platform = args.platform.as_ref().map(|file| {
        let name = file.display().to_string();
        match regular::read(file) {
            Ok(bytes) => Ok((name, bytes)),
            Err(error) => Err(format!("cannot read the platform {name}: {error}")),
        }
    });
    Ok((((name, bytes), completed_flags(&described), platform.transpose()?), lock))
}

fn parse_root_data(data: RootData) -> Result<(Description, Option<Cluster>), BoxError> {
    let ((name, bytes), completed_flags, platform) = data;
    let mut described = read_as(Format::of(&name, &bytes)?, &name, &bytes)?;
    for (task, is_done) in completed_flags.into_iter().enumerate() {
        described.set_done(task, is_done);
    }
    let cluster = platform.map(|(name, bytes)| platform::read(&name, &bytes)).transpose()?;
    Ok((described, cluster))
}
