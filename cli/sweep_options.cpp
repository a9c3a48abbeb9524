#include "cli/sweep_options.h"

#include <algorithm>
#include <filesystem>

#include "cli/sweep_folder.h"
#include "quant/recipe/recipe.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

/// "NAME=X.npy" names a file, too.
std::vector<fs::path> sample_files(const std::string& wish) {
  const fs::path path = fs::exists(wish) ? wish : wish.substr(wish.find('=') + 1);
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

Json identities(const std::vector<std::string>& wishes) {
  Json files = Json::array();
  for (const std::string& wish : wishes) {
    for (const fs::path& file : sample_files(wish)) {
      if (fs::exists(file)) files.push_back(file_identity(file));
    }
  }
  return files;
}

}  // namespace

Json command_of(const SweepOptions& options, const jobs::NetworkSource& source,
                const std::vector<SweepGridCell>& cells) {
  Json model = Json::array();
  for (const fs::path& path : source.paths) model.push_back(file_identity(path));
  Json recipes = Json::array();
  std::vector<std::string> formats, activations, methods;
  const auto add = [](std::vector<std::string>& list, const std::string& one) {
    if (std::ranges::find(list, one) == list.end()) list.push_back(one);
  };
  Json each = Json::array();  // which the lists do not tell: same activations are others for each format
  for (const SweepGridCell& cell : cells) {
    each.push_back(cell.format + " " + cell.activations + " " + cell.method);
    add(formats, cell.format);
    add(activations, cell.activations);
    add(methods, cell.method);
  }
  Recipe shared = cells.front().recipe;
  shared.weights = shared.activations = {};
  shared.stages = {};
  shared.rules.clear();
  for (const Rule& rule : cells.front().recipe.rules) {
    if (rule.origin != "--include") shared.rules.push_back(rule);  // whose spec is the format
  }
  return {{"crumb", CRUMB_VERSION},
          {"MODEL", std::move(model)},
          {"--formats", formats},
          {"--activations", activations},
          {"--methods", methods},
          {"cells", std::move(each)},
          {"--data", identities(options.data)},
          {"--tokens", options.tokens},
          {"--valid", identities(options.measure.valid)},
          {"--valid-tokens", options.measure.tokens},
          {"--context", options.measure.context},
          {"--labels",
           identities(options.measure.labels.empty() ? std::vector<std::string>()
                                                     : std::vector<std::string>{options.measure.labels})},
          {"--peak", options.measure.peak.value_or(0)},
          {"--shape", options.shapes},
          {"--device", options.device},
          {"--include", options.grid.recipe.include},
          {"recipe", to_yaml(shared)}};
}

}  // namespace crumb::cli
