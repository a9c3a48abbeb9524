// crumb merge --train: trains merged codes to give what the network computes with separate adapters.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "jobs/merge.h"

namespace crumb::cli {

/// Gives those that say something only where --train is given.
std::vector<CLI::Option*> add_merge_training_flags(CLI::App& verb, jobs::MergeTraining& flags);

/// Throws usage Error where one of them was given.
void refuse_without_train(const std::vector<CLI::Option*>& options);

}  // namespace crumb::cli
