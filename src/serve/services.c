/* What protoc made of proto/, as a part of the program; the Makefile knows where it is. */
#include "base/embed.h"
#include "serve/reflection_message.h"

EMBED(services, SERVICES_FILE);

const void *services_descriptors(size_t *bytes)
{
    *bytes = (size_t)(services_end - services);
    return services;
}
