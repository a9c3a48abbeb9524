#include "cli/help/help_format.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/flags/flag_group.h"

namespace crumb::cli {
namespace {

constexpr std::size_t kUsualWidth = 100, kLeastWidth = 60, kMostWidth = 110, kIndent = 30;

/// Returns the terminal's width, where help goes to a terminal; else the default.
std::size_t line_width() {
  struct winsize size = {};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return kUsualWidth;
  return std::clamp<std::size_t>(size.ws_col, kLeastWidth, kMostWidth);
}

/// Returns "  name    what it is", with further lines indented to the text.
std::string entry(const std::string& name, const std::string& text) {
  std::string out = "  " + name;
  if (out.size() + 2 > kIndent)
    out += "\n" + std::string(kIndent, ' ');
  else
    out += std::string(kIndent - out.size(), ' ');
  const std::vector<std::string> lines = wrapped(text, line_width() - kIndent);
  for (std::size_t i = 0; i < lines.size(); ++i)
    out += (i > 0 ? "\n" + std::string(kIndent, ' ') : "") + lines[i];
  return out + "\n";
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::string names;
  for (const CLI::Option* option : options) names += " " + option->get_name();
  return names;
}

}  // namespace

std::string value_words(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  std::string words = option.get_type_name();
  // Checks append their own words after a colon: "{a,b}" for CLI::IsMember, "INT in [2 - 4]" for CLI::Range.
  if (const std::size_t list = words.find(":{"); list != std::string::npos) {
    words = words.substr(list + 2, words.find('}', list) - list - 2);
    std::ranges::replace(words, ',', '|');
  } else if (const std::size_t range = words.find(" in ["); range != std::string::npos) {
    words.resize(words.rfind(':', range));
  }
  return words;
}

std::vector<std::string> group_titles(const CLI::App& verb) {
  std::vector<std::string> titles;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string& title = option->get_group();
    const bool is_seen = std::ranges::find(titles, title) != titles.end();
    if (option->nonpositional() && !title.empty() && !is_seen) titles.push_back(title);
  }
  const auto order = [](const std::string& title) {
    return title == kInputFlags ? 0 : title == kOutputFlags ? 2 : title == kRunningFlags ? 3 : 1;
  };
  std::ranges::stable_sort(titles, {}, order);
  return titles;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string help = make_description(app) + make_usage(app, std::move(name)) + make_positionals(app);
  for (const std::string& title : group_titles(*app)) {
    const auto of_group = [&](const CLI::Option* option) {
      return option->nonpositional() && option->get_group() == title;
    };
    help += make_group(title, false, app->get_options(of_group));
  }
  return help + make_subcommands(app, mode) + "\n" + make_footer(app);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > width) {
      end = text.rfind(' ', width);
      if (end == std::string_view::npos || end == 0) end = std::min(text.find(' '), text.size());
      const std::size_t comma = end > width ? text.rfind(',', width - 1) : std::string_view::npos;
      if (comma != std::string_view::npos) end = comma + 1;
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end < text.size() && text[end] == ' ' ? end + 1 : end);
  }
  return lines;
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const std::string words = value_words(*option);
  std::string text = words.empty() ? "" : " " + words;
  const bool is_optional = option->get_items_expected_min() == 0 && !words.empty();
  if (is_optional) text = " [" + words + "]";
  if (option->get_required()) text += " REQUIRED";
  return text;
}

std::string HelpFormatter::entry_name(const CLI::Option* option) const {
  std::string name = make_option_name(option, option->get_positional());
  return name.substr(0, name.find('{')) + make_option_opts(option);  // "--no-x{false}" sets false
}

std::string HelpFormatter::entry_text(const CLI::Option* option) const {
  std::string text = make_option_desc(option);
  const bool is_list = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  if (is_list && !option->get_positional() && text.find("once for each") == std::string::npos)
    text += "; once for each";
  if (!option->get_needs().empty()) text += " [with" + names_of(option->get_needs()) + "]";
  if (!option->get_excludes().empty()) text += " [not with" + names_of(option->get_excludes()) + "]";
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool) const {
  return entry(entry_name(option), entry_text(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* verb) const {
  return entry(verb->get_name(), verb->get_description());
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = "Usage: " + name;
  for (const CLI::Option* option : app->get_options())
    if (option->get_positional()) usage += " " + make_option_usage(option);
  const bool has_verbs = !app->get_subcommands({}).empty();
  usage += has_verbs ? " VERB ..." : " [FLAGS]";
  return usage + "\n";
}

}  // namespace crumb::cli
