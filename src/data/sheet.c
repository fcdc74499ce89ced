#include "data/sheet.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/letters.h"
#include "data/survey.h"

enum {
    MARGIN = 4,
    CELL_WIDTH = SURVEY_THUMBNAIL + MARGIN,
    CELL_HEIGHT = SURVEY_THUMBNAIL + LETTER_HEIGHT + 2 * MARGIN,
    MAX_LETTERS = SURVEY_THUMBNAIL / LETTER_WIDTH,
    PAPER = 250,
    INK = 20,
};

/* As many columns as make it about as wide as high. */
static int columns_for(int count)
{
    int columns = 1;
    while (columns * columns < count)
        columns++;
    return columns;
}

static void paste(struct picture *sheet, int x, int y, const struct picture *picture)
{
    for (int row = 0; row < picture->height; row++)
        memcpy(sheet->pixels + 3 * ((size_t)(y + row) * (size_t)sheet->width + (size_t)x),
               picture->pixels + 3 * (size_t)row * (size_t)picture->width,
               3 * (size_t)picture->width);
}

static void draw_cell(struct picture *sheet, int x, int y, const struct survey_sample *sample)
{
    char text[MAX_LETTERS + 1];
    paste(sheet, x + (SURVEY_THUMBNAIL - sample->picture.width) / 2,
          y + (SURVEY_THUMBNAIL - sample->picture.height) / 2, &sample->picture);
    if (sample->label < 0)
        return;
    snprintf(text, sizeof text, "%d%s%s", sample->label, *sample->name ? " " : "", sample->name);
    letters_draw(sheet, x, y + SURVEY_THUMBNAIL + MARGIN / 2, text, INK);
}

int sheet_draw(const struct survey *survey, uint8_t **out, size_t *bytes, struct error *err)
{
    int columns = columns_for(survey->sample_count);
    int rows = (survey->sample_count + columns - 1) / columns;
    struct picture sheet = {.width = MARGIN + columns * CELL_WIDTH,
                            .height = MARGIN + rows * CELL_HEIGHT};
    if (survey->sample_count == 0)
        return error_set(err, ERROR_USAGE, "a sheet needs pictures, and there are none");
    size_t count = 3 * (size_t)sheet.width * (size_t)sheet.height;
    if (!(sheet.pixels = memory_allocate(count)))
        return error_set(err, ERROR_MEMORY, "no memory for the sheet");
    memset(sheet.pixels, PAPER, count);
    for (int i = 0; i < survey->sample_count; i++)
        draw_cell(&sheet, MARGIN + i % columns * CELL_WIDTH, MARGIN + i / columns * CELL_HEIGHT,
                  &survey->samples[i]);
    int status = picture_encode_png(&sheet, out, bytes, err);
    memory_free(sheet.pixels);
    return status;
}
