// What crumb quantize tells of tensors and of networks alike: sizes, and what became of each weight. JSON has
// these keys for both, and for networks what quantize_graph_report.h adds (docs/command_line.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {

/// Of the JSON that quantize prints; rises when a key goes or means something else.
inline constexpr int kQuantizeSchema = 1;

struct QuantizeTotals {
  std::string input, output;
  std::uint64_t input_bytes = 0;
  std::optional<std::uint64_t> output_bytes;  ///< nothing where it is not known yet
  double bits_per_weight = 0;                 ///< of what was quantized, before zstd
  std::optional<double> seconds;              ///< nothing of a dry run
  std::optional<std::uint64_t> peak_bytes;    ///< of resident memory; nothing where it is not known
  bool foreseen = false;                      ///< a dry run
  bool upper_bound = false;                   ///< bytes are at most these, because zstd will make them fewer
};

/// The object, without tensors.
Json totals_json(const QuantizeTotals& totals);

/// A row of `tensors`. Errors are null unless they are measured.
Json tensor_json(const TensorReport& tensor, bool is_measured);

/// "22.71 MB from 90.87 MB (4.00 times smaller)"; without what is in parentheses where there is nothing.
std::string size_text(std::uint64_t before, std::uint64_t after);

/// Stored bits a number, by bytes of codes and scales; 0 of no numbers.
double bits_a_number(const TensorReport& tensor);

/// The same of all that was quantized.
double bits_a_weight(const std::vector<TensorReport>& tensors);

}  // namespace crumb::cli
