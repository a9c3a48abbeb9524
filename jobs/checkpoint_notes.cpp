#include "jobs/checkpoint_notes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files/text.h"
#include "base/json/bounded_json.h"

namespace crumb::jobs {
namespace {

/// Returns the folders of a sentence encoder's Dense modules.
std::vector<std::string> dense_modules(const Checkpoint& checkpoint) {
  std::vector<std::string> paths;
  const ModelFile* file = checkpoint.find_file("modules.json");
  if (!file) return paths;
  const Result<nlohmann::json> modules = parse_bounded_json(file->bytes);
  if (!modules.ok() || !modules.value().is_array()) return paths;
  for (const nlohmann::json& module : modules.value()) {
    if (!module.is_object() || !module.contains("type") || !module.contains("path")) continue;
    const nlohmann::json &type = module["type"], &path = module["path"];
    if (!type.is_string() || !path.is_string()) continue;
    const auto& name = type.get_ref<const std::string&>();
    if (name == "Dense" || name.ends_with(".Dense")) paths.push_back(path.get<std::string>());
  }
  return paths;
}

}  // namespace

std::string text_of_unused(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNamed = 6;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostNamed; ++i)
    text += (i > 0 ? ", " : "") + quote_text(names[i]);
  if (names.size() > kMostNamed) text += " and " + std::to_string(names.size() - kMostNamed) + " more";
  return "no output depends on " + text;
}

void note_unused(const std::vector<std::string>& names, Notes& notes) {
  if (!names.empty()) notes.say(text_of_unused(names) + ", which the packed file does not take along");
}

void note_reading(const Checkpoint& checkpoint, Observer& observer) {
  constexpr std::size_t kMostListed = 20;
  const std::vector<SkippedEntry>& skipped = checkpoint.skipped();
  if (checkpoint.dequantized()) observer.note("read as what " + printable(*checkpoint.dequantized()));
  for (std::size_t i = 0; i < std::min(skipped.size(), kMostListed); ++i)
    observer.note("left out " + quote_text(skipped[i].name) + ": " + skipped[i].what);
  if (skipped.size() > kMostListed)
    observer.note("left out " + std::to_string(skipped.size() - kMostListed) + " more");
}

void note_folder(const Checkpoint& checkpoint, Notes& notes) {
  constexpr size_t kMostListed = 20;
  const std::vector<std::string>& names = checkpoint.not_carried();
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMostListed); ++i)
    list += (i ? ", " : "") + quote_text(names[i]);
  if (names.size() > kMostListed) list += " and " + std::to_string(names.size() - kMostListed) + " more";
  if (!names.empty())
    notes.say("the folder also holds " + list + ", which the packed file does not take along");
  for (const std::string& path : dense_modules(checkpoint)) {
    if (checkpoint.find(path + "/linear.weight")) continue;
    notes.say("the sentence encoder has a Dense module in " + quote_text(path) +
              ", whose weights are not there: crumb embed does not run it without");
  }
}

}  // namespace crumb::jobs
