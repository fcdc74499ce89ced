#include "base/nearest.h"

#include <ctype.h>

enum { MAX_LETTERS = NEAREST_MAX_DISTANCE - 1 };

static int letter(const char *word, int index)
{
    int c = tolower((unsigned char)word[index]);
    return c == '_' ? '-' : c;
}

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

int nearest_distance(const char *a, const char *b)
{
    size_t long_a = strlen(a), long_b = strlen(b);
    if (long_a > MAX_LETTERS || long_b > MAX_LETTERS)
        return NEAREST_MAX_DISTANCE;
    int n = (int)long_a, m = (int)long_b;
    /* cost[i][j]: to turn the first i letters of a into the first j of b. */
    unsigned char cost[MAX_LETTERS + 1][MAX_LETTERS + 1];
    for (int i = 0; i <= n; i++)
        cost[i][0] = (unsigned char)i;
    for (int j = 0; j <= m; j++)
        cost[0][j] = (unsigned char)j;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            int other = letter(a, i - 1) != letter(b, j - 1);
            int best = least(cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + other);
            if (i > 1 && j > 1 && letter(a, i - 1) == letter(b, j - 2) &&
                letter(a, i - 2) == letter(b, j - 1))
                best = least(best, cost[i - 2][j - 2] + 1, best);
            cost[i][j] = (unsigned char)best;
        }
    return cost[n][m];
}

void nearest_start(struct nearest *nearest, const char *word)
{
    *nearest = (struct nearest){.word = word, .distance = NEAREST_MAX_DISTANCE};
}

void nearest_offer(struct nearest *nearest, const char *name)
{
    int length = (int)strnlen(nearest->word, MAX_LETTERS + 1);
    int distance = nearest_distance(nearest->word, name);
    /* The beginning of a name is as good as one letter off. */
    if (length >= 3 && distance > 1 && strncasecmp(nearest->word, name, (size_t)length) == 0)
        distance = 1;
    int allowed = length < 4 ? 1 : length / 3 + 1;
    if (distance <= allowed && distance < nearest->distance) {
        nearest->best = name;
        nearest->distance = distance;
    }
}
