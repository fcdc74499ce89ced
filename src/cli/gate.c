#include "cli/gate.h"

#include <math.h>

#include "base/json.h"
#include "cli/report.h"

struct gate gate_from(const struct options *options, double target)
{
    return (struct gate){.set = options_source(options, "target-accuracy") > OPTION_FROM_NOTHING,
                         .target = target};
}

enum gate_verdict gate_judge(const struct gate *gate, const struct report *report)
{
    double accuracy = report->evaluation.accuracy;
    if (!gate->set)
        return GATE_NONE;
    if (!report->evaluated || isnan(accuracy))
        return GATE_UNKNOWN;
    return accuracy >= gate->target ? GATE_MET : GATE_MISSED;
}

bool gate_passes(enum gate_verdict verdict)
{
    return verdict == GATE_NONE || verdict == GATE_MET;
}

void gate_print(const struct gate *gate, const struct report *report, FILE *out)
{
    enum gate_verdict verdict = gate_judge(gate, report);
    if (verdict == GATE_NONE)
        return;
    fprintf(out, "Target Accuracy: %g\n", gate->target);
    if (verdict == GATE_UNKNOWN)
        fprintf(out, "Unable to find accuracy metric in the log file\n");
    else /* more digits than elsewhere: 0.98796 must not read as a 0.9880 that misses 0.988 */
        fprintf(out, "Accuracy of %.6g %s the target accuracy of %g\n", report->evaluation.accuracy,
                verdict == GATE_MET ? "met" : "did not meet", gate->target);
}

void gate_describe(const struct gate *gate, const struct report *report, struct json *out)
{
    json_set_number(out, "target_accuracy", gate->set ? gate->target : NAN);
    if (gate->set)
        json_set_bool(out, "target_met", gate_judge(gate, report) == GATE_MET);
}
