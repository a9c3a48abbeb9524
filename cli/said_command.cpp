#include "cli/said_command.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace crumb::cli {
namespace {

std::vector<std::string>& arguments_said() {
  static std::vector<std::string> said;
  return said;
}

std::string quoted(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           std::string_view("-_./:=,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

void remember_command(const std::vector<std::string>& arguments) { arguments_said() = arguments; }

std::string said_command() {
  std::string text = "crumb";
  bool is_name_of_report = false;
  for (const std::string& word : arguments_said()) {
    const bool is_left_out = is_name_of_report || word.starts_with("--report=") || word == "--report";
    is_name_of_report = word == "--report";
    if (!is_left_out) text += " " + quoted(word);
  }
  return text;
}

}  // namespace crumb::cli
