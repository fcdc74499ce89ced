#include "k8s/kind.h"

#define KIND(name) extern const struct kind kind_##name;
#include "kinds.list"
#undef KIND

static const struct kind *const kinds[] = {
#define KIND(name) &kind_##name,
#include "kinds.list"
#undef KIND
    NULL,
};

const struct kind *const *kind_list(void)
{
    return kinds;
}

const struct kind *kind_find(const char *name)
{
    for (const struct kind *const *kind = kinds; *kind; kind++)
        if (strcmp((*kind)->name, name) == 0)
            return *kind;
    return NULL;
}

static const char *spelling_of(const struct kind_use *use)
{
    return use->spelling ? use->spelling : parameter_row(use->parameter)->name;
}

const char *kind_spelling(const struct kind *kind, enum parameter parameter)
{
    for (const struct kind_use *use = kind->uses; use->parameter != PARAMETER_COUNT; use++)
        if (use->parameter == parameter)
            return spelling_of(use);
    return NULL;
}

const char *kind_help(const struct kind_use *use)
{
    return use->help ? use->help : parameter_row(use->parameter)->help;
}

int kind_parameter(const struct kind *kind, const char *name, int length)
{
    int known = parameter_find(name, length);
    for (const struct kind_use *use = kind->uses; use->parameter != PARAMETER_COUNT; use++) {
        const char *spelling = spelling_of(use);
        if ((int)use->parameter == known ||
            ((int)strlen(spelling) == length && strncasecmp(spelling, name, (size_t)length) == 0))
            return (int)use->parameter;
    }
    return -1;
}
