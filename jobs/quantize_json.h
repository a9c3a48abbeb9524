// A report as JSON: what crumb quantize --json prints (docs/command_line.md).
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "jobs/quantize.h"

namespace crumb::jobs {

/// Rises when a key goes or means something else.
inline constexpr int kQuantizeSchema = 1;

/// Of tensors and of networks the same keys; lists that only networks have are empty of tensors.
nlohmann::ordered_json json_of(const QuantizeReport& report);

/// [{"name", "what"}, ...].
nlohmann::ordered_json json_of(const std::vector<SkippedEntry>& skipped);

}  // namespace crumb::jobs
