#include <errno.h>

/* Thread-local keys of one rank. A process has 1,024 keys, and the standard library of each rank's copy of the program takes one. The linker
 * option --wrap replaces the four functions in the copy only. All simulated ranks run in one thread until the process ends, so that the
 * destructors of keys need not be called. */
#define ARMATURE_KEYS 32
static __thread void *armature_values[ARMATURE_KEYS];

int __wrap_pthread_key_create(unsigned *key, void (*destructor)(void *))
{
  static unsigned used;
  unsigned next = __atomic_add_fetch(&used, 1, __ATOMIC_RELAXED);
  (void)destructor;
  if (next >= ARMATURE_KEYS)
    return EAGAIN;
  *key = next;
  return 0;
}

int __wrap_pthread_key_delete(unsigned key)
{
  (void)key;
  return 0;
}

void *__wrap_pthread_getspecific(unsigned key)
{
  return armature_values[key];
}

int __wrap_pthread_setspecific(unsigned key, const void *value)
{
  armature_values[key] = (void *)value;
  return 0;
}
