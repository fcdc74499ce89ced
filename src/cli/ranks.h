/* Whether somebody started this process as one of several. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

struct error;

/* ERROR_USAGE when TF_CONFIG, mpirun or Horovod says that there are other ranks: this version
 * trains alone, and several processes that each train alone would look like one that does not. */
int ranks_refuse_several(struct error *err);

#endif
