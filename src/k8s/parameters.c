#include "k8s/parameters.h"

static const struct parameter_row rows[] = {
#define PARAMETER(name, type, initial, help) {#name, PARAMETER_IS_##type, initial, help},
    PARAMETERS(PARAMETER)
#undef PARAMETER
};

const struct parameter_row *parameter_row(enum parameter parameter)
{
    return &rows[parameter];
}

int parameter_find(const char *name, int length)
{
    for (int i = 0; i < PARAMETER_COUNT; i++)
        if ((int)strlen(rows[i].name) == length &&
            strncasecmp(rows[i].name, name, (size_t)length) == 0)
            return i;
    return -1;
}

const char *parameter_choice(enum parameter parameter, int index, int *length)
{
    const char *at = rows[parameter].help;
    for (; rows[parameter].type == PARAMETER_IS_CHOICE; at += *length + 1) {
        *length = (int)strcspn(at, "|:");
        if (index-- == 0)
            return at;
        if (at[*length] == ':')
            break;
    }
    return NULL;
}
