/* The documents' tree of kustomize packages, from the same objects as `render` prints. */
#ifndef K8S_PACKAGE_H
#define K8S_PACKAGE_H

struct arena;
struct error;

/* Called for each file; `path` is below the package's directory. */
typedef int package_file(void *context, const char *path, const char *text, struct error *err);

/* quickstart/mlops/KIND/USE-CASE/ with a Krmfile of setters, a kustomization and the objects, for
 * each kind of the tree, with claims of the user's and on NFS. `assignments` (KEY=VALUE,
 * NULL-terminated) change the defaults of those kinds that have the parameter; one that none has is
 * refused. */
int package_write(const char *const *assignments, package_file *file, void *context,
                  struct arena *memory, struct error *err);

#endif
