#include "support/test.h"

#include <math.h>

#include "base/json.h"
#include "base/memory.h"

static struct json *parse(const char *text)
{
    struct error err = {0};
    struct json *json = NULL;
    ASSERT_OK(json_parse(text, strlen(text), &json, &err), err);
    return json;
}

TEST(json, writes_members_in_order_and_quotes)
{
    struct json *object = json_object_create(), *array = json_array_create();
    json_set_text(object, "b", "say \"hi\"\n");
    json_set_number(object, "a", 0.1);
    json_set_integer(object, "big", INT64_MAX);
    json_set_bool(object, "yes", true);
    json_append_integer(array, 1);
    json_append_text(array, "two");
    json_append(array, json_object_create());
    json_set(object, "list", array);
    char *text = json_text(object, false);
    ASSERT_TEXT(text, "{\"b\":\"say \\\"hi\\\"\\n\",\"a\":0.1,\"big\":9223372036854775807,"
                      "\"yes\":true,\"list\":[1,\"two\",{}]}\n");
    memory_free(text);
    json_release(object);
}

TEST(json, writes_null_for_what_json_cannot_say)
{
    struct json *object = json_object_create();
    json_set_number(object, "nan", NAN);
    json_set_number(object, "inf", -INFINITY);
    json_set_text(object, "none", NULL);
    json_set_text(object, "latin", "caf\xe9");
    char *text = json_text(object, false);
    ASSERT_TEXT(text, "{\"nan\":null,\"inf\":null,\"none\":null,\"latin\":\"caf?\"}\n");
    memory_free(text);
    json_release(object);
}

TEST(json, reads_back_every_float_as_it_was)
{
    float values[] = {0.1f, 1e-38f, 3.14159274f, 16777217.0f, 1.17549435e-38f};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct json *object = json_object_create();
        json_set_number(object, "x", values[i]);
        char *text = json_text(object, true);
        struct json *back = parse(text);
        ASSERT_NUMBER((float)json_get_number(back, "x", 0), ==, values[i]);
        memory_free(text);
        json_release(back);
        json_release(object);
    }
}

TEST(json, gives_the_default_for_missing_or_other_types)
{
    struct json *json = parse("{\"t\":\"x\",\"n\":1.5,\"i\":7,\"l\":[4,5]}");
    ASSERT_TEXT(json_get_text(json, "t", "no"), "x");
    ASSERT_TEXT(json_get_text(json, "n", "no"), "no");
    ASSERT_TEXT(json_get_text(json, "absent", NULL), NULL);
    ASSERT_NUMBER(json_get_number(json, "i", 0), ==, 7);
    ASSERT_INT(json_get_integer(json, "n", -1), ==, -1);
    ASSERT_INT(json_get_integer(json, "i", -1), ==, 7);
    ASSERT_INT(json_count(json), ==, 4);
    const struct json *list = json_get(json, "l");
    ASSERT_INT(json_count(list), ==, 2);
    ASSERT_INT(json_as_integer(json_at(list, 1), 0), ==, 5);
    ASSERT_TRUE(json_at(list, 2) == NULL && json_at(list, -1) == NULL);
    ASSERT_INT(json_count(NULL), ==, 0);
    json_release(json);
}

TEST(json, walks_members_in_the_order_written)
{
    struct json *json = parse("{\"z\":1,\"a\":2,\"m\":3}");
    void *state = NULL;
    const char *key;
    char keys[8] = "";
    int at = 0;
    for (const struct json *v; (v = json_next(json, &state, &key)); at++) {
        keys[at] = key[0];
        ASSERT_INT(json_as_integer(v, 0), ==, at + 1);
    }
    ASSERT_TEXT(keys, "zam");
    json_release(json);
}

TEST(json, refuses_what_is_not_one_value)
{
    const char *bad[] = {"", "{\"a\":1,\"a\":2}", "{} {}", "[1,", "{\"a\":\"\\ud800\"}", "nan"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct json *json = NULL;
        struct error err;
        ASSERT_FAILS(json_parse(bad[i], strlen(bad[i]), &json, &err), err, ERROR_FORMAT,
                     "line 1, column ");
        ASSERT_TRUE(json == NULL);
    }
    char deep[10001];
    memset(deep, '[', 10000);
    struct json *json = NULL;
    struct error err;
    ASSERT_FAILS(json_parse(deep, 10000, &json, &err), err, ERROR_FORMAT, "depth");
}
