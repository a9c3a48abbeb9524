#include "cli/train/training_start.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "cli/output.h"
#include "graph/quantize/apply.h"
#include "jobs/squared_gradients.h"
#include "models/decoder_inputs.h"
#include "models/encoder_inputs.h"
#include "runtime/engine.h"

namespace crumb::cli {
namespace {

/// Stages know the specs of values between layers, as those of crumb quantize do. The quantizers of these
/// values, and of caches, are made in training.
graph::QuantPlan plan_of(const graph::Graph& graph, Recipe recipe) {
  recipe.kv_cache.reset();
  return graph::plan_quantizers(graph, recipe);
}

void keep_weights_alone(graph::QuantPlan& plan) {
  plan.edges.clear();
  plan.biases.clear();
}

graph::Batches text_samples(const tasks::LanguageRequest& request, const graph::Graph& graph) {
  return [&request, &graph](const auto& batch) {
    const std::vector<std::int64_t>& tokens = request.samples.text.tokens;
    const std::size_t all = std::min(tokens.size(), kStartTokens);
    const std::size_t step =
        static_cast<std::size_t>(request.samples.length) - (request.samples.first ? 1 : 0);
    for (std::size_t begin = 0; begin < all; begin += step) {
      check_interrupt();
      const std::size_t end = std::min(all, begin + step);
      std::vector<std::int64_t> ids(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(end));
      if (request.samples.first) ids.insert(ids.begin(), *request.samples.first);
      batch(models::decoder_inputs(graph, ids, 1));
    }
  };
}

graph::Batches line_samples(const tasks::LanguageRequest& request, const graph::Graph& graph) {
  return [&request, &graph](const auto& batch) {
    std::size_t tokens = 0;
    for (const std::vector<std::int64_t>& line : request.samples.lines) {
      if (tokens >= kStartTokens) return;
      check_interrupt();
      tokens += line.size();
      batch(models::encoder_inputs(graph, {line}, request.samples.unpooled));
    }
  };
}

}  // namespace

std::filesystem::path start_in(const std::filesystem::path& folder) { return folder / "start.crumb"; }

graph::Graph start_by_stages(const std::vector<Stage>& stages, const tasks::LanguageRequest& request,
                             std::vector<ptq::StageReport>& reports) {
  const runtime::Engine engine(request.compute.threads);
  ptq::Setting setting{.graph = graph::prepare(request.network, request.recipe, &engine),
                       .plan = {},
                       .threads = request.compute.threads,
                       .engine = &engine};
  setting.plan = plan_of(setting.graph, request.recipe);
  const graph::Graph prepared = setting.graph;  // samples are its inputs
  setting.samples =
      request.samples.lines.empty() ? text_samples(request, prepared) : line_samples(request, prepared);
  setting.squared_gradients = jobs::squared_gradients_by(
      request.samples.lines.empty() ? graph::SampleLoss::kNextTokens : graph::SampleLoss::kSigns, "");
  std::optional<Progress> progress;
  setting.progress = [&](std::size_t done, std::size_t all) {
    if (!progress) progress.emplace("rounding", "layers", all, 0);
    progress->update(done, 0);
  };
  reports = ptq::run_stages(stages, setting);
  keep_weights_alone(setting.plan);
  return graph::apply(setting.graph, setting.plan, {.threads = request.compute.threads});
}

}  // namespace crumb::cli
