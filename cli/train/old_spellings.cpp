#include "cli/train/old_spellings.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "cli/train/train_own.h"
#include "tasks/train/trainer.h"

namespace crumb::cli {
namespace {

constexpr std::size_t kMostValues = 64;

/// Returns the flag of that name of one of the verbs; null where none has it.
const CLI::Option* find_flag(const std::vector<const CLI::App*>& verbs, const std::string& name) {
  for (const CLI::App* verb : verbs)
    if (const CLI::Option* option = verb->get_option_no_throw(name)) return option;
  return nullptr;
}

/// Returns the index of the first argument, from `first` on, that is neither a flag nor a flag's value.
std::optional<std::size_t> first_positional(const std::vector<const CLI::App*>& verbs,
                                            const std::vector<std::string>& arguments, std::size_t first) {
  for (std::size_t i = first; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-')) return i;
    const CLI::Option* flag = find_flag(verbs, arguments[i]);
    if (!flag) continue;  // --flag=value, or an unknown flag
    const auto least = static_cast<std::size_t>(flag->get_items_expected_min());
    const std::size_t most = std::min(static_cast<std::size_t>(flag->get_items_expected_max()), kMostValues);
    std::size_t taken = 0;
    while (taken < most && i + 1 < arguments.size() &&
           (taken < least || !arguments[i + 1].starts_with('-'))) {
      ++taken;
      ++i;
    }
  }
  return std::nullopt;
}

/// Returns the verb of crumb train that trains it.
std::string verb_for(const std::string& trained) {
  if (std::ranges::find(tasks::kTasks, trained) != std::end(tasks::kTasks)) return "task";
  if (is_own_network(trained)) return "graph";
  throw usage_error(
      "there is no task and no file " + quote_text(trained) +
      "; expected crumb train task (digits, jets, ocr, sr), graph MODEL.onnx, lm or embed; did you "
      "mean '" +
      nearest_name(trained, tasks::kTasks) + "'?");
}

}  // namespace

std::vector<std::string> in_new_spelling(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] != "train") return arguments;
  const std::vector<const CLI::App*> verbs =
      std::as_const(*app.get_subcommand("train")).get_subcommands([](const CLI::App*) { return true; });
  const std::optional<std::size_t> at = first_positional(verbs, arguments, 1);
  if (!at) return arguments;
  const std::string trained = arguments[*at];
  const bool is_verb =
      std::ranges::any_of(verbs, [&](const CLI::App* verb) { return verb->get_name() == trained; });
  if (is_verb && *at == 1) return arguments;
  const std::string verb = is_verb ? trained : verb_for(trained);
  if (is_verb) arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(*at));
  arguments.insert(arguments.begin() + 1, verb);
  std::fprintf(stderr, "note: crumb train %s is written crumb train %s%s%s now\n",
               is_verb ? ("... " + trained).c_str() : printable(trained).c_str(), verb.c_str(),
               is_verb ? " ..." : " ", is_verb ? "" : printable(trained).c_str());
  return arguments;
}

}  // namespace crumb::cli
