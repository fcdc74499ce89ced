#include "base/symbols.h"

#include <dlfcn.h>
#include <string.h>

const char *symbols_find(void *library, const struct symbol *symbols, size_t count, void *structure)
{
    const char *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            missing = symbols[i].name;
        memcpy((char *)structure + symbols[i].place, &symbol, sizeof symbol);
    }
    return missing;
}
