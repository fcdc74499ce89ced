/* A contact sheet: small pictures in rows, each with its label below. */
#ifndef DATA_SHEET_H
#define DATA_SHEET_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct survey;

/* The samples of a survey as a PNG; *out is the caller's (memory_free). */
int sheet_draw(const struct survey *survey, uint8_t **out, size_t *bytes, struct error *err);

#endif
