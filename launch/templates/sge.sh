#!/bin/bash
# Ferret on a Grid Engine cluster: look for pictures that are like those in a directory.
#
#   qsub launch/templates/sge.sh
#   qsub -pe mpi 16 -v SHARED=/scratch/me/ferret launch/templates/sge.sh
#
# Then: qstat (is it running?), qdel JOBID (end it). The job's exit code is Ferret's.
# The parallel environment is called mpi here; qconf -spl lists those of your site.

#$ -N ferret
#$ -S /bin/bash
#$ -pe mpi 8
#$ -l h_rt=00:30:00
#$ -j y
#$ -o ferret.log
#$ -cwd

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
echo "job $JOB_ID with $NSLOTS slots, $(date)"

# There is one rank for each slot. Open MPI and MPICH find the hosts of the job without options.
exec bin/armature run --verbose \
  bin/ferret query queries --db pictures.db -k "$ANSWERS" -o "$OUT" --mapping "$MAPPING"
