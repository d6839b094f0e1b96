#!/bin/bash
# Ferret on a Slurm cluster: look for pictures that are like those in a directory.
#
#   sbatch launch/templates/slurm.sh
#   sbatch --nodes=8 --export=ALL,SHARED=/scratch/me/ferret launch/templates/slurm.sh
#   sbatch --cpus-per-task=4 launch/templates/slurm.sh        four cores for each rank, which armature run passes to srun
#
# Then: squeue --me (is it running?), scancel JOBID (end it). The job's exit code is Ferret's.

#SBATCH --job-name=ferret
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:30:00
#SBATCH --output=ferret-%j.log

# --- what you may want to change -----------------------------------------------------------------------------
# A directory that every node sees at the same path:
#   bin/armature, bin/ferret   the programs (cargo build --release)
#   pictures.db                the database (bin/ferret index PICTURES -o pictures.db)
#   queries/                   the pictures to look for
SHARED=${SHARED:-$HOME/ferret}
OUT=${OUT:-$SHARED/out.tsv}          # one line an answer: query, place, picture, distance
ANSWERS=${ANSWERS:-10}               # answers a query
MAPPING=${MAPPING:-auto}             # which ranks run which stages: auto, serial or a file
# --------------------------------------------------------------------------------------------------------------

# If your site needs it, load the MPI that Ferret was built with:
#   module load openmpi
set -eu
cd "$SHARED"
echo "job $SLURM_JOB_ID on $SLURM_JOB_NODELIST, $(date)"

# There is one rank for each task. armature run starts: srun --mpi=pmix -n TASKS ... (Open MPI) or --mpi=pmi2 (MPICH).
exec bin/armature run --verbose \
  bin/ferret query queries --db pictures.db -k "$ANSWERS" -o "$OUT" --mapping "$MAPPING"
