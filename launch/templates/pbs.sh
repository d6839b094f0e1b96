#!/bin/bash
# Ferret on a PBS or Torque cluster: look for pictures that are like those in a directory.
#
#   qsub launch/templates/pbs.sh
#   qsub -l select=8:ncpus=2:mpiprocs=2 -v SHARED=/scratch/me/ferret launch/templates/pbs.sh
#
# Then: qstat (is it running?), qdel JOBID (end it). The job's exit code is Ferret's.
# Torque writes the resources as nodes=4:ppn=2 instead of select=4:ncpus=2:mpiprocs=2.

#PBS -N ferret
#PBS -l select=4:ncpus=2:mpiprocs=2
#PBS -l walltime=00:30:00
#PBS -j oe
#PBS -o ferret.log

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
echo "job $PBS_JOBID on $(sort -u "$PBS_NODEFILE" | tr '\n' ' '), $(date)"

# The node file has one line for each rank. armature run starts: mpirun -n RANKS --hostfile ..., with the hosts of the node file.
exec bin/armature run --verbose \
  bin/ferret query queries --db pictures.db -k "$ANSWERS" -o "$OUT" --mapping "$MAPPING"
