/* What training pods run, and how many of them find each other. */
#ifndef K8S_TRAINING_H
#define K8S_TRAINING_H

#include "k8s/pods.h"

/* The words of EXEC; false when it is empty. */
bool training_exec(struct node *words, const struct deployment *deployment);
/* "lockstep train MODEL ..." with ARGS behind; what the environment says is not repeated. */
void training_words(struct node *words, const struct deployment *deployment);
/* EXEC, or else that. */
void training_command(struct node *words, const struct deployment *deployment);
/* Adds the words of a parameter as they are. */
void training_add_words(struct node *words, const struct deployment *deployment,
                        enum parameter parameter);
/* Our image has no shell: a command line that asks for one is refused. */
int training_check_exec(const struct deployment *deployment, struct error *err);

/* mpirun's words before the program; `hostfile` NULL: the operator's. */
void training_mpirun(struct node *words, const struct deployment *deployment, const char *program,
                     const char *hostfile);
/* The worker's command, the launcher's variables: our agents in place of ssh, or sshd. `key` is the
 * file of the shared secret; NULL: there is none. */
void training_worker(struct node *words, const struct deployment *deployment, const char *key);
void training_launcher(struct pod *pod, const struct deployment *deployment, const char *key);

/* A MPIJob of the operator's version 2beta1, without its pods' commands and volumes. `account`: see
 * struct pod_settings. */
struct training_mpijob {
    struct pod launcher, worker;
};
struct training_mpijob training_mpijob(struct manifest *manifest,
                                       const struct deployment *deployment, const char *account);

/* Where the operator's key is mounted for agents. */
#define TRAINING_KEYS "/etc/lockstep/ssh"
#define TRAINING_SECRET "/etc/lockstep/secret"

#endif
