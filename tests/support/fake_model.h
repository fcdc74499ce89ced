/* A small network behind struct imported, for tests of serving: y = x * W + b with x [N, 4] and y
 * [N, 3], weights drawn from a number; read from a directory that holds model.txt with that number.
 * Tests may make its preparation wait. */
#ifndef TESTS_SUPPORT_FAKE_MODEL_H
#define TESTS_SUPPORT_FAKE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct imported;
struct model_calls;

enum { FAKE_INPUTS = 4, FAKE_OUTPUTS = 3 };

extern const struct model_calls fake_model_calls;

/* Fails the running test when it cannot be made. */
struct imported *fake_model_make(uint64_t seed);
/* DIR/VERSION/model.txt; other text than a number makes a version that cannot be read. */
void fake_model_write(const char *directory, int64_t version, const char *text);

/* From now on preparing waits at a gate (or not). fake_gate_pass lets as many go on as said;
 * fake_gate_wait waits until so many stand there (and fails the test after a minute). */
void fake_gate_close(void);
void fake_gate_open(void);
void fake_gate_pass(int count);
void fake_gate_wait(int count);
int fake_models_alive(void); /* made and not yet destroyed */

#endif
