#include "jobs/sweep/command.h"

#include <algorithm>
#include <filesystem>

#include "jobs/sweep/folder.h"
#include "quant/recipe/recipe.h"

namespace crumb::jobs {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// "NAME=X.npy" names a file, too.
std::vector<fs::path> sample_files(const std::string& requested) {
  const fs::path path = fs::exists(requested) ? requested : requested.substr(requested.find('=') + 1);
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

Json identities(const std::vector<std::string>& requests) {
  Json files = Json::array();
  for (const std::string& requested : requests) {
    for (const fs::path& file : sample_files(requested)) {
      if (fs::exists(file)) files.push_back(file_identity(file));
    }
  }
  return files;
}

/// Writes shapes as --shape takes them.
std::vector<std::string> texts_of(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  std::vector<std::string> texts;
  for (const auto& [name, sizes] : shapes) {
    std::string text = name + "=";
    for (std::size_t i = 0; i < sizes.size(); ++i) text += (i > 0 ? "x" : "") + std::to_string(sizes[i]);
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace

Json command_of(const SweepRequest& request, const NetworkSource& source) {
  Json model = Json::array();
  for (const fs::path& path : source.paths) model.push_back(file_identity(path));
  Json recipes = Json::array();
  std::vector<std::string> formats, activations, methods;
  const auto add = [](std::vector<std::string>& list, const std::string& one) {
    if (std::ranges::find(list, one) == list.end()) list.push_back(one);
  };
  Json each = Json::array();  // what the lists alone do not say: the same activations differ for each format
  for (const SweepCell& cell : request.cells) {
    each.push_back(cell.format + " " + cell.activations + " " + cell.method);
    add(formats, cell.format);
    add(activations, cell.activations);
    add(methods, cell.method);
  }
  Recipe shared = request.cells.front().recipe;
  shared.weights = shared.activations = {};
  shared.stages = {};
  shared.rules.clear();
  for (const Rule& rule : request.cells.front().recipe.rules) {
    if (rule.origin != "--include") shared.rules.push_back(rule);  // whose spec is the cell's format
  }
  Json command{{"crumb", CRUMB_VERSION},
               {"MODEL", std::move(model)},
               {"--formats", formats},
               {"--activations", activations},
               {"--methods", methods},
               {"cells", std::move(each)},
               {"--data", identities(request.data)},
               {"--tokens", request.tokens},
               {"--valid", identities(request.valid)},
               {"--valid-tokens", request.valid_tokens},
               {"--context", request.context},
               {"--labels", identities(request.labels.empty() ? std::vector<std::string>()
                                                              : std::vector<std::string>{request.labels})},
               {"--peak", request.peak.value_or(0)},
               {"--shape", texts_of(request.shapes)},
               {"--device", request.device},
               {"--include", request.include},
               {"recipe", to_yaml(shared)}};
  if (!request.batch_axes.empty()) command["--batch-axis"] = request.batch_axes;
  if (!request.arguments.empty()) command["--set-argument"] = request.arguments;
  if (request.pairs) command["--pairs"] = true;
  return command;
}

}  // namespace crumb::jobs
