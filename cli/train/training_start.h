// Where training begins that follows stages of crumb quantize: stages: [gptq, end_to_end].
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ptq/stages.h"
#include "quant/recipe/stages.h"
#include "tasks/language/language_trainer.h"

namespace crumb::cli {

/// How many tokens of the text, from its beginning, such stages see at most.
inline constexpr std::size_t kStartTokens = 32768;

/// Returns the request's network after these stages, its weights in codes of the recipe; nothing else of it
/// is quantized. Samples are the training text or lines; they run on the runtime. `reports` gets the stages'
/// reports.
graph::Graph start_by_stages(const std::vector<Stage>& stages, const tasks::LanguageRequest& request,
                             std::vector<ptq::StageReport>& reports);

/// Returns the file in a run's folder that keeps the start for a run that goes on.
std::filesystem::path start_in(const std::filesystem::path& folder);

}  // namespace crumb::cli
