// crumb merge --train: trains merged codes to give what the network computes with separate adapters.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/train/language_training.h"
#include "graph/graph.h"

namespace crumb::cli {

struct MergeTrainingFlags {
  std::string data, valid;
  LanguageTrainingFlags training;
  std::int64_t batch = 0;
  double rate = 1e-4, scale_rate = 5e-4;
  bool scales_alone = false;
  std::uint64_t seed = 0;
  int threads = 0, keep_every = 0;
  bool restart = false;

  bool is_wanted() const { return !data.empty(); }
};

/// Returns those flags that need --train.
std::vector<CLI::Option*> add_merge_training_flags(CLI::App& verb, MergeTrainingFlags& flags);

/// Throws usage Error where one of them was given.
void refuse_without_train(const std::vector<CLI::Option*>& options);

/// `adapted`: the network with its adapters. `merged`: its codes with the adapters merged in, where training
/// begins. `files`: the packed file's other files, with their recipe. Writes the folder of crumb train lm.
/// Returns its report, null in a process for which another one writes.
Json train_merged(const MergeTrainingFlags& flags, graph::Graph adapted, graph::Graph merged,
                  std::map<std::string, std::string> files, const std::string& folder);

}  // namespace crumb::cli
