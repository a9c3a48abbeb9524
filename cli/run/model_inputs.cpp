#include "cli/run/model_inputs.h"

#include "formats/checkpoint/checkpoint.h"

namespace crumb::cli {

std::vector<std::filesystem::path> model_inputs(const std::string& model) {
  std::vector<std::filesystem::path> inputs{model};
  if (const Result<Checkpoint> checkpoint = Checkpoint::open(model); checkpoint.ok()) {
    const std::vector<std::filesystem::path>& paths = checkpoint.value().input_paths();
    inputs.insert(inputs.end(), paths.begin(), paths.end());
  }
  return inputs;
}

}  // namespace crumb::cli
