/* Stands in front of SimGrid SMPI's <mpi.h>, so that the `mpi` crate 0.8 builds against SMPI 3.32 unchanged.
 * smpicc-rs puts this directory first on the include path, of the C compiler and of bindgen alike. */
#ifndef ARMATURE_SMPI_MPI_H
#define ARMATURE_SMPI_MPI_H

/* What SMPI declares differently (Comm_spawn_multiple lacks a const) or only has as stubs that abort. The
 * header's own declarations are hidden under other names. */
#define MPI_Comm_spawn_multiple armature_hidden_Comm_spawn_multiple
#define MPI_Comm_get_parent armature_hidden_Comm_get_parent
#define MPI_Mprobe armature_hidden_Mprobe
#define MPI_Improbe armature_hidden_Improbe
#define MPI_Mrecv armature_hidden_Mrecv
#define MPI_Imrecv armature_hidden_Imrecv
#include_next <mpi.h>
#undef MPI_Comm_spawn_multiple
#undef MPI_Comm_get_parent
#undef MPI_Mprobe
#undef MPI_Improbe
#undef MPI_Mrecv
#undef MPI_Imrecv

/* Ours get symbol names of their own (bindgen turns the label into a link name): smpirun loads each rank into
 * a process where libsimgrid's stubs come first in the search for a symbol. */
int MPI_Comm_spawn_multiple(int count, char **commands, char ***arguments, const int *maxprocs,
                            const MPI_Info *infos, int root, MPI_Comm comm, MPI_Comm *intercomm, int *errors);
int MPI_Comm_get_parent(MPI_Comm *parent) __asm__("armature_smpi_Comm_get_parent");
int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
    __asm__("armature_smpi_Mprobe");
int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
    __asm__("armature_smpi_Improbe");
int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
    __asm__("armature_smpi_Mrecv");
int MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
    __asm__("armature_smpi_Imrecv");

/* The crate initialises C constants with these. MPI_COMM_WORLD is a variable in SMPI, set before any rank is
 * loaded: Rust reads it under the crate's name by way of a label, and C gets a dummy that nobody reads.
 * MPI_COMM_SELF is a function call in SMPI and has no such form: it is null, so do not use it. */
#ifdef ARMATURE_SMPI_DEFINE
#undef MPI_COMM_WORLD
#define MPI_COMM_WORLD ((MPI_Comm)0)
#else
extern const MPI_Comm RSMPI_COMM_WORLD __asm__("MPI_COMM_WORLD");
#endif
#undef MPI_COMM_SELF
#define MPI_COMM_SELF ((MPI_Comm)0)

/* An enumerator in SMPI, for which bindgen would make up another name. */
#define MPI_SUCCESS 0

#ifdef ARMATURE_SMPI_DEFINE /* set by smpicc-rs for the crate's C file, unseen by bindgen */
#include <stdlib.h>
#include <string.h>

/* A matched message: probed, then received at once into a buffer of its own. A simulated rank is one thread,
 * so nothing can take the message in between. The transfer is waited for in the probe, not in the receive.
 * Contiguous data types only. */
typedef struct {
  MPI_Status status;
  int bytes;
  char *data;
} armature_message;

static int armature_take(MPI_Comm comm, MPI_Status *probed, MPI_Message *message, MPI_Status *status)
{
  armature_message *taken = malloc(sizeof *taken);
  int code;
  MPI_Get_count(probed, MPI_BYTE, &taken->bytes);
  taken->data = malloc(taken->bytes > 0 ? (size_t)taken->bytes : 1);
  code = MPI_Recv(taken->data, taken->bytes, MPI_BYTE, probed->MPI_SOURCE, probed->MPI_TAG, comm, &taken->status);
  if (status != MPI_STATUS_IGNORE)
    *status = taken->status;
  *message = (MPI_Message)taken;
  return code;
}

int MPI_Comm_get_parent(MPI_Comm *parent)
{
  *parent = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
  MPI_Status probed;
  int code = MPI_Probe(source, tag, comm, &probed);
  return code ? code : armature_take(comm, &probed, message, status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
  MPI_Status probed;
  int code = MPI_Iprobe(source, tag, comm, flag, &probed);
  if (code || !*flag)
    return code;
  return armature_take(comm, &probed, message, status);
}

int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
  armature_message *taken = (armature_message *)*message;
  int size, code = MPI_SUCCESS;
  size_t room, bytes = (size_t)taken->bytes;
  MPI_Type_size(type, &size);
  room = (size_t)count * (size_t)size;
  if (bytes > room) {
    bytes = room;
    code = MPI_ERR_TRUNCATE;
  }
  memcpy(buffer, taken->data, bytes);
  if (status != MPI_STATUS_IGNORE)
    *status = taken->status;
  free(taken->data);
  free(taken);
  *message = MPI_MESSAGE_NULL;
  return code;
}

int MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
  *request = MPI_REQUEST_NULL; /* complete already */
  return MPI_Mrecv(buffer, count, type, message, MPI_STATUS_IGNORE);
}
#endif
#endif
