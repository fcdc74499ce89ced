#include "data/scene.h"

#include <math.h>
#include <stdbool.h>

#include "tensor/random.h"

enum { SHAPES = 6, MAX_THINGS = 4, OCTAVES = 5, GRAIN = 26 };

struct color {
    float rgb[3];
};

/* What the pictures of one class have in common. */
struct look {
    int shape; /* 0 .. SHAPES-1 */
    struct color fill, stripe;
    float stripe_x, stripe_y; /* waves per pixel of a 500 pixel wide picture */
};

/* One thing: a shape with a middle, a size and a turn (cosine, sine). */
struct thing {
    const struct look *look;
    float x, y, radius, c, s;
    float light;
};

static struct color any_color(struct random *random, float low, float high)
{
    struct color color;
    for (int i = 0; i < 3; i++)
        color.rgb[i] = random_between(random, low, high);
    return color;
}

/* A direction of length 1 without sines: drawn in the disc, then scaled. */
static void any_direction(struct random *random, float *c, float *s)
{
    float length;
    do {
        *c = random_between(random, -1, 1);
        *s = random_between(random, -1, 1);
        length = *c * *c + *s * *s;
    } while (length < 0.01f || length > 1);
    length = sqrtf(length);
    *c /= length;
    *s /= length;
}

static struct look look_of(int label, uint64_t class_key)
{
    struct random random = {.key = random_key(class_key, (uint64_t)label)};
    struct look look = {.shape = label % SHAPES};
    look.fill = any_color(&random, 20, 235);
    look.stripe = any_color(&random, 20, 235);
    float waves = random_between(&random, 0.03f, 0.12f);
    any_direction(&random, &look.stripe_x, &look.stripe_y);
    look.stripe_x *= waves;
    look.stripe_y *= waves;
    return look;
}

/* --- noise ---------------------------------------------------------------------------------- */

static uint32_t hash(uint32_t x, uint32_t y, uint32_t key)
{
    uint32_t h = x * 0x9e3779b1u ^ y * 0x85ebca77u ^ key;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return h ^ h >> 15;
}

static float lattice(int x, int y, uint32_t key)
{
    return (float)(hash((uint32_t)x, (uint32_t)y, key) >> 8) * (2.0f / (1 << 24)) - 1;
}

static float smooth(float part)
{
    return part * part * (3 - 2 * part);
}

/* Adds to a row of pixels: values on a grid of `cell` units, smooth between, -weight .. weight.
 * Along the row only the ends of each cell are drawn. */
static void add_noise_row(float *row, int width, float unit, float y, float cell, float weight,
                          uint32_t key)
{
    float gy = y / cell, left = 0, right = 0;
    int iy = (int)gy, last = -1;
    float fy = smooth(gy - (float)iy);
    for (int column = 0; column < width; column++) {
        float gx = (float)column * unit / cell;
        int ix = (int)gx;
        if (ix != last) {
            left = lattice(ix, iy, key) * (1 - fy) + lattice(ix, iy + 1, key) * fy;
            right = lattice(ix + 1, iy, key) * (1 - fy) + lattice(ix + 1, iy + 1, key) * fy;
            last = ix;
        }
        row[column] += weight * (left + (right - left) * smooth(gx - (float)ix));
    }
}

/* A wave of straight lines between -1 and 1, one period per unit. */
static float triangle(float at)
{
    float part = at - floorf(at);
    return part < 0.5f ? 4 * part - 1 : 3 - 4 * part;
}

/* --- shapes --------------------------------------------------------------------------------- */

/* Is the point, in units of the thing's radius and turned with it, inside? */
static bool shape_has(int shape, float x, float y)
{
    float distance = x * x + y * y, ax = fabsf(x), ay = fabsf(y);
    switch (shape) {
    case 0:
        return distance < 1; /* disc */
    case 1:
        return ax < 0.85f && ay < 0.85f; /* square */
    case 2:
        return distance < 1 && distance > 0.3f; /* ring */
    case 3:
        return y < 0.7f && y > 1.8f * ax - 1; /* triangle */
    case 4:
        return (ax < 0.3f && ay < 1) || (ay < 0.3f && ax < 1); /* cross */
    default:
        return ax * ay < 0.1f && ax < 1 && ay < 1; /* star */
    }
}

static const struct thing *thing_at(const struct thing *things, int count, float x, float y)
{
    for (int i = count - 1; i >= 0; i--) {
        float dx = (x - things[i].x) / things[i].radius, dy = (y - things[i].y) / things[i].radius;
        if (dx * dx + dy * dy > 2)
            continue;
        if (shape_has(things[i].look->shape, dx * things[i].c + dy * things[i].s,
                      dy * things[i].c - dx * things[i].s))
            return &things[i];
    }
    return NULL;
}

/* --- the picture ---------------------------------------------------------------------------- */

struct scene {
    struct color ground, far;
    struct thing things[MAX_THINGS];
    int thing_count;
    float gradient_x, gradient_y;
    float scale; /* pixels of a 500 pixel wide picture per pixel */
    float roughness;
    uint32_t key;
};

static void plan_scene(const struct look *look, struct random *random, int width, int height,
                       struct scene *scene)
{
    float side = (float)(width < height ? width : height);
    scene->ground = any_color(random, 40, 215);
    scene->far = any_color(random, 40, 215);
    scene->key = (uint32_t)random_next(random);
    scene->scale = 500.0f / (float)(width > height ? width : height);
    scene->roughness = random_between(random, 20, 50);
    any_direction(random, &scene->gradient_x, &scene->gradient_y);
    scene->thing_count = 1 + (int)random_below(random, MAX_THINGS);
    for (int i = 0; i < scene->thing_count; i++) {
        struct thing *thing = &scene->things[i];
        thing->look = look;
        thing->x = random_between(random, 0.2f, 0.8f) * (float)width;
        thing->y = random_between(random, 0.2f, 0.8f) * (float)height;
        thing->radius = random_between(random, 0.15f, 0.4f) * side;
        thing->light = random_between(random, 0.7f, 1.2f);
        any_direction(random, &thing->c, &thing->s);
    }
}

/* How much lighter each pixel of the row is: rough ground and the grain of the film. */
static void light_row(const struct scene *scene, int row, int width, float *light)
{
    float weight = scene->roughness, cell = 96;
    for (int column = 0; column < width; column++) {
        uint32_t grain = hash((uint32_t)column, (uint32_t)row, scene->key ^ 0x5bd1e995u);
        light[column] = (float)(grain % GRAIN) - GRAIN / 2.0f;
    }
    for (int i = 0; i < OCTAVES; i++, weight *= 0.6f, cell *= 0.45f)
        add_noise_row(light, width, scene->scale, (float)row * scene->scale, cell, weight,
                      scene->key + (uint32_t)i);
}

static struct color ground_at(const struct scene *scene, float x, float y, int width, int height)
{
    float across = 0.5f + scene->gradient_x * (x / (float)width - 0.5f) +
                   scene->gradient_y * (y / (float)height - 0.5f);
    struct color color;
    for (int i = 0; i < 3; i++)
        color.rgb[i] = scene->ground.rgb[i] * (1 - across) + scene->far.rgb[i] * across;
    return color;
}

static struct color thing_color(const struct scene *scene, const struct thing *thing, float x,
                                float y)
{
    const struct look *look = thing->look;
    float px = (x - thing->x) * scene->scale, py = (y - thing->y) * scene->scale;
    bool striped = triangle(px * look->stripe_x + py * look->stripe_y) > 0.2f;
    struct color color = striped ? look->stripe : look->fill;
    for (int i = 0; i < 3; i++)
        color.rgb[i] *= thing->light;
    return color;
}

static uint8_t to_byte(float value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

void scene_draw(int label, uint64_t class_key, uint64_t picture_key, int width, int height,
                uint8_t *pixels)
{
    struct look look = look_of(label, class_key);
    struct random random = {.key = picture_key};
    struct scene scene;
    plan_scene(&look, &random, width, height, &scene);
    for (int row = 0; row < height; row++) {
        float light[SCENE_MAX_SIDE];
        light_row(&scene, row, width, light);
        for (int column = 0; column < width; column++) {
            float x = (float)column, y = (float)row;
            const struct thing *thing = thing_at(scene.things, scene.thing_count, x, y);
            struct color color =
                thing ? thing_color(&scene, thing, x, y) : ground_at(&scene, x, y, width, height);
            for (int i = 0; i < 3; i++)
                *pixels++ = to_byte(color.rgb[i] + light[column]);
        }
    }
}
