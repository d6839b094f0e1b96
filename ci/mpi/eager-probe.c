/* Incorrect MPI program that relies on eager sends: both ranks send before either receives.
 * It hangs if a send waits for its receive, as with --no-eager. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
  int rank, bytes = argc > 1 ? atoi(argv[1]) : 256;
  char *out = calloc(1, bytes), *in = calloc(1, bytes);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Send(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
  MPI_Recv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  if (rank == 0) puts("sent eagerly");
  return 0;
}
