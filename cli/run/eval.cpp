// crumb eval: how much worse a model is than its float baseline, on a task's own metrics.
#include <memory>

#include "cli/flags/flag_group.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/report_flag.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/torchscript_flags.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/run/eval_report.h"
#include "jobs/evaluate.h"
#include "jobs/evaluate_json.h"

namespace crumb::cli {
namespace {

constexpr const char* kTaskFlags = "Of some tasks";
constexpr int kFailedCondition = 3, kInterruptedCode = 130;

struct EvalFlags {
  jobs::EvaluateRequest request;
  std::vector<std::string> fail_if;
  EvalReportOptions report;
  bool json = false;
};

void eval_verb(EvalFlags flags) {
  for (const std::string& text : flags.fail_if)
    flags.request.fail_if.push_back(jobs::parse_evaluate_condition(text, "--fail-if"));
  const jobs::EvaluateReport report = jobs::evaluate(flags.request, terminal());
  if (flags.json)
    print_json(jobs::json_of(report));
  else
    print(report, flags.report);
  if (report.interrupted) throw CLI::RuntimeError(kInterruptedCode);
  if (report.fails()) throw CLI::RuntimeError(kFailedCondition);
}

/// A line for each task, for the end of the help.
std::string task_lines() {
  std::string lines = "Tasks, their labels and metrics:\n";
  for (const jobs::TaskName& task : jobs::evaluate_tasks()) {
    constexpr std::size_t kWidth = 10;
    const std::string name(task.name);
    lines += "  " + name + std::string(kWidth - name.size(), ' ') + std::string(task.what) + "\n";
  }
  return lines + "\n";
}

}  // namespace

void add_eval(CLI::App& app) {
  auto flags = std::make_shared<EvalFlags>();
  jobs::EvaluateRequest& request = flags->request;
  CLI::App* verb =
      app.add_subcommand("eval", "Measure on a data set what a model lost against its float baseline");
  verb->add_option("model", request.models,
                   "A graph (.onnx, .crumb), a Hugging Face folder or a TorchScript archive; several are "
                   "measured side by side")
      ->type_name("MODEL")
      ->required();
  verb->add_option("--baseline", request.baseline, "The model that these are compared with: the float one")
      ->type_name("MODEL")
      ->group(kInputFlags)
      ->required();
  add_several(
      *verb, "--data", request.data,
      "Samples: X.npy (first axis: samples), NAME=X.npy for each input, or a folder of them; a text of a "
      "language model; lines of a sentence encoder, of one sentence or two with a tabulator between",
      "DATA")
      ->group(kInputFlags)
      ->required();
  verb->add_option(
          "--labels", request.labels,
          "What the samples should give: Y.npy (first axis: samples) or a folder of them, or a text with "
          "one on each line")
      ->type_name("FILE")
      ->group(kInputFlags);
  std::vector<std::string> tasks;
  for (const jobs::TaskName& task : jobs::evaluate_tasks()) tasks.emplace_back(task.name);
  verb->add_option("--task", request.task, "What the labels are (guessed by labels, outputs and data)")
      ->group(kInputFlags)
      ->check(CLI::IsMember(tasks));
  verb->add_option("--output", request.labelled_output, "The output that labels are of (the first)")
      ->type_name("NAME")
      ->group(kInputFlags);
  verb->add_option("--peak", request.peak,
                   "Of image: the range of the numbers (255 for labels in bytes, else 1)")
      ->type_name("NUMBER")
      ->group(kTaskFlags)
      ->check(above_zero());
  verb->add_option(
          "--threshold", request.threshold,
          "Of classify and segment with one float a sample or pixel: above it, it is of class 1 (0.5)")
      ->type_name("NUMBER")
      ->group(kTaskFlags);
  verb->add_option(
          "--alphabet", request.alphabet,
          "Of ctc: the symbols of the classes, one a line, without the blank; a class more is a space")
      ->type_name("FILE")
      ->group(kTaskFlags);
  verb->add_option("--blank", request.blank, "Of ctc: the class of the blank (0)")
      ->type_name("COUNT")
      ->group(kTaskFlags)
      ->check(at_least(0));
  verb->add_option("--context", request.context, "Of lm: tokens of a window (1024)")
      ->type_name("TOKENS")
      ->group(kTaskFlags)
      ->check(at_least(1));
  verb->add_option("--tokens", request.tokens, "Of lm: tokens of the text, from its beginning (all)")
      ->type_name("TOKENS")
      ->group(kTaskFlags)
      ->check(at_least(1));
  add_model_flags(*verb, request.model_options);
  add_several(*verb, "--batch-axis", request.batch_axes, kBatchAxisHelp, "NAME=AXIS")->group(kInputFlags);
  add_several(*verb, "--set-argument", request.arguments, kArgumentHelp, "NAME=VALUE")->group(kInputFlags);
  add_several(*verb, "--fail-if", flags->fail_if,
              "'top1_drop > 0.5': exit code 3 where it is so for one of the models. NAME_drop is how much "
              "worse a metric is than the baseline's, NAME the model's own figure, in the units of --json; "
              "> >= < <=; once for each",
              "CONDITION")
      ->group(kOutputFlags);
  verb->add_option("--worst", request.worst, "How many of the worst samples are named (10)")
      ->type_name("COUNT")
      ->group(kOutputFlags)
      ->check(at_least(0));
  verb->add_flag("--per-class", flags->report.per_class,
                 "Print a line for each class, and the confusion matrix")
      ->group(kOutputFlags);
  verb->add_flag(
          "--layers", request.layers,
          "Measure what each quantized layer costs, alone and with all before it, and which to put back")
      ->group(kOutputFlags);
  verb->add_option("--layer-samples", request.layer_samples,
                   "Samples that layers are measured on, the first ones (64; of lm 2 windows of 512 tokens)")
      ->type_name("COUNT")
      ->group(kOutputFlags)
      ->check(at_least(1));
  add_report_flag(*verb, request.report);
  verb->add_flag("--json", flags->json, "Print as JSON")->group(kOutputFlags);
  verb->add_option("--engine", request.engine,
                   "runtime: Crumb's own kernels, the same bits on every machine; libtorch; or auto: "
                   "the runtime where it has every operator (auto)")
      ->group(kRunningFlags)
      ->check(CLI::IsMember({"auto", "runtime", "libtorch"}));
  verb->add_option("--device", request.device,
                   "Where networks run: cpu, or on LibTorch's engine cuda or cuda:1 (cpu)")
      ->group(kRunningFlags)
      ->type_name("DEVICE");
  add_threads_flag(*verb, request.threads, "Threads, which never change the result (those the machine has)");
  verb->footer(
      task_lines() +
      "Intervals are at 95 %, by bootstrap over samples; p says how likely so large a difference is between "
      "models\nthat do not differ. After Ctrl-C it prints what was measured until then.\n\nExamples:\n"
      "  crumb eval net4.crumb --baseline net.onnx --data x.npy --labels y.npy\n"
      "  crumb eval net_qcdq.onnx --baseline net.onnx --data x.npy --labels y.npy --fail-if 'top1_drop > "
      "0.5'\n"
      "  crumb eval net4.crumb net8.crumb --baseline net.onnx --data x.npy --labels y.npy --report out.html");
  verb->callback([flags] { eval_verb(*flags); });
}

}  // namespace crumb::cli
