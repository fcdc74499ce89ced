#include "data/handwriting.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "tensor/random.h"

enum {
    SIDE = HANDWRITING_SIDE,
    MAX_SKELETON = 14, /* points of one digit */
    STEPS = 7,         /* straight pieces between two of them */
    MAX_PATH = MAX_SKELETON * STEPS,
    LANES = 8,             /* pixels inked at a time: a constant, so that the loop vectorises */
    STRIDE = SIDE + LANES, /* of a canvas row: the last lanes may stick out */
    WAVES = 2,
};

enum joint {
    S, /* the stroke passes smoothly */
    C, /* it turns sharply */
    L, /* the pen was lifted: a new stroke starts here */
};

/* In hundredths of the digit's box, y downwards. */
struct skeleton {
    int digit, count;
    struct {
        int8_t x, y;
        uint8_t joint;
    } points[MAX_SKELETON];
};

/* The first point of each counts as lifted. A way of writing that stands twice is twice as
 * frequent. */
/* clang-format off */
static const struct skeleton skeletons[] = {
    {0, 9, {{54, 7, L}, {29, 22, S}, {20, 52, S}, {30, 84, S}, {52, 94, S}, {75, 80, S},
            {82, 48, S}, {71, 18, S}, {50, 7, S}}},
    {0, 10, {{64, 14, L}, {42, 8, S}, {22, 34, S}, {22, 70, S}, {46, 94, S}, {72, 80, S},
             {80, 44, S}, {68, 16, S}, {48, 6, S}, {38, 10, S}}},
    {0, 9, {{40, 12, L}, {24, 38, S}, {24, 72, S}, {46, 95, S}, {72, 82, S}, {80, 48, S},
            {70, 16, S}, {50, 6, S}, {30, 20, S}}},
    {1, 3, {{52, 5, L}, {50, 50, S}, {48, 95, S}}},
    {1, 3, {{60, 5, L}, {51, 50, S}, {42, 95, S}}},
    {1, 4, {{35, 25, L}, {54, 6, C}, {52, 50, S}, {50, 95, S}}},
    {1, 6, {{34, 26, L}, {52, 7, C}, {51, 50, S}, {50, 93, S}, {28, 94, L}, {74, 93, S}}},
    {2, 9, {{22, 28, L}, {34, 10, S}, {58, 7, S}, {75, 24, S}, {66, 48, S}, {42, 72, S},
            {20, 92, C}, {48, 90, S}, {82, 91, S}}},
    {2, 10, {{24, 24, L}, {42, 7, S}, {68, 12, S}, {72, 36, S}, {52, 66, S}, {28, 90, S},
             {18, 83, S}, {32, 76, S}, {54, 88, S}, {84, 90, S}}},
    {2, 7, {{24, 20, L}, {50, 6, S}, {74, 22, S}, {60, 52, S}, {40, 74, S}, {20, 93, C},
            {82, 92, S}}},
    {3, 9, {{24, 16, L}, {50, 6, S}, {73, 20, S}, {66, 39, S}, {42, 47, C}, {68, 55, S},
            {80, 75, S}, {58, 94, S}, {22, 86, S}}},
    {3, 7, {{24, 9, L}, {74, 8, C}, {46, 42, C}, {70, 50, S}, {79, 72, S}, {60, 94, S},
            {22, 87, S}}},
    {3, 11, {{22, 18, L}, {48, 6, S}, {71, 20, S}, {60, 42, S}, {42, 48, S}, {40, 43, S},
             {52, 45, S}, {74, 58, S}, {76, 80, S}, {52, 95, S}, {22, 84, S}}},
    {4, 7, {{34, 8, L}, {28, 32, S}, {21, 57, C}, {50, 57, S}, {82, 54, S}, {65, 28, L},
            {60, 95, S}}},
    {4, 5, {{60, 95, L}, {63, 50, S}, {64, 6, C}, {18, 64, C}, {86, 62, S}}},
    {4, 8, {{28, 8, L}, {22, 38, S}, {32, 54, S}, {54, 53, S}, {74, 42, S}, {75, 8, L},
            {71, 50, S}, {66, 95, S}}},
    {4, 7, {{38, 6, L}, {30, 30, S}, {20, 55, C}, {82, 56, S}, {66, 8, L}, {63, 50, S},
            {58, 95, S}}},
    {5, 8, {{77, 8, L}, {34, 9, C}, {28, 43, C}, {54, 38, S}, {76, 56, S}, {70, 84, S},
            {44, 95, S}, {20, 85, S}}},
    {5, 9, {{33, 9, L}, {28, 45, C}, {56, 40, S}, {77, 60, S}, {68, 86, S}, {42, 95, S},
            {20, 86, S}, {33, 9, L}, {79, 6, S}}},
    {5, 8, {{74, 9, L}, {46, 9, S}, {32, 26, S}, {44, 43, S}, {68, 56, S}, {68, 84, S},
            {42, 95, S}, {20, 84, S}}},
    {6, 9, {{66, 6, L}, {40, 26, S}, {24, 58, S}, {30, 86, S}, {54, 95, S}, {75, 80, S},
            {69, 58, S}, {48, 53, S}, {27, 70, S}}},
    {6, 8, {{50, 4, L}, {34, 40, S}, {27, 74, S}, {46, 95, S}, {70, 86, S}, {72, 66, S},
            {50, 57, S}, {28, 74, S}}},
    {6, 9, {{74, 12, L}, {52, 8, S}, {29, 36, S}, {22, 70, S}, {42, 94, S}, {70, 86, S},
            {76, 64, S}, {54, 51, S}, {27, 64, S}}},
    {7, 4, {{20, 12, L}, {78, 10, C}, {58, 50, S}, {44, 95, S}}},
    {7, 6, {{20, 12, L}, {78, 10, C}, {58, 50, S}, {46, 95, S}, {34, 52, L}, {76, 50, S}}},
    {7, 5, {{22, 27, L}, {22, 11, C}, {78, 10, C}, {60, 46, S}, {48, 95, S}}},
    {7, 6, {{19, 13, L}, {50, 15, S}, {79, 8, C}, {62, 40, S}, {51, 66, S}, {47, 95, S}}},
    {8, 12, {{70, 18, L}, {48, 6, S}, {28, 22, S}, {44, 44, S}, {70, 63, S}, {72, 84, S},
             {48, 95, S}, {26, 82, S}, {34, 61, S}, {62, 42, S}, {72, 22, S}, {62, 8, S}}},
    {8, 10, {{50, 6, L}, {30, 25, S}, {50, 46, S}, {70, 26, S}, {48, 6, S}, {50, 46, L},
             {26, 71, S}, {50, 95, S}, {76, 70, S}, {50, 46, S}}},
    {8, 10, {{73, 12, L}, {44, 7, S}, {30, 26, S}, {56, 48, S}, {76, 72, S}, {52, 95, S},
             {28, 78, S}, {44, 53, S}, {66, 30, S}, {75, 12, S}}},
    {9, 8, {{72, 22, L}, {50, 6, S}, {27, 24, S}, {35, 47, S}, {57, 46, S}, {73, 20, C},
            {69, 56, S}, {62, 95, S}}},
    {9, 9, {{70, 30, L}, {56, 8, S}, {31, 14, S}, {25, 38, S}, {44, 50, S}, {69, 32, S},
            {71, 12, C}, {69, 56, S}, {66, 95, S}}},
    {9, 8, {{73, 28, L}, {52, 6, S}, {27, 26, S}, {42, 50, S}, {73, 30, S}, {75, 60, S},
            {58, 90, S}, {30, 91, S}}},
    {9, 8, {{73, 26, L}, {52, 6, S}, {27, 26, S}, {42, 49, S}, {70, 34, S}, {68, 60, S},
            {58, 80, S}, {46, 96, S}}},
};
/* clang-format on */

struct vector {
    float x, y;
};

/* fminf and fmaxf are calls, for the sake of NaN. */
static float smaller(float a, float b)
{
    return a < b ? a : b;
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

/* A wave with the period 1 and values between -1 and 1: parabolas in place of a sine. */
static float wave(float t)
{
    t += 64.0f; /* positive for all that is asked here */
    float u = 2.0f * (t - (float)(int)t) - 1.0f;
    return 4.0f * u * (1.0f - fabsf(u));
}

/* One person on one occasion. Lengths in pixels unless said otherwise. */
struct hand {
    float wobble; /* of skeleton points; in boxes */
    bool round_corners;
    struct {
        struct vector along, by; /* cycles per box; shift in boxes */
        float phase;
    } waves[WAVES];
    struct vector column_x, column_y; /* box to page: scale, slant and turn as a matrix */
    struct vector centre;
    float pen_radius, pressure, pressure_phase, tremor;
    float softness, ink; /* width of an edge; darkness, in pixel values */
    int32_t grain;       /* largest noise, in pixel values */
};

static struct vector draw_vector(struct random *random, float size)
{
    float x = random_between(random, -size, size);
    return (struct vector){x, random_between(random, -size, size)};
}

/* Turning by half-angle tangents needs no sine. */
static void choose_slope(struct hand *hand, struct random *random)
{
    float height = random_between(random, 17.0f, 23.0f);
    float width = height * random_between(random, 0.72f, 1.25f);
    float slant = 0.19f * random_normal(random) - 0.12f;
    float half_turn = 0.055f * random_normal(random);
    float whole = 1.0f + half_turn * half_turn;
    float cosine = (2.0f - whole) / whole, sine = 2.0f * half_turn / whole;
    hand->column_x = (struct vector){cosine * width, sine * width};
    hand->column_y =
        (struct vector){(cosine * slant - sine) * height, (sine * slant + cosine) * height};
}

static struct hand choose_hand(struct random *random)
{
    struct hand hand = {
        .wobble = random_between(random, 0.01f, 0.034f),
        .round_corners = random_uniform(random) < 0.35f,
    };
    for (int i = 0; i < WAVES; i++) {
        hand.waves[i].along = draw_vector(random, 1.1f);
        hand.waves[i].by = draw_vector(random, 0.055f);
        hand.waves[i].phase = random_uniform(random);
    }
    choose_slope(&hand, random);
    hand.centre = draw_vector(random, 1.9f);
    float pen = random_uniform(random);
    hand.pen_radius = 0.6f + 1.2f * pen * (0.4f + 0.6f * pen);
    hand.pressure = random_between(random, 0.0f, 0.3f);
    hand.pressure_phase = random_uniform(random);
    hand.tremor = random_between(random, 0.0f, 0.25f);
    hand.softness = random_between(random, 0.9f, 1.9f);
    hand.ink = random_between(random, 190.0f, 280.0f);
    float grain = random_uniform(random);
    hand.grain = (int32_t)(36.0f * grain * grain * grain);
    return hand;
}

struct path {
    int count;
    struct {
        float x, y, radius;
        bool lifted; /* no ink between the point before and this one */
    } points[MAX_PATH];
};

static const struct skeleton *choose_skeleton(int digit, struct random *random)
{
    int count = sizeof skeletons / sizeof *skeletons, first = 0;
    while (skeletons[first].digit != digit)
        first++;
    int end = first;
    while (end < count && skeletons[end].digit == digit)
        end++;
    return &skeletons[first + random_below(random, end - first)];
}

/* Where the hand puts the skeleton's points: nowhere twice. An error carries over to the next
 * point, as a hand does not jerk; ends of strokes vary most. */
static void place_points(const struct skeleton *skeleton, const struct hand *hand,
                         struct random *random, struct vector *placed)
{
    struct vector error = {0};
    for (int i = 0; i < skeleton->count; i++) {
        bool end = skeleton->points[i].joint == L || i + 1 == skeleton->count ||
                   skeleton->points[i + 1].joint == L;
        float wobble = end ? 1.5f * hand->wobble : hand->wobble;
        error.x = 0.6f * error.x + wobble * random_normal(random);
        error.y = 0.6f * error.y + wobble * random_normal(random);
        placed[i].x = 0.01f * skeleton->points[i].x + error.x;
        placed[i].y = 0.01f * skeleton->points[i].y + error.y;
    }
}

static void add_point(struct path *path, const struct hand *hand, struct vector at, bool lifted)
{
    struct vector bent = at;
    for (int i = 0; i < WAVES; i++) {
        float height = wave(hand->waves[i].along.x * at.x + hand->waves[i].along.y * at.y +
                            hand->waves[i].phase);
        bent.x += hand->waves[i].by.x * height;
        bent.y += hand->waves[i].by.y * height;
    }
    float travelled = 0.05f * (float)path->count;
    float shake = hand->tremor * wave(4.0f * travelled + hand->pressure_phase);
    int i = path->count++;
    path->points[i].x = hand->column_x.x * bent.x + hand->column_y.x * bent.y + shake;
    path->points[i].y = hand->column_x.y * bent.x + hand->column_y.y * bent.y - shake;
    path->points[i].radius =
        hand->pen_radius * (1.0f + hand->pressure * wave(travelled + hand->pressure_phase));
    path->points[i].lifted = lifted;
}

/* Direction of the stroke at point i: towards the neighbour at ends and corners (`leaving` says
 * which), parallel to the neighbours elsewhere, as Catmull and Rom's splines. */
static struct vector tangent(const struct skeleton *skeleton, const struct hand *hand,
                             const struct vector *placed, int i, bool leaving)
{
    enum joint joint = skeleton->points[i].joint;
    bool last = i + 1 == skeleton->count || skeleton->points[i + 1].joint == L;
    bool sharp = joint == C && !hand->round_corners;
    int from = joint == L || (sharp && leaving) ? i : i - 1;
    int to = last || (sharp && !leaving) ? i : i + 1;
    float factor = to - from == 2 ? 0.5f : 1.0f;
    return (struct vector){factor * (placed[to].x - placed[from].x),
                           factor * (placed[to].y - placed[from].y)};
}

static void add_piece(struct path *path, const struct hand *hand, struct vector a, struct vector b,
                      struct vector a_tangent, struct vector b_tangent)
{
    for (int step = 1; step <= STEPS; step++) {
        float t = (float)step / STEPS, rest = 1.0f - t;
        float ha = (1.0f + 2.0f * t) * rest * rest, hb = t * t * (3.0f - 2.0f * t);
        float ta = t * rest * rest, tb = -t * t * rest; /* Hermite's polynomials */
        struct vector at = {ha * a.x + hb * b.x + ta * a_tangent.x + tb * b_tangent.x,
                            ha * a.y + hb * b.y + ta * a_tangent.y + tb * b_tangent.y};
        add_point(path, hand, at, false);
    }
}

static void trace(const struct skeleton *skeleton, const struct hand *hand, struct random *random,
                  struct path *path)
{
    struct vector placed[MAX_SKELETON];
    place_points(skeleton, hand, random, placed);
    for (int i = 0; i < skeleton->count; i++) {
        if (skeleton->points[i].joint == L)
            add_point(path, hand, placed[i], true);
        else
            add_piece(path, hand, placed[i - 1], placed[i],
                      tangent(skeleton, hand, placed, i - 1, true),
                      tangent(skeleton, hand, placed, i, false));
    }
    assert(path->count <= MAX_PATH);
}

/* Moves the digit to its place on the page, and shrinks one that would not fit. */
static void centre_path(struct path *path, const struct hand *hand)
{
    float left = path->points[0].x, right = left, top = path->points[0].y, bottom = top;
    for (int i = 1; i < path->count; i++) {
        left = smaller(left, path->points[i].x);
        right = larger(right, path->points[i].x);
        top = smaller(top, path->points[i].y);
        bottom = larger(bottom, path->points[i].y);
    }
    float room = SIDE - 4.0f, size = larger(right - left, bottom - top);
    float scale = size > room ? room / size : 1.0f;
    for (int i = 0; i < path->count; i++) {
        path->points[i].x =
            scale * (path->points[i].x - 0.5f * (left + right)) + 0.5f * SIDE + hand->centre.x;
        path->points[i].y =
            scale * (path->points[i].y - 0.5f * (top + bottom)) + 0.5f * SIDE + hand->centre.y;
    }
}

static int limited(float value, int high)
{
    return value < 0.0f ? 0 : value > (float)high ? high : (int)value;
}

/* How deep each pixel lies inside the stroke (negative: outside), for the piece from a to b with a
 * radius that changes evenly; `depth` keeps the largest. */
static void ink_piece(const struct path *path, int index, float reach, float depth[SIDE][STRIDE])
{
    float ax = path->points[index - 1].x, ay = path->points[index - 1].y;
    float bx = path->points[index].x - ax, by = path->points[index].y - ay;
    float radius = path->points[index - 1].radius, more = path->points[index].radius - radius;
    float scale = 1.0f / (bx * bx + by * by + 1e-6f);
    int left = limited(smaller(ax, ax + bx) - reach, SIDE - 1);
    int right = limited(larger(ax, ax + bx) + reach, SIDE - 1);
    int top = limited(smaller(ay, ay + by) - reach, SIDE - 1);
    int bottom = limited(larger(ay, ay + by) + reach, SIDE - 1);
    for (int y = top; y <= bottom; y++) {
        float py = (float)y + 0.5f - ay;
        for (int x = left; x <= right; x += LANES) {
            float *row = &depth[y][x];
            for (int lane = 0; lane < LANES; lane++) {
                float px = (float)(x + lane) + 0.5f - ax;
                float t = (px * bx + py * by) * scale;
                t = smaller(larger(t, 0.0f), 1.0f);
                float dx = px - t * bx, dy = py - t * by;
                float inside = radius + t * more - sqrtf(dx * dx + dy * dy);
                row[lane] = larger(inside, row[lane]);
            }
        }
    }
}

/* Soft edges, and grain: eight bytes of noise from each random number. Each loop has one width of
 * numbers or a multiple of sixteen turns, so that it vectorises. */
static void develop(const struct hand *hand, uint64_t noise, float depth[SIDE][STRIDE],
                    uint8_t pixels[HANDWRITING_PIXELS])
{
    int32_t dark[HANDWRITING_PIXELS];
    uint8_t grain[HANDWRITING_PIXELS];
    float sharpness = 1.0f / hand->softness;
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            float edge = smaller(larger(depth[y][x] * sharpness + 0.5f, 0.0f), 1.0f);
            dark[y * SIDE + x] = (int32_t)(edge * hand->ink + 0.5f);
        }
    }
    for (int i = 0; i < HANDWRITING_PIXELS / 8; i++) {
        uint64_t bits = random_at(noise, (uint64_t)i);
        for (int j = 0; j < 8; j++)
            grain[8 * i + j] = (uint8_t)(bits >> 8 * j);
    }
    for (int i = 0; i < HANDWRITING_PIXELS; i++) {
        int32_t value = dark[i] + ((grain[i] - 128) * hand->grain >> 7);
        value = value > 0 ? value : 0;
        pixels[i] = (uint8_t)(value < 255 ? value : 255);
    }
}

void handwriting_draw(int digit, uint64_t key, uint8_t pixels[HANDWRITING_PIXELS])
{
    assert(digit >= 0 && digit <= 9);
    struct random random = {.key = key};
    struct hand hand = choose_hand(&random);
    struct path path = {.count = 0};
    trace(choose_skeleton(digit, &random), &hand, &random, &path);
    centre_path(&path, &hand);
    float depth[SIDE][STRIDE];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < STRIDE; x++)
            depth[y][x] = -SIDE;
    float reach = hand.pen_radius * (1.0f + hand.pressure) + 0.5f * hand.softness;
    for (int i = 1; i < path.count; i++)
        if (!path.points[i].lifted)
            ink_piece(&path, i, reach, depth);
    develop(&hand, random_key(key, 1), depth, pixels);
}
