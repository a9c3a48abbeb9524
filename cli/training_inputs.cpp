#include "cli/training_inputs.h"

#include <filesystem>

#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {

void refuse_training_over(const std::vector<std::string>& inputs, const std::string& folder,
                          std::initializer_list<const char*> written) {
  std::vector<std::filesystem::path> files;
  for (const std::string& input : inputs)
    if (!input.empty()) files.emplace_back(input);
  for (const char* name : written) refuse_overwriting_inputs(files, std::filesystem::path(folder) / name);
}

}  // namespace crumb::cli
