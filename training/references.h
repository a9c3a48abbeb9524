// What a table of training compares quantized networks with: the float network, the same trained on for as
// long as they were, and what needs no training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "training/json.h"

namespace crumb::training {

struct TrainReference {
  std::string name;
  std::optional<int> epochs;  ///< in all, where it was trained at all
  double mean = 0, least = 0, greatest = 0;
};

/// Those of the runs' reports, over all runs alike.
std::vector<TrainReference> references_of(const std::vector<Json>& reports);

/// "0.9777 (0.9749 to 0.9805)"; the mean alone where all are one.
std::string spread_text(double mean, double least, double greatest);

/// A line for each, its epochs and its score; the first line names the columns.
std::vector<std::vector<std::string>> rows_of(const std::vector<TrainReference>& references,
                                              const std::string& metric);

Json json_of(const std::vector<TrainReference>& references);

/// Whether a smaller number of this metric is the better one.
bool is_less_better(const std::string& metric);

}  // namespace crumb::training
