// Writes a report as JSON: what crumb quantize --json prints (docs/command_line.md).
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "jobs/quantize.h"

namespace crumb::jobs {

/// Rises when a key is removed or changes its meaning.
inline constexpr int kQuantizeSchema = 1;

/// Reports of tensors and of networks have the same keys; lists that only networks have are empty for
/// tensors.
nlohmann::ordered_json json_of(const QuantizeReport& report);

/// [{"name", "what"}, ...].
nlohmann::ordered_json json_of(const std::vector<SkippedEntry>& skipped);

}  // namespace crumb::jobs
