#include "training/language_run.h"

#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "base/seconds.h"
#include "graph/packed/crumb_graph.h"
#include "training/run_folder.h"

namespace crumb::training {
namespace {

namespace fs = std::filesystem;

constexpr double kKeepSeconds = 600;  // a state holds the network three times

std::string log_text(const std::vector<tasks::LanguageLine>& log) {
  std::string text;
  for (const tasks::LanguageLine& line : log)
    text += Json{{"step", line.step}, {"loss", line.loss}, {"rate", line.rate}}.dump() + "\n";
  return text;
}

Json report_json(const tasks::LanguageRequest& request, const tasks::LanguageOutcome& outcome) {
  Json report;
  report["task"] = "lm";
  report["float"] = json_number(outcome.float_perplexity);
  report["rounded"] = json_number(outcome.first_perplexity);
  if (!outcome.layers.empty()) report["block_wise"] = json_number(outcome.middle_perplexity);
  report["quantized"] = json_number(outcome.perplexity);
  report["metric"] = "perplexity";
  report["teacher"] = request.teacher == tasks::Teacher::kFloat ? "float" : "none";
  if (!outcome.layers.empty()) {
    report["layers"] = Json::array();
    for (const tasks::LayerLine& line : outcome.layers)
      report["layers"].push_back(
          {{"layer", line.layer}, {"error_before", line.error_before}, {"error", line.error}});
  }
  report["steps"] = request.steps;
  report["trained_tokens"] = outcome.trained_tokens;
  report["length"] = request.length;
  report["batch"] = request.batch;
  report["rate"] = request.rate;
  report["products"] = request.products == tasks::Products::kBfloat16 ? "bf16" : "f32";
  report["seed"] = request.seed;
  report["recipe"] = to_yaml(request.recipe);
  return report;
}

}  // namespace

Json train_language_into(const LanguageRun& run, tasks::LanguageTrainer& trainer) {
  const double start = now_seconds();
  const RunFolder folder(run.folder, run.restart);
  std::int64_t steps = 0;
  double last = start;
  tasks::LanguageHooks hooks{
      .progress = run.progress, .layer_done = run.layer_done, .wants_state = {}, .state = folder.state()};
  hooks.wants_state = [&] {
    ++steps;
    const bool is_due =
        run.keep_every > 0 ? steps % run.keep_every == 0 : now_seconds() - last >= kKeepSeconds;
    if (is_due) last = now_seconds();
    return is_due;
  };
  const tasks::LanguageOutcome outcome = trainer.train(run.request, hooks);

  folder.drop_report();
  write_text_file(run.folder / "log.jsonl", log_text(outcome.log));
  const fs::path packed = run.folder / "model.crumb";
  graph::write_crumb_graph(outcome.quantized, packed,
                           {.zstd_level = run.request.recipe.zstd,
                            .layout = run.request.recipe.layout,
                            .reads_back = true,
                            .files = run.files});
  Json report = report_json(run.request, outcome);
  report["bytes"] = fs::file_size(packed);
  report["seconds"] = now_seconds() - start;
  write_text_file(folder.report(), report.dump(2) + "\n");
  folder.drop_state();
  return report;
}

}  // namespace crumb::training
