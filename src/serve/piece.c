#include "serve/piece.h"

#include "base/arena.h"
#include "convert/imported.h"

int64_t piece_rows(const struct inference *whole, int64_t first, int max_rows)
{
    int64_t left = whole->rows - first;
    return left < max_rows ? left : max_rows;
}

static void fail(struct inference *part, const char *why)
{
    part->status = SERVE_EXHAUSTED;
    error_set(&part->error, ERROR_MEMORY, "%s", why);
}

static size_t row_bytes(const struct tensor *tensor)
{
    struct tensor row = *tensor;
    row.shape.dim[0] = 1;
    return tensor_bytes(&row);
}

/* Views of the whole's rows: nothing is copied. */
static struct tensor *slice_inputs(const struct piece *piece, int64_t rows)
{
    const struct inference *whole = piece->whole;
    int count = whole->signature->input_count;
    struct tensor *inputs = ARENA_ARRAY(piece->arena, struct tensor, count + 1);
    for (int i = 0; inputs && i < count; i++) {
        inputs[i] = whole->inputs[i];
        inputs[i].shape.dim[0] = rows;
        inputs[i].data =
            (char *)whole->inputs[i].data + (size_t)piece->first * row_bytes(&inputs[i]);
    }
    return inputs;
}

bool piece_open(struct piece *piece, struct inference *whole, int64_t first, int max_rows)
{
    *piece = (struct piece){.whole = whole, .first = first, .arena = arena_create()};
    struct inference *part = &piece->part;
    part->servable = whole->servable;
    part->signature = whole->signature;
    part->arena = piece->arena;
    part->rows = piece_rows(whole, first, max_rows);
    part->inputs = piece->arena ? slice_inputs(piece, part->rows) : NULL;
    if (!part->inputs)
        fail(part, "no memory for a part of the request");
    return part->inputs;
}

static struct tensor *take_room(const struct piece *piece)
{
    const struct inference *whole = piece->whole;
    int count = whole->signature->output_count;
    struct tensor *room = ARENA_ARRAY(whole->arena, struct tensor, count + 1);
    for (int i = 0; room && i < count; i++) {
        room[i] = piece->part.outputs[i];
        room[i].shape.dim[0] = whole->rows;
        room[i].data = arena_take(whole->arena, tensor_bytes(&room[i]));
        if (!room[i].data)
            return NULL;
    }
    return room;
}

void piece_make_room(struct piece *piece)
{
    if (piece->part.status != SERVE_OK || piece->whole->outputs)
        return;
    piece->whole->outputs = take_room(piece);
    if (!piece->whole->outputs)
        fail(&piece->part, "no memory for the answer");
}

void piece_join(const struct piece *piece)
{
    const struct tensor *pieces = piece->part.outputs, *whole = piece->whole->outputs;
    for (int i = 0; i < piece->whole->signature->output_count; i++)
        memcpy((char *)whole[i].data + (size_t)piece->first * row_bytes(&pieces[i]), pieces[i].data,
               tensor_bytes(&pieces[i]));
}

void piece_close(struct piece *piece)
{
    arena_destroy(piece->arena);
}
