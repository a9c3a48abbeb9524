// crumb train graph: the network and its samples from files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/flags/verb.h"
#include "tasks/train/own_network.h"

namespace crumb::cli {

struct OwnNetworkFlags {
  std::vector<std::string> data;        ///< [NAME=]FILE, for each input
  std::vector<std::string> labels;      ///< [NAME=]FILE, for outputs
  std::vector<std::string> losses;      ///< [NAME=]ce|mse
  std::vector<std::string> weights;     ///< NAME=NUMBER
  std::vector<std::string> valid;       ///< none, or [NAME=]FILE for each input and each output with labels
  std::vector<std::string> batch_axes;  ///< NAME=AXIS
  std::vector<std::string> arguments;   ///< of a TorchScript archive: NAME=VALUE
};

void add_own_network_flags(CLI::App& verb, OwnNetworkFlags& flags);

/// Adds the files that the flags may name.
void add_own_network_files(const OwnNetworkFlags& flags, std::vector<std::filesystem::path>& files);

/// Whether the argument for the task is a file: a name with the ending .onnx or .crumb, or a file that
/// exists.
bool is_own_network(const std::string& task);

/// Reads the network, also a TorchScript archive's, which is called with the first samples, and its samples.
/// Without samples for validation every fifth sample is held out (number i where i % 5 == 4). Tells of
/// outputs that have no labels. Throws usage Error for flags that are missing or do not fit, Error where a
/// file cannot be read or does not fit the network.
std::shared_ptr<const tasks::OwnNetwork> read_own_network(const std::string& model,
                                                          const OwnNetworkFlags& flags);

}  // namespace crumb::cli
