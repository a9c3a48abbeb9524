#include "cli/help/complete.h"

#include <algorithm>
#include <iostream>

#include "cli/help/help_format.h"
#include "cli/help/value_candidates.h"

namespace crumb::cli {
namespace {

/// The state of the command line after the words before the cursor.
struct State {
  const CLI::App* verb;
  const CLI::Option* awaits = nullptr;  ///< the flag whose values may come next
  bool must = false;                    ///< whether only such values may come next
  std::size_t taken = 0;                ///< number of that flag's values so far
  std::size_t positionals = 0;
  std::vector<const CLI::Option*> given;
};

void take_flag(State& state, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const CLI::Option* const flag = state.verb->get_option_no_throw(name);
  state.awaits = nullptr;
  if (!flag) return;
  state.given.push_back(flag);
  if (name.size() < word.size() || flag->get_items_expected_max() == 0) return;
  state.awaits = flag;
  state.taken = 0;
  state.must = flag->get_items_expected_min() > 0;
}

/// Returns the subcommand of that name; null where there is none.
const CLI::App* find_below(const CLI::App& verb, const std::string& name) {
  for (const CLI::App* below : verb.get_subcommands([](const CLI::App*) { return true; }))
    if (below->get_name() == name) return below;
  return nullptr;
}

void take_word(State& state, const std::string& word) {
  if (state.awaits && (state.must || !word.starts_with('-'))) {
    ++state.taken;
    state.must = state.taken < static_cast<std::size_t>(state.awaits->get_items_expected_min());
    if (state.taken >= static_cast<std::size_t>(state.awaits->get_items_expected_max()))
      state.awaits = nullptr;
    return;
  }
  if (word.starts_with('-') && word.size() > 1) return take_flag(state, word);
  if (const CLI::App* below = find_below(*state.verb, word)) {
    state = {.verb = below, .given = {}};
    return;
  }
  ++state.positionals;
}

void add_values_of(const CLI::Option& option, const std::string& begun, Candidates& found) {
  const std::string words = value_words(option);
  std::size_t at = 0;
  while (at <= words.size() && !words.empty()) {
    const std::size_t end = std::min(words.find('|', at), words.size());
    add_values(std::string_view(words).substr(at, end - at), begun, found);
    at = end + 1;
  }
}

/// Returns one line of help, without its second sentence.
std::string first_words(const std::string& help) {
  constexpr std::size_t kMost = 72;
  const std::vector<std::string> lines = wrapped(help.substr(0, help.find('\n')), kMost);
  return lines.empty() ? "" : lines[0] + (lines.size() > 1 ? " ..." : "");
}

void add_flags(const State& state, const std::string& begun, Candidates& found) {
  for (const CLI::Option* option : state.verb->get_options()) {
    const bool is_given = std::ranges::find(state.given, option) != state.given.end();
    const bool is_once = option->get_expected_max() <= 1 || option->get_items_expected_max() == 0;
    if (is_given && is_once) continue;
    for (const std::string& name : option->get_lnames())
      if (("--" + name).starts_with(begun))
        found.words.push_back({"--" + name, first_words(option->get_description())});
    for (const std::string& name : option->get_snames())
      if (begun.size() < 2 || "-" + name == begun)
        found.words.push_back({"-" + name, first_words(option->get_description())});
  }
}

const CLI::Option* positional_at(const CLI::App& verb, std::size_t index) {
  const CLI::Option* last = nullptr;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) continue;
    last = option;
    if (index == 0) return option;
    --index;
  }
  const bool is_open = last && last->get_items_expected_max() > 1;
  return is_open ? last : nullptr;
}

}  // namespace

Candidates complete(const CLI::App& app, const std::vector<std::string>& words) {
  State state{.verb = &app, .given = {}};
  Candidates found;
  if (words.empty()) return found;
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (i > 0 || words[i] != "help") take_word(state, words[i]);
  const std::string& begun = words.back();
  if (begun.starts_with("--") && begun.find('=') != std::string::npos && !state.must) {
    const std::size_t value = begun.find('=') + 1;
    const CLI::Option* flag = state.verb->get_option_no_throw(begun.substr(0, value - 1));
    if (!flag) return found;
    add_values_of(*flag, begun.substr(value), found);
    for (Candidate& word : found.words) word.text.insert(0, begun.substr(0, value));
    return found;
  }
  if (state.awaits) add_values_of(*state.awaits, begun, found);
  if (state.must) return found;
  if (begun.starts_with('-')) {
    add_flags(state, begun, found);
    return found;
  }
  const std::vector<const CLI::App*> below =
      state.verb->get_subcommands([](const CLI::App* verb) { return is_shown(*verb); });
  for (const CLI::App* verb : below)
    if (verb->get_name().starts_with(begun))
      found.words.push_back({verb->get_name(), first_words(verb->get_description())});
  if (const CLI::Option* positional = positional_at(*state.verb, state.positionals))
    add_values_of(*positional, begun, found);
  return found;
}

void print_candidates(const CLI::App& app, const std::vector<std::string>& words) {
  const Candidates found = complete(app, words);
  for (const Candidate& word : found.words)
    std::cout << word.text << (word.help.empty() ? "" : "\t") << word.help << "\n";
  if (found.files) std::cout << ":files\n";
}

}  // namespace crumb::cli
