#include "support/test.h"

#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/yaml.h"

static struct json *read_back(const char *text, enum yaml_reading reading)
{
    struct error err = {0};
    struct json *json = NULL;
    ASSERT_OK(yaml_read(text, strlen(text), reading, &json, &err), err);
    return json;
}

TEST(yaml, texts_that_look_like_something_else_stay_texts)
{
    static const char *const texts[] = {"on",
                                        "off",
                                        "yes",
                                        "No",
                                        "y",
                                        "n",
                                        "true",
                                        "False",
                                        "null",
                                        "~",
                                        "",
                                        "1.10",
                                        "1e3",
                                        "0x1F",
                                        "017",
                                        "1_000",
                                        "12:30:45",
                                        "2026-11-16",
                                        "+1",
                                        "-1",
                                        ".5",
                                        ".inf",
                                        ".nan",
                                        "=",
                                        "<<",
                                        "-",
                                        "?",
                                        ":",
                                        "a: b",
                                        "a #b",
                                        "#a",
                                        "- a",
                                        "{a}",
                                        "[a]",
                                        "&a",
                                        "*a",
                                        "!a",
                                        "|",
                                        ">",
                                        "%a",
                                        "@a",
                                        "`a`",
                                        "\"",
                                        "'",
                                        "it's",
                                        " a",
                                        "a ",
                                        "tab\there",
                                        "a:",
                                        "\\",
                                        "ümläut",
                                        "日本",
                                        "a\nb",
                                        "a\nb\n",
                                        "\n",
                                        " a\nb",
                                        "a \nb",
                                        "trailing\n\n",
                                        "{{workflow.parameters.X}}",
                                        "$(VAR)",
                                        "key: {a: 1}",
                                        "5000",
                                        "64Mi",
                                        "0.74",
                                        "1.2.3",
                                        "---",
                                        "...",
                                        "a\x7f"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct strbuf out;
        struct yaml_writer *yaml;
        struct error err = {0};
        strbuf_init(&out);
        ASSERT_OK(yaml_writer_open(&out, &yaml, &err), err);
        yaml_document_open(yaml, NULL);
        yaml_text(yaml, "value", texts[i], NULL);
        yaml_open_list(yaml, "list");
        yaml_text(yaml, NULL, texts[i], NULL);
        yaml_close_list(yaml);
        yaml_text(yaml, "behind", "end", NULL);
        yaml_document_close(yaml);
        ASSERT_OK(yaml_writer_close(yaml, &err), err);
        struct json *json = read_back(out.text, YAML_TYPES);
        ASSERT_TEXT(json_get_text(json_at(json, 0), "value", NULL), texts[i]);
        ASSERT_TEXT(json_as_text(json_at(json_get(json_at(json, 0), "list"), 0), NULL), texts[i]);
        ASSERT_TEXT(json_get_text(json_at(json, 0), "behind", NULL), "end");
        json_release(json);
        strbuf_release(&out);
    }
}

TEST(yaml, comments_stand_behind_values_and_in_front_of_documents)
{
    struct strbuf out;
    struct yaml_writer *yaml;
    struct error err = {0};
    strbuf_init(&out);
    ASSERT_OK(yaml_writer_open(&out, &yaml, &err), err);
    yaml_document_open(yaml, "first\nsecond");
    yaml_text(yaml, "name", "x", "{\"$openapi\":\"NAME\"}");
    yaml_integer(yaml, "count", 3, "COUNT");
    yaml_open_map(yaml, "empty");
    yaml_close_map(yaml);
    yaml_bool(yaml, "flag", true, NULL);
    yaml_document_close(yaml);
    yaml_document_open(yaml, NULL);
    yaml_text(yaml, "text", "a\nb\n", NULL);
    yaml_document_close(yaml);
    ASSERT_OK(yaml_writer_close(yaml, &err), err);
    ASSERT_TEXT(out.text, "# first\n# second\nname: x # {\"$openapi\":\"NAME\"}\ncount: 3 # COUNT\n"
                          "empty: {}\nflag: true\n---\ntext: |\n  a\n  b\n");
    strbuf_release(&out);
}

TEST(yaml, a_text_that_is_not_utf8_is_a_failure)
{
    struct strbuf out;
    struct yaml_writer *yaml;
    struct error err = {0};
    strbuf_init(&out);
    ASSERT_OK(yaml_writer_open(&out, &yaml, &err), err);
    yaml_document_open(yaml, NULL);
    yaml_text(yaml, "name", "caf\xe9", NULL);
    yaml_document_close(yaml);
    ASSERT_FAILS(yaml_writer_close(yaml, &err), err, ERROR_FORMAT, "UTF-8");
    strbuf_release(&out);
}

TEST(yaml, plain_values_are_read_as_texts_or_with_their_types)
{
    static const char text[] = "a: 1.10\nb: on\nc: 7\nd: [x, 2]\ne:\n";
    struct json *typed = read_back(text, YAML_TYPES), *plain = read_back(text, YAML_TEXTS);
    const struct json *a = json_at(typed, 0), *b = json_at(plain, 0);
    ASSERT_NUMBER(json_get_number(a, "a", 0), ==, 1.1);
    ASSERT_TRUE(json_get_bool(a, "b", false));
    ASSERT_INT(json_get_integer(a, "c", 0), ==, 7);
    ASSERT_INT(json_as_integer(json_at(json_get(a, "d"), 1), 0), ==, 2);
    ASSERT_INT(json_type_of(json_get(a, "e")), ==, JSON_IS_NULL);
    ASSERT_TEXT(json_get_text(b, "a", NULL), "1.10");
    ASSERT_TEXT(json_get_text(b, "b", NULL), "on");
    ASSERT_TEXT(json_get_text(b, "e", NULL), "");
    json_release(typed);
    json_release(plain);
}

TEST(yaml, several_documents_are_one_array)
{
    struct json *json = read_back("a: 1\n---\nb: 2\n---\n- 3\n", YAML_TYPES);
    ASSERT_INT(json_count(json), ==, 3);
    ASSERT_INT(json_get_integer(json_at(json, 1), "b", 0), ==, 2);
    json_release(json);
}

TEST(yaml, what_could_be_misread_is_refused_with_its_line)
{
    static const struct {
        const char *text, *part;
    } cases[] = {{"a: 1\na: 2\n", "line 2: a key is there twice"},
                 {"a: &x 1\nb: *x\n", "line 2: aliases"},
                 {"a: [1\n", "line"},
                 {"just text\n", "line 1: a document must be"},
                 {"? [a]\n: b\n", "line 1: a key must be a text"},
                 {"a: \"\\0\"\n", "line 1: a text has a zero byte"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json *json = NULL;
        struct error err = {0};
        ASSERT_FAILS(yaml_read(cases[i].text, strlen(cases[i].text), YAML_TYPES, &json, &err), err,
                     ERROR_FORMAT, cases[i].part);
    }
}

TEST(yaml, deep_nesting_is_refused)
{
    char text[400];
    struct json *json = NULL;
    struct error err = {0};
    memset(text, '[', 300);
    text[300] = '\0';
    ASSERT_FAILS(yaml_read(text, 300, YAML_TYPES, &json, &err), err, ERROR_FORMAT, "too deeply");
}
