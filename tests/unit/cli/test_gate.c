/* The lines that scripts around the original programs look for, byte for byte. */
#include "cli/gate.h"

#include <math.h>

#include "cli/report.h"
#include "support/test.h"

static void says(struct gate gate, bool evaluated, double accuracy, enum gate_verdict verdict,
                 const char *expected)
{
    char text[256] = "";
    struct report report = {.evaluated = evaluated, .evaluation.accuracy = accuracy};
    FILE *out = fmemopen(text, sizeof text, "w");
    gate_print(&gate, &report, out);
    fclose(out);
    ASSERT_TEXT(text, expected);
    ASSERT_INT(gate_judge(&gate, &report), ==, verdict);
}

TEST(gate, equal_is_enough)
{
    says((struct gate){.set = true, .target = 0.75}, true, 0.75, GATE_MET,
         "Target Accuracy: 0.75\nAccuracy of 0.75 met the target accuracy of 0.75\n");
}

TEST(gate, prints_the_digits_that_decided)
{
    says((struct gate){.set = true, .target = 0.988}, true, 0.98796, GATE_MISSED,
         "Target Accuracy: 0.988\n"
         "Accuracy of 0.98796 did not meet the target accuracy of 0.988\n");
}

TEST(gate, no_accuracy_is_not_a_low_one)
{
    const char *expected = "Target Accuracy: 0.5\nUnable to find accuracy metric in the log file\n";
    says((struct gate){.set = true, .target = 0.5}, false, 0, GATE_UNKNOWN, expected);
    says((struct gate){.set = true, .target = 0.5}, true, NAN, GATE_UNKNOWN, expected);
    ASSERT_TRUE(!gate_passes(GATE_UNKNOWN));
}

TEST(gate, without_a_target_there_is_none)
{
    says((struct gate){0}, true, 0.1, GATE_NONE, "");
    ASSERT_TRUE(gate_passes(GATE_NONE));
}

static const struct option table[] = {{.type = OPTION_IS_NUMBER,
                                       .name = "target-accuracy",
                                       .environment = "TARGET_ACCURACY",
                                       .max = 1,
                                       .help = "target"},
                                      OPTION_END};

static const char *variable;

static char *look_up(const char *name)
{
    (void)name;
    return (char *)(uintptr_t)variable;
}

TEST(gate, an_empty_variable_counts_as_none)
{
    const char *const values[] = {NULL, "", "0", "0.5"};
    for (int i = 0; i < 4; i++) {
        double target = 0;
        struct options options;
        struct error err = {0};
        variable = values[i];
        ASSERT_OK(options_parse(table, 0, NULL, look_up, &target, &options, &err), err);
        ASSERT_INT(gate_from(&options, target).set, ==, i >= 2);
    }
}
