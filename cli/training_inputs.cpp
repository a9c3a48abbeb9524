#include "cli/training_inputs.h"

#include <filesystem>

#include "base/files/inputs.h"
#include "base/files/output_place.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {

void refuse_training_over(const std::vector<std::string>& inputs, const std::string& folder,
                          std::initializer_list<const char*> written) {
  std::vector<std::filesystem::path> files;
  for (const std::string& input : inputs)
    if (!input.empty()) files.emplace_back(input);
  check_output_folder(folder);
  for (const char* name : written) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    refuse_overwriting_inputs(files, path);
    announce_output(path);
  }
}

}  // namespace crumb::cli
