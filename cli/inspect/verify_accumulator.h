// crumb verify --accumulator: how wide the accumulators must be, and whether certificates hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/accumulator/layers.h"

namespace crumb::cli {

struct VerifyAccumulatorFlags {
  std::string path;
  std::optional<int> bits;          ///< a width that every constrained layer must fit
  std::vector<std::string> ranges;  ///< NAME=lo:hi
  std::string witness;              ///< a folder; empty: none
  bool json = false;
};

/// Prints a table or JSON. Throws Error where a certificate or a width does not hold, after printing.
void verify_accumulators(const VerifyAccumulatorFlags& options);

/// Reads "NAME=lo:hi" of each input. Throws Error for any other text.
analysis::GivenRanges read_input_ranges(const std::vector<std::string>& requests);

/// Returns a QCDQ graph in QONNX's operators, where these can express it; any other graph as it is.
graph::Graph in_qonnx(const graph::Graph& graph);

}  // namespace crumb::cli
