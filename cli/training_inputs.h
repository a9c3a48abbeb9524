// Inputs of a training run, which it leaves as they are.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "training/run_folder.h"

namespace crumb::cli {

/// Throws usage Error where one of the files that a run writes into the folder is an input; empty paths are none.
void refuse_training_over(const std::vector<std::string>& inputs, const std::string& folder,
                          std::initializer_list<const char*> written = training::kLanguageFiles);

}  // namespace crumb::cli
