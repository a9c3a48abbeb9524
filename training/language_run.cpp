#include "training/language_run.h"

#include <algorithm>
#include <cmath>

#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "base/seconds.h"
#include "formats/adapters/peft.h"
#include "graph/packed/crumb_graph.h"
#include "models/encoder_inputs.h"
#include "models/gemma_gains.h"
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

/// Null where nothing was measured.
Json measured(double value) { return std::isnan(value) ? Json() : json_number(value); }

/// PEFT has floats alone; those of int8 need all of float32.
DType peft_type(graph::AdapterType type) {
  if (type == graph::AdapterType::kFloat16) return DType::kF16;
  return type == graph::AdapterType::kBfloat16 ? DType::kBF16 : DType::kF32;
}

void add_recovery(Json& report, const tasks::LanguageRequest& request,
                  const tasks::LanguageOutcome& outcome) {
  const tasks::Recovery& recovery = *request.recovery;
  if (tasks::begins_elsewhere(recovery.start)) report["start"] = measured(outcome.middle_measure);
  std::size_t weights = 0, least = 0, most = 0;
  const Adapter adapter = graph::adapter_of(outcome.quantized, recovery.options.name);
  for (const LowRankUpdate& update : adapter.updates) {
    weights += update.down.size() + update.up.size();
    least = least == 0 ? update.rank : std::min(least, update.rank);
    most = std::max(most, update.rank);
  }
  report["adapter"] = {{"name", recovery.options.name},
                       {"rank", recovery.options.rank},
                       {"scale", adapter.updates.empty() ? 0 : adapter.updates[0].scale},
                       {"layers", adapter.updates.size()},
                       {"weights", weights},
                       {"type", graph::name_of(recovery.type)},
                       {"init", name_of(recovery.start)}};
  if (recovery.ranks != tasks::AdapterRanks::kEven) report["adapter"]["ranks"] = Json::array({least, most});
}

Json report_json(const tasks::LanguageRequest& request, const tasks::LanguageOutcome& outcome) {
  Json report;
  const bool is_encoder = !request.samples.lines.empty();
  report["task"] = request.recovery ? "recover" : is_encoder ? "embed" : "lm";
  report["float"] = measured(outcome.float_measure);
  report["rounded"] = measured(outcome.first_measure);
  if (!outcome.layers.empty()) report["block_wise"] = measured(outcome.middle_measure);
  if (request.recovery) add_recovery(report, request, outcome);
  report["quantized"] = measured(outcome.measure);
  report["metric"] = is_encoder ? "cosine" : "perplexity";
  report["loss"] = name_of(request.supervision.loss);
  if (!outcome.layers.empty()) {
    report["layers"] = Json::array();
    for (const tasks::LayerLine& line : outcome.layers)
      report["layers"].push_back(
          {{"layer", line.layer}, {"error_before", line.error_before}, {"error", line.error}});
  }
  report["steps"] = request.steps.count;
  report["trained_tokens"] = outcome.trained_tokens;
  if (!is_encoder) report["length"] = request.samples.length;
  report["batch"] = request.steps.batch;
  report["rate"] = request.optimizer.rate;
  if (request.optimizer.schedule != tasks::RateSchedule::kCosine)
    report["schedule"] = name_of(request.optimizer.schedule);
  if (request.optimizer.scale_rate > 0) report["scale_rate"] = request.optimizer.scale_rate;
  if (request.steps.scales_alone) report["scales_alone"] = true;
  if (request.steps.learn_adapters) report["learn_adapters"] = true;
  if (request.optimizer.average > 0) report["average"] = request.optimizer.average;
  report["products"] = name_of(request.compute.products);
  if (request.optimizer.states != tasks::OptimizerStates::kFloat32)
    report["optimizer_states"] = name_of(request.optimizer.states);
  report["seed"] = request.steps.seed;
  if (!request.start.by.empty()) report["stages"] = request.start.by;
  if (!request.recovery) report["recipe"] = to_yaml(request.recipe);
  return report;
}

}  // namespace

Json train_language_into(const LanguageRun& run, tasks::LanguageTrainer& trainer) {
  const double start = now_seconds();
  const RunFolder folder(run.folder, run.restart, run.writes);
  std::int64_t steps = 0;
  double last = start;
  tasks::LanguageHooks hooks{.news = run.news, .wants_state = {}, .state = folder.state()};
  hooks.wants_state = [&] {
    ++steps;
    const bool is_due =
        run.keep_every > 0 ? steps % run.keep_every == 0 : now_seconds() - last >= kKeepSeconds;
    if (is_due) last = now_seconds();
    return is_due;
  };
  const tasks::LanguageOutcome outcome = trainer.train(run.request, hooks);

  if (!outcome.is_first) return nullptr;
  folder.drop_report();
  write_text_file(run.folder / "log.jsonl", log_text(outcome.log));
  const fs::path packed = run.folder / "model.crumb";
  graph::write_crumb_graph(models::with_weights_of_gains(outcome.quantized), packed,
                           {.zstd_level = run.request.recipe.zstd,
                            .layout = run.request.recipe.layout,
                            .reads_back = true,
                            .as_checkpoint = true,
                            .files = run.files});
  if (run.request.recovery)
    write_peft(graph::adapter_of(outcome.quantized, run.request.recovery->options.name),
               run.folder / "adapter",
               {.dtype = peft_type(run.request.recovery->type),
                .task_type = peft_task_of(models::is_encoder(outcome.quantized))});
  Json report = report_json(run.request, outcome);
  report["bytes"] = fs::file_size(packed);
  report["seconds"] = now_seconds() - start;
  write_text_file(folder.report(), report.dump(2) + "\n");
  folder.drop_state();
  return report;
}

}  // namespace crumb::training
