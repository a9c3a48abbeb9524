// What crumb quantize tells of tensors and of networks alike: sizes, and what became of each weight. JSON has
// these keys for both, and for networks what quantize_graph_report.h adds (docs/command_line.md).
#pragma once

#include <cstdint>
#include <string>

#include "cli/output.h"
#include "jobs/quantize.h"

namespace crumb::cli {

/// Of the JSON that quantize prints; rises when a key goes or means something else.
inline constexpr int kQuantizeSchema = 1;

/// The object, without tensors.
Json totals_json(const jobs::QuantizeReport& report);

/// A row of `tensors`. Errors are null unless they are measured.
Json tensor_json(const TensorReport& tensor, bool is_measured);

/// "22.71 MB from 90.87 MB (4.00 times smaller)"; without what is in parentheses where there is nothing.
std::string size_text(std::uint64_t before, std::uint64_t after);

}  // namespace crumb::cli
