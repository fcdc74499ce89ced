/* The checksum of TFRecords, tensor bundles and LevelDB tables, by the processor's instruction
 * where it has one. */
#ifndef WIRE_CRC32C_H
#define WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of `count` bytes that follow those `crc` is of; 0 to begin. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count);
/* The same without the instruction. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t count);
/* As it is stored beside the data it covers. */
uint32_t crc32c_mask(uint32_t crc);

#endif
