/* What protoc made of proto/, as a part of the program; the Makefile knows where it is. */
#include "serve/reflection_message.h"

__asm__(".pushsection .rodata\n"
        ".hidden services_start\n.hidden services_end\n"
        ".globl services_start\n.globl services_end\n"
        "services_start:\n.incbin \"" SERVICES_FILE "\"\nservices_end:\n.byte 0\n"
        ".popsection\n");
extern const char services_start[], services_end[];

const void *services_descriptors(size_t *bytes)
{
    *bytes = (size_t)(services_end - services_start);
    return services_start;
}
