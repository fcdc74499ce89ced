#include "data/crop.h"

#include <math.h>

#include "tensor/random.h"

enum { TRIES = 100 };
static const float least_area = 0.05f, most_area = 1.0f;
static const float least_aspect = 3.0f / 4.0f, most_aspect = 4.0f / 3.0f;

static int rounded(float value)
{
    return (int)lrintf(value);
}

/* The largest height whose width still fits. */
static int tallest(float area, float aspect, int width, int height)
{
    int most = rounded(sqrtf(area / aspect));
    if (rounded((float)most * aspect) > width) {
        most = (int)(((float)width + 0.5 - 1e-7) / aspect);
        if (rounded((float)most * aspect) > width)
            most--;
    }
    return most < height ? most : height;
}

static float area_of(int height, float aspect)
{
    return (float)rounded((float)height * aspect) * (float)height;
}

/* The height; 0 when rounding leaves none that fits. */
static int draw_height(struct random *random, float aspect, int width, int height)
{
    float area = (float)width * (float)height;
    int most = tallest(most_area * area, aspect, width, height);
    int drawn = rounded(sqrtf(least_area * area / aspect));
    if (drawn >= most)
        drawn = most;
    else
        drawn += (int)random_below(random, most - drawn + 1);
    /* Rounding may have put it just outside: try the neighbours. */
    if (area_of(drawn, aspect) < least_area * area)
        drawn++;
    if (area_of(drawn, aspect) > most_area * area)
        drawn--;
    float got = area_of(drawn, aspect);
    bool fits = got >= least_area * area && got <= most_area * area && drawn <= height &&
                rounded((float)drawn * aspect) <= width && drawn > 0 && got > 0;
    return fits ? drawn : 0;
}

static int draw_place(struct random *random, int whole, int part)
{
    return part < whole ? (int)random_below(random, whole - part) : 0;
}

struct crop crop_draw(struct random *random, int width, int height)
{
    struct crop crop = {.width = width, .height = height};
    for (int i = 0; i < TRIES; i++) {
        float aspect = random_between(random, least_aspect, most_aspect);
        int drawn = draw_height(random, aspect, width, height);
        if (drawn == 0)
            continue;
        crop.height = drawn;
        crop.width = rounded((float)drawn * aspect);
        crop.top = draw_place(random, height, crop.height);
        crop.left = draw_place(random, width, crop.width);
        break;
    }
    crop.mirrored = random_next(random) >> 63;
    return crop;
}
