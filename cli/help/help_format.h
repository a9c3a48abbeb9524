// Formats the help of verbs: flags by group, with the words for their values, in lines of a readable width.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace crumb::cli {

/// Returns the words for the option's value in help, manual pages and completions: "STEPS", "FILE",
/// "cosine|linear|constant"; empty for flags without a value. They are the option's type_name, or the words
/// of its CLI::IsMember.
std::string value_words(const CLI::Option& option);

/// Breaks the text into lines of at most `width` bytes, at spaces; a longer word after commas.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// Whether help shows the verb.
inline bool is_shown(const CLI::App& verb) { return !verb.get_name().empty() && !verb.get_group().empty(); }

/// Returns the titles of the verb's groups of flags, in the order of help: input first, output and running
/// last.
std::vector<std::string> group_titles(const CLI::App& verb);

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;

  /// "--steps STEPS", and the text that help has for it.
  std::string entry_name(const CLI::Option* option) const;
  std::string entry_text(const CLI::Option* option) const;
};

}  // namespace crumb::cli
