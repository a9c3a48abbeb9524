// crumb verify --accumulator: how wide the accumulators must be, and whether certificates hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/accumulator/layers.h"

namespace crumb::cli {

struct VerifyAccumulatorFlags {
  std::string path;
  std::optional<int> bits;          ///< that every constrained layer must fit
  std::vector<std::string> ranges;  ///< NAME=lo:hi
  std::string witness;              ///< a folder, or nothing
  bool json = false;
};

/// Prints a table or JSON. Throws Error where a certificate or a width does not hold, after printing.
void verify_accumulators(const VerifyAccumulatorFlags& options);

/// Of "NAME=lo:hi", each. Throws Error for any other text.
analysis::GivenRanges read_input_ranges(const std::vector<std::string>& wishes);

/// A QCDQ graph in QONNX's words, wherever these can say what it holds; any other as it is.
graph::Graph in_qonnx(const graph::Graph& graph);

}  // namespace crumb::cli
