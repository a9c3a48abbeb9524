// crumb verify --accumulator: how wide the accumulators must be, and whether certificates hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace crumb::cli {

struct VerifyAccumulatorOptions {
  std::string path;
  std::optional<int> bits;          ///< that every constrained layer must fit
  std::vector<std::string> ranges;  ///< NAME=lo:hi
  std::string witness;              ///< a folder, or nothing
  bool json = false;
};

/// Prints a table or JSON. Throws Error where a certificate or a width does not hold, after printing.
void verify_accumulators(const VerifyAccumulatorOptions& options);

}  // namespace crumb::cli
