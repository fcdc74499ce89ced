/* TF Serving's configuration files: what is understood, and what is said of what is not. */
#include "serve/config.h"

#include "base/arena.h"
#include "support/test.h"

static struct arena *arena;

static int read_models(const char *text, struct model_list *out, struct error *err)
{
    arena_destroy(arena);
    arena = arena_create();
    return config_read_models("models.config", text, strlen(text), arena, out, err);
}

static void refuses(const char *text, const char *why)
{
    struct model_list models;
    struct error err;
    ASSERT_FAILS(read_models(text, &models, &err), err, ERROR_FORMAT, why);
}

TEST(config, reads_models_as_the_guide_writes_them)
{
    struct model_list models;
    struct error err = {0};
    ASSERT_OK(read_models("model_config_list {\n"
                          "  config {\n"
                          "    name: 'my_first_model'   # a comment\n"
                          "    base_path: '/tmp/my_first_model/'\n"
                          "    model_platform: 'tensorflow'\n"
                          "  }\n"
                          "  config: {\n"
                          "    name: \"my_\" \"second_model\", base_path: '/tmp/b\\x20c';\n"
                          "    model_version_policy { latest { num_versions: 3 } }\n"
                          "  }\n"
                          "}\n",
                          &models, &err),
              err);
    ASSERT_INT(models.count, ==, 2);
    ASSERT_TEXT(models.models[0].name, "my_first_model");
    ASSERT_TEXT(models.models[0].base_path, "/tmp/my_first_model/");
    ASSERT_INT(models.models[0].policy, ==, POLICY_LATEST);
    ASSERT_INT(models.models[0].latest, ==, 1);
    ASSERT_TEXT(models.models[1].name, "my_second_model");
    ASSERT_TEXT(models.models[1].base_path, "/tmp/b c");
    ASSERT_INT(models.models[1].latest, ==, 3);
}

TEST(config, reads_chosen_versions_and_labels)
{
    struct model_list models;
    struct error err = {0};
    ASSERT_OK(
        read_models("model_config_list < config < name: 'm' base_path: 'd'\n"
                    "model_version_policy { specific { versions: 42 versions: [43, 0x2c] } }\n"
                    "version_labels { key: 'stable' value: 42 }\n"
                    "version_labels { key: 'canary' value: 43 } > >",
                    &models, &err),
        err);
    const struct model_config *model = &models.models[0];
    ASSERT_INT(model->policy, ==, POLICY_SPECIFIC);
    ASSERT_INT(model->version_count, ==, 3);
    ASSERT_INT(model->versions[2], ==, 44);
    ASSERT_INT(model->label_count, ==, 2);
    ASSERT_TEXT(model->labels[1].name, "canary");
    ASSERT_INT(model->labels[1].version, ==, 43);
}

TEST(config, reads_policy_all_and_an_empty_list)
{
    struct model_list models;
    struct error err = {0};
    ASSERT_OK(read_models("model_config_list { config { name: 'm' base_path: 'd' "
                          "model_version_policy: {all: {}} } }",
                          &models, &err),
              err);
    ASSERT_INT(models.models[0].policy, ==, POLICY_ALL);
    ASSERT_OK(read_models("", &models, &err), err);
    ASSERT_INT(models.count, ==, 0);
}

TEST(config, says_where_and_what_is_wrong)
{
    refuses("model_config_list {\n  config {\n    nam: 'x'\n", "models.config:4:1: the text ends");
    refuses("model_config_list {\n  config {\n    nam: 'x'\n}}",
            "models.config:3:5: nam: there is no such field here");
    refuses("model_config_list { config { name: 'x } }\n}", "is a quote missing?");
    refuses("model_config_list { config { name: 5 base_path: 'd' } }",
            "name: a text in quotes is wanted");
    refuses("model_config_list { config { name: 'x' } }", "model 'x' has no base_path");
    refuses("model_config_list { config { base_path: 'x' } }", "a model without a name");
    refuses("model_config_list { config { name: 'a/b' base_path: 'x' } }", "with / or :");
    refuses("model_config_list { config { name: 'a' base_path: 'x' } "
            "config { name: 'a' base_path: 'y' } }",
            "'a' stands there twice");
    refuses("model_config_list { config { name: 'a' base_path: 'x' model_platform: 'torch' } }",
            "only 'tensorflow'");
    refuses("model_config_list { config { name: 'a' base_path: 'x' "
            "model_version_policy { specific { versions: -1 } } } }",
            "not negative");
    refuses("model_config_list { config { name: 'a' base_path: 'x' "
            "model_version_policy { specific { } } } }",
            "at least one");
    refuses("model_config_list { config { name: 'a' base_path: 'x' "
            "model_version_policy { latest {} all {} } } }",
            "only one policy");
    refuses("model_config_list { config { name: 'a' base_path: 'x' logging_config {} } }",
            "--access-log");
    refuses("model_config_list { config { name: 'a' base_path: 's3://bucket/a' } }",
            "model 'a': s3://bucket/a: models are served from a file system; mount the store");
    refuses("custom_model_config {}", "only model_config_list");
    refuses("model_config_list { config { name: 'a' base_path: 'x' "
            "version_labels { key: 'l' value: 99999999999999999999 } } }",
            "too large");
}

TEST(config, refuses_what_is_nested_without_end)
{
    char text[4096];
    size_t used = 0;
    for (int i = 0; i < 200; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "a { ");
    struct model_list models;
    struct error err;
    ASSERT_FAILS(read_models(text, &models, &err), err, ERROR_FORMAT, "nested too deep");
}

TEST(config, reads_batching_parameters)
{
    static const char text[] = "max_batch_size { value: 128 }\n"
                               "batch_timeout_micros { value: 0 }\n"
                               "max_enqueued_batches { value: 1000000 }\n"
                               "num_batch_threads { value: 8 }\n";
    struct batching_config batching;
    struct error err = {0};
    ASSERT_OK(config_read_batching("b", text, strlen(text), &batching, &err), err);
    ASSERT_INT(batching.max_batch_size, ==, 128);
    ASSERT_TRUE(batching.timeout_given);
    ASSERT_INT(batching.max_enqueued_batches, ==, 1000000);
    ASSERT_INT(batching.num_batch_threads, ==, 8);
}

TEST(config, refuses_batching_parameters_that_it_cannot_honour)
{
    struct batching_config batching;
    struct error err;
    static const char *const texts[][2] = {
        {"allowed_batch_sizes: 3", "plans are made for 1, 2, 4"},
        {"pad_variable_length_inputs: true", "has no meaning here"},
        {"max_batch_size { value: 0 }", "is not in 1 to"},
        {"max_batch_size { size: 1 }", "{ value: N } is wanted"},
        {"max_batch_sizes { value: 1 }", "there is no such field"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ASSERT_FAILS(config_read_batching("b", texts[i][0], strlen(texts[i][0]), &batching, &err),
                     err, ERROR_FORMAT, texts[i][1]);
}

TEST(config, reads_tls_and_monitoring)
{
    static const char tls[] = "server_key: 'K\\nL' server_cert: 'C' custom_ca: 'A' "
                              "client_verify: true";
    static const char monitoring[] = "prometheus_config { enable: true, path: \"/metrics\" }";
    struct ssl_config ssl;
    struct monitoring_config metrics;
    struct error err = {0};
    arena_destroy(arena);
    arena = arena_create();
    ASSERT_OK(config_read_ssl("s", tls, strlen(tls), arena, &ssl, &err), err);
    ASSERT_TEXT(ssl.server_key, "K\nL");
    ASSERT_TRUE(ssl.client_verify);
    ASSERT_OK(config_read_monitoring("m", monitoring, strlen(monitoring), arena, &metrics, &err),
              err);
    ASSERT_TRUE(metrics.enable);
    ASSERT_TEXT(metrics.path, "/metrics");
    ASSERT_FAILS(config_read_ssl("s", "server_key: 'x'", 15, arena, &ssl, &err), err, ERROR_FORMAT,
                 "server_cert");
    ASSERT_FAILS(config_read_ssl("s", "server_key:'x' server_cert:'y' client_verify:true", 50,
                                 arena, &ssl, &err),
                 err, ERROR_FORMAT, "");
}
