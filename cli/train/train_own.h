// crumb train graph: the network and its samples from files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/flags/verb.h"
#include "tasks/train/own_network.h"

namespace crumb::cli {

struct OwnNetworkFlags {
  std::string data, labels, loss;
  std::vector<std::string> valid;  ///< none, or inputs and labels
};

void add_own_network_flags(CLI::App& verb, OwnNetworkFlags& flags);

/// Whether the argument for the task is a file: a name with the ending .onnx or .crumb, or a file that
/// exists.
bool is_own_network(const std::string& task);

/// Reads the network and its samples. Without samples for validation every fifth sample is held out (number i
/// where i % 5 == 4). Throws usage Error for flags that are missing or do not fit, Error where a file cannot
/// be read or the network does not have exactly one float32 input.
std::shared_ptr<const tasks::OwnNetwork> read_own_network(const std::string& model,
                                                          const OwnNetworkFlags& flags);

}  // namespace crumb::cli
