#include "support/test.h"

#include "base/arena.h"
#include "base/strbuf.h"
#include "cli/options.h"

struct sample {
    const char *model, *file, *optimizer, *note;
    bool fresh, quiet;
    int batch;
    int64_t steps;
    double rate, patience;
    size_t bucket;
};

static const char *const optimizers[] = {"sgd", "momentum", "adam", NULL};
static const char *const known_models[] = {"resnet50", "vgg16", NULL};

static const struct option table[] = {
    OPTION_ARGUMENT(sample, model, "MODEL", .required = true, .choices = known_models, .open = true,
                    .aliases = "model", .help = "network"),
    OPTION_ARGUMENT(sample, file, "FILE", .help = "weights"),
    OPTION_SECTION("Training"),
    OPTION_INT(sample, batch, "batch-size", .letter = 'b', .initial = "32", .min = 1, .max = 4096,
               .environment = "OUR_BATCH BATCH_SIZE", .aliases = "batch batch_per_rank",
               .help = "examples per step"),
    OPTION_LONG(sample, steps, "steps", OPTION_AT_LEAST(1), .environment = "STEPS",
                .aliases = "num_batches max_train_steps", .help = "steps"),
    OPTION_NUMBER(sample, rate, "lr", .min = 0, .max = 10, .help = "learning rate"),
    OPTION_CHOICE(sample, optimizer, "optimizer", .initial = "sgd", .choices = optimizers,
                  .help = "update rule"),
    OPTION_BYTES(sample, bucket, "bucket", .initial = "4M", .help = "bucket"),
    OPTION_SECONDS(sample, patience, "patience", .help = "patience"),
    OPTION_FLAG(sample, fresh, "fresh", .letter = 'f', .help = "start over"),
    OPTION_FLAG(sample, quiet, "quiet", .letter = 'q', .environment = "QUIET", .help = "hush"),
    OPTION_TEXT(sample, note, "note", .help = "remark"),
    OPTION_REFUSED("use-fp16", .accepts = "false 0", .help = "this program computes in float32"),
    OPTION_REFUSED("device", .value = "NAME", .accepts = "cpu", .aliases = "horovod_device",
                   .help = "this program computes on CPUs"),
    OPTION_END};

static const char *environment[8]; /* "NAME", "value", ... */

static char *look_up(const char *name)
{
    for (int i = 0; environment[i]; i += 2)
        if (strcmp(environment[i], name) == 0)
            return (char *)(uintptr_t)environment[i + 1];
    return NULL;
}

enum { MAX_WORDS = 24 };

/* Reads words separated by blanks, with a MODEL in front. */
static int parse(const char *line, struct sample *sample, struct options *options,
                 struct error *err)
{
    static char text[512];
    char *words[MAX_WORDS] = {(char[]){"vgg16"}};
    int count = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *at = text, *word; (word = strsep(&at, " "));)
        if (*word)
            words[count++] = word;
    *sample = (struct sample){0};
    return options_parse(table, count, words, look_up, sample, options, err);
}

static struct sample read_line(const char *line)
{
    struct sample sample;
    struct options options;
    struct error err = {0};
    ASSERT_OK(parse(line, &sample, &options, &err), err);
    return sample;
}

static void refuses(const char *line, const char *message)
{
    struct sample sample;
    struct options options;
    struct error err = {0};
    if (parse(line, &sample, &options, &err) == 0)
        FAIL("'%s' should have been refused", line);
    ASSERT_INT(err.code, ==, ERROR_USAGE);
    ASSERT_TEXT(err.message, message);
}

TEST(options, every_spelling_of_a_value_means_the_same)
{
    const char *lines[] = {"--batch-size 64",
                           "--batch-size=64",
                           "--batch_size 64",
                           "--batch_size=64",
                           "-b 64",
                           "-b64",
                           "-b=64",
                           "--batch=64",
                           "--batch-per_rank 64",
                           "-fb64",
                           "--batch-size 1 --batch-size 64"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (read_line(lines[i]).batch != 64)
            FAIL("'%s' gives %d", lines[i], read_line(lines[i]).batch);
}

TEST(options, initial_values_are_those_of_the_table)
{
    struct sample sample = read_line("");
    ASSERT_INT(sample.batch, ==, 32);
    ASSERT_INT(sample.bucket, ==, 4 << 20);
    ASSERT_TEXT(sample.optimizer, "sgd");
    ASSERT_INT(sample.steps, ==, 0);
    ASSERT_FALSE(sample.fresh);
    ASSERT_TEXT(sample.note, NULL);
}

TEST(options, flags_can_be_switched_both_ways)
{
    ASSERT_TRUE(read_line("--fresh").fresh);
    ASSERT_TRUE(read_line("--fresh=true").fresh);
    ASSERT_TRUE(read_line("--no-fresh --fresh").fresh);
    ASSERT_FALSE(read_line("--fresh --no-fresh").fresh);
    ASSERT_FALSE(read_line("--fresh --nofresh").fresh);
    ASSERT_FALSE(read_line("--fresh --fresh=0").fresh);
    struct sample both = read_line("-fq");
    ASSERT_TRUE(both.fresh && both.quiet);
    refuses("--no-fresh=1", "--no-fresh takes no value");
    refuses("--fresh=maybe", "--fresh=maybe: say true or false");
}

TEST(options, a_flag_beats_the_environment_which_beats_the_recipe_which_beats_the_table)
{
    struct sample sample;
    struct options options;
    struct error err = {0};
    struct arena *arena = arena_create();
    const char *recipe = "--batch-size=16 --lr 0.5 --steps=7";
    environment[0] = "BATCH_SIZE", environment[1] = "128";
    ASSERT_OK(parse("--steps 9", &sample, &options, &err), err);
    ASSERT_OK(options_apply_recipe(&options, recipe, arena, &err), err);
    ASSERT_INT(sample.steps, ==, 9);
    ASSERT_INT(sample.batch, ==, 128);
    ASSERT_NUMBER(sample.rate, ==, 0.5);
    ASSERT_INT(options_source(&options, "steps"), ==, OPTION_FROM_ARGUMENTS);
    ASSERT_INT(options_source(&options, "batch-size"), ==, OPTION_FROM_ENVIRONMENT);
    ASSERT_INT(options_source(&options, "lr"), ==, OPTION_FROM_RECIPE);
    ASSERT_INT(options_source(&options, "optimizer"), ==, OPTION_FROM_TABLE);
    ASSERT_INT(options_source(&options, "note"), ==, OPTION_FROM_NOTHING);
    environment[0] = NULL;
    ASSERT_OK(parse("", &sample, &options, &err), err);
    ASSERT_OK(options_apply_recipe(&options, recipe, arena, &err), err);
    ASSERT_INT(sample.batch, ==, 16);
    ASSERT_FAILS(options_apply_recipe(&options, "--lr=fast", arena, &err), err, ERROR_USAGE,
                 "recipe: --lr=fast: is not a number");
    arena_destroy(arena);
}

TEST(options, the_environment_is_checked_like_a_flag_and_empty_means_unset)
{
    environment[0] = "STEPS", environment[1] = "many";
    refuses("", "environment: STEPS=many: is not a whole number");
    ASSERT_INT(read_line("--steps 3").steps, ==, 3);
    environment[1] = "";
    ASSERT_INT(read_line("").steps, ==, 0);
    environment[0] = "BATCH_SIZE", environment[1] = "5";
    environment[2] = "OUR_BATCH", environment[3] = "6";
    ASSERT_INT(read_line("").batch, ==, 6);
    memset(environment, 0, sizeof environment);
}

TEST(options, sizes_and_times_have_units)
{
    ASSERT_INT(read_line("--bucket 65536").bucket, ==, 65536);
    ASSERT_INT(read_line("--bucket 64k").bucket, ==, 65536);
    ASSERT_INT(read_line("--bucket 1.5MiB").bucket, ==, 3 << 19);
    ASSERT_INT(read_line("--bucket 2G").bucket, ==, 1ll << 31);
    ASSERT_NUMBER(read_line("--patience 90").patience, ==, 90);
    ASSERT_NUMBER(read_line("--patience 250ms").patience, ==, 0.25);
    ASSERT_NUMBER(read_line("--patience 1.5h").patience, ==, 5400);
    refuses("--bucket 4X", "--bucket=4X: is not a size: write 65536, 64K, 4M or 2G");
    refuses("--bucket -1", "--bucket=-1: is not a size: write 65536, 64K, 4M or 2G");
    refuses("--bucket 1e30", "--bucket=1e30: is out of range");
    refuses("--patience soon", "--patience=soon: is not a time: write 90, 90s, 500ms, 15m or 2h");
}

TEST(options, bad_values_are_refused_naming_option_and_value)
{
    refuses("--batch-size 0", "--batch-size=0: must be between 1 and 4096");
    refuses("--batch_size=-3", "--batch_size=-3: must be between 1 and 4096");
    refuses("-b 5000", "-b=5000: must be between 1 and 4096");
    refuses("--batch 3x", "--batch=3x: is not a whole number");
    refuses("--batch 1.5", "--batch=1.5: is not a whole number");
    refuses("--batch=", "--batch=: is not a whole number");
    refuses("--steps 0", "--steps=0: must be at least 1");
    refuses("--steps 99999999999999999999", "--steps=99999999999999999999: is out of range");
    refuses("--lr nan", "--lr=nan: is not a number");
    refuses("--lr inf", "--lr=inf: is not a number");
    refuses("--lr 11", "--lr=11: must be between 0 and 10");
    refuses("--batch-size", "--batch-size needs a value: --batch-size N");
    refuses("--batch-size --fresh", "--batch-size needs a value: --batch-size N");
    refuses("one two", "unexpected argument 'two': see --help");
}

TEST(options, misspelt_names_get_the_nearest_one)
{
    refuses("--bach-size 3", "unknown option --bach-size: did you mean --batch-size?");
    refuses("--num_bathces=3", "unknown option --num_bathces: did you mean --num_batches?");
    refuses("--zzzzzz", "unknown option --zzzzzz: see --help");
    refuses("--hlep", "unknown option --hlep: did you mean --help?");
    refuses("-z", "unknown option -z: see --help");
    refuses("--optimizer=adma",
            "--optimizer=adma: did you mean adam? (known: sgd, momentum, adam)");
    refuses("--optimizer=newton", "--optimizer=newton: is none of sgd, momentum, adam");
}

TEST(options, choices_are_spelt_as_the_table_has_them)
{
    ASSERT_TEXT(read_line("--optimizer ADAM").optimizer, "adam");
}

TEST(options, arguments_fill_up_in_order_and_may_be_named)
{
    struct sample sample;
    struct options options;
    struct error err = {0};
    char *const words[] = {(char[]){"--model"}, (char[]){"./own.so"}, (char[]){"--"},
                           (char[]){"-weights"}};
    sample = (struct sample){0};
    ASSERT_OK(options_parse(table, 4, words, look_up, &sample, &options, &err), err);
    ASSERT_TEXT(sample.model, "./own.so");
    ASSERT_TEXT(sample.file, "-weights");
    ASSERT_TEXT(read_line("-").file, "-");
    char *const misspelt[] = {(char[]){"vgg-61"}};
    ASSERT_FAILS(options_parse(table, 1, misspelt, look_up, &sample, &options, &err), err,
                 ERROR_USAGE, "MODEL=vgg-61: did you mean vgg16? (known: resnet50, vgg16)");
    ASSERT_FAILS(options_parse(table, 0, words, look_up, &sample, &options, &err), err, ERROR_USAGE,
                 "MODEL is missing: see --help");
}

TEST(options, refused_ones_say_why_unless_they_ask_for_what_is_done_anyway)
{
    refuses("--use_fp16", "--use_fp16: this program computes in float32");
    refuses("--use_fp16=true", "--use_fp16: this program computes in float32");
    refuses("--device gpu", "--device=gpu: this program computes on CPUs");
    refuses("--horovod_device=gpu", "--horovod_device=gpu: this program computes on CPUs");
    read_line("--use_fp16=False --nouse_fp16 --device cpu --horovod_device=CPU");
}

TEST(options, help_is_seen_before_anything_is_checked)
{
    struct sample sample;
    struct options options;
    struct error err = {0};
    ASSERT_OK(parse("--batch-size=zero --help", &sample, &options, &err), err);
    ASSERT_TRUE(options.help);
    ASSERT_OK(parse("-- --help", &sample, &options, &err), err);
    ASSERT_FALSE(options.help);
}

/* Lines put together at random from pieces that mean something to the reader. */
TEST(options, any_line_is_read_or_refused_with_a_message)
{
    static const char *const pieces[] = {
        "--",     "-",   "=", "no",    "batch-size", "batch_size", "b",         "fresh", "use-fp16",
        "device", "cpu", "0", "12",    "1e9",        "4M",         "optimizer", "adam",  " ",
        " ",      " ",   "q", "model", "steps",      "patience",   "h",         "%s%n",  "\xff"};
    uint64_t random = 1;
    int refused = 0;
    for (int round = 0; round < 20000; round++) {
        char line[128] = "";
        size_t used = 0;
        for (int i = 0; i < 10; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const char *piece = pieces[(random >> 33) % (sizeof pieces / sizeof *pieces)];
            used += (size_t)snprintf(line + used, sizeof line - used, "%s", piece);
        }
        struct sample sample;
        struct options options;
        struct error err = {0};
        if (parse(line, &sample, &options, &err) == 0)
            continue;
        refused++;
        if (err.code != ERROR_USAGE || !err.message[0])
            FAIL("'%s' is refused with code %d and '%s'", line, (int)err.code, err.message);
    }
    ASSERT_INT(refused, >, 1000);
    ASSERT_INT(refused, <, 20000);
}

TEST(options, a_value_written_as_text_is_read_back_the_same)
{
    struct arena *memory = arena_create();
    struct sample sample = {0}, again = {0};
    struct options options;
    struct error err = {0};
    ASSERT_OK(parse("--batch 7 --steps 9000000000 --lr 0.1 --bucket 3M --patience 1.5m --fresh "
                    "--note x",
                    &sample, &options, &err),
              err);
    sample.model = "resnet50";
    for (const struct option *row = table; row->type != OPTION_IS_END; row++) {
        struct strbuf text;
        strbuf_init(&text);
        option_text(row, &sample, &text);
        if (text.length) /* its texts point into `text` */
            ASSERT_OK(option_set(row, row->name, arena_copy_text(memory, text.text), &again, &err),
                      err);
        strbuf_release(&text);
    }
    ASSERT_INT(again.batch, ==, 7);
    ASSERT_INT(again.steps, ==, 9000000000);
    ASSERT_NUMBER(again.rate, ==, 0.1);
    ASSERT_INT(again.bucket, ==, 3 << 20);
    ASSERT_NUMBER(again.patience, ==, 90);
    ASSERT_TRUE(again.fresh && !again.quiet);
    ASSERT_TEXT(again.model, "resnet50");
    ASSERT_TEXT(again.optimizer, "sgd");
    arena_destroy(memory);
}

TEST(options, behind_two_dashes_a_name_with_a_value_is_an_option)
{
    struct sample sample = read_line("-b 8 -- steps=50 batch_size=16");
    ASSERT_INT(sample.steps, ==, 50);
    ASSERT_INT(sample.batch, ==, 16);
    ASSERT_TEXT(read_line("-- what=ever").file, "what=ever");
    refuses("-- steps=0", "--steps=0: must be at least 1");
}

TEST(options, a_list_keeps_all_it_was_given)
{
    struct listed {
        struct option_list items;
    } listed = {0};
    static const struct option rows[] = {
        OPTION_LIST(listed, items, "param", .letter = 'p', .value = "KEY=VALUE", .help = "several"),
        OPTION_END};
    char *words[] = {(char[]){"-p"}, (char[]){"a=1"}, (char[]){"--param=b=2"}, (char[]){"-pc=3"}};
    struct options options;
    struct error err = {0};
    struct strbuf text;
    ASSERT_OK(options_parse(rows, 4, words, look_up, &listed, &options, &err), err);
    ASSERT_INT(listed.items.count, ==, 3);
    ASSERT_TEXT(listed.items.items[0], "a=1");
    ASSERT_TEXT(listed.items.items[1], "b=2");
    ASSERT_TEXT(listed.items.items[2], "c=3");
    strbuf_init(&text);
    option_text(&rows[0], &listed, &text);
    ASSERT_TEXT(text.text, "a=1 b=2 c=3");
    strbuf_release(&text);
}
