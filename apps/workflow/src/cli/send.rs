//! Commands on ranks without a shared directory. Rank 0 has the workflow's file and its inputs, and keeps all files of the run.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

use armature::workflow::{Cluster, Summary, TaskMemory};
use armature::{BoxError, Commands};
use armature_files::lock::LockFile;
use armature_files::regular;
use armature_workflow_files::{Description, Format, platform, read_as};

use super::{Cli, beside, close, done, rescue, run_and_note, set_up, tell_known};
use crate::command::{Aftermath, Settings};
use crate::prepare::{self, NOTHING};
use crate::record;
use crate::rescue::Rescue;

/// Data that rank 0 broadcasts: name and text of the workflow, flags of the completed tasks, and name and text of the platform.
type Given = ((String, Vec<u8>), Vec<bool>, Option<(String, Vec<u8>)>);

pub(super) fn commands(args: &Cli, file: &Path) -> Result<Option<Summary>, armature::BoxError> {
    let rescue = rescue(args, file);
    let outputs = std::path::absolute(args.outputs.clone().unwrap_or_else(|| beside(file, ".outputs")))?;
    let config = args.config()?.commands(Commands::new().cores(args.cores).output_on_root(&outputs));
    let start = SystemTime::now();
    let found = armature::run(&config, |session| {
        let (given, lock) = session.is_root().then(|| read(args, file, &rescue)).transpose()?.unzip();
        let (described, cluster) = understood(session.broadcast(given)?)?;
        let description = prepare::with_sent_files(&described).map_err(|error| error.to_string())?;
        let machines = session.all_gather(record::machine())?;
        if session.is_root() {
            tell_known(&described, &rescue);
        }
        // Each rank checks the files of its commands itself.
        let settings =
            Settings { directory: args.directory.clone(), outputs: outputs.clone(), check_outputs: false };
        let keeper = || Aftermath::new(&described, &settings, &rescue, 0).map(|keeper| keeper.on(machines));
        let mut keeper = session.is_root().then(keeper).transpose()?;
        let mut workflow = set_up(args, cluster.as_ref(), description, TaskMemory::Additive)
            .directory(&args.directory)
            .send_files()
            .closure(NOTHING, |_, _| Ok(()))
            .after_command(|ended, cx| keeper.as_mut().map_or(Ok(()), |keeper| keeper.of(ended, cx)));
        if args.enforce_memory {
            workflow = workflow.enforce_memory();
        }
        let summary = run_and_note(session, workflow)?;
        Ok(summary.map(|summary| (summary, described.clone(), lock)))
    })?;
    let Some((summary, mut described, _lock)) = found else { return Ok(None) };
    close(args, &mut described, &outputs, (start, &summary))?;
    Ok(Some(summary))
}

/// Reads on rank 0 the data for all ranks, and locks the rescue file. Returns the data and the lock.
fn read(args: &Cli, file: &Path, rescue: &Rescue) -> Result<(Given, LockFile), BoxError> {
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
    Ok((((name, bytes), done(&described), platform.transpose()?), lock))
}

fn understood(given: Given) -> Result<(Description, Option<Cluster>), BoxError> {
    let ((name, bytes), done, platform) = given;
    let mut described = read_as(Format::of(&name, &bytes)?, &name, &bytes)?;
    for (task, done) in done.into_iter().enumerate() {
        described.set_done(task, done);
    }
    let cluster = platform.map(|(name, bytes)| platform::read(&name, &bytes)).transpose()?;
    Ok((described, cluster))
}
