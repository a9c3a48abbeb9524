// Where training begins that is behind stages of crumb quantize: stages: [gptq, end_to_end].
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

/// Tokens of the text, from its beginning, that such stages see at most.
inline constexpr std::size_t kStartTokens = 32768;

/// The request's network after these stages, its weights in codes of the recipe; nothing else of it is quantized. Samples are the
/// text or lines to train by, on the runtime. `reports` gets what the stages say.
graph::Graph start_by_stages(const std::vector<Stage>& stages, const tasks::LanguageRequest& request,
                             std::vector<ptq::StageReport>& reports);

/// The file in a run's folder that keeps the start for a run that goes on.
std::filesystem::path start_in(const std::filesystem::path& folder);

}  // namespace crumb::cli
