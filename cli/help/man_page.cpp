#include "cli/help/man_page.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/help/help_format.h"

namespace crumb::cli {
namespace {

/// Returns text that roff takes literally; lines may break after commas.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ',')
      out += ",\\:";
    else if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '^')
      out += "\\(ha";
    else if (c == '~')
      out += "\\(ti";
    else if (c == '`')
      out += "\\(ga";
    else
      out += c;
  }
  if (out.starts_with('.')) out.insert(0, "\\&");
  return out;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

void section(std::ostream& out, const std::string& title) { out << ".SH " << plain(upper(title)) << "\n"; }

void entry(std::ostream& out, const std::string& name, const std::string& text) {
  out << ".TP\n.B " << name << "\n" << plain(text) << "\n";
}

std::string command_of(const CLI::App& verb) {
  return verb.get_parent() ? command_of(*verb.get_parent()) + " " + verb.get_name() : verb.get_name();
}

void write_synopsis(std::ostream& out, const CLI::App& verb, bool has_verbs) {
  section(out, "Synopsis");
  out << ".B " << plain(command_of(verb)) << "\n";
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = plain(option->get_name(true, false));
    const bool is_list = option->get_items_expected_max() > 1;
    out << ".RI " << (option->get_required() ? "" : "[ ") << name << (is_list ? " ..." : "")
        << (option->get_required() ? "" : " ]") << "\n";
  }
  out << (has_verbs ? ".I VERB ...\n" : ".RI [ FLAGS ]\n");
}

void write_verbs(std::ostream& out, const CLI::App& verb) {
  std::string title;
  for (const CLI::App* below : verb.get_subcommands([](const CLI::App* app) { return is_shown(*app); })) {
    if (below->get_group() != title) section(out, title = below->get_group());
    entry(out, plain(below->get_name()), below->get_description() + ": " + page_name(*below) + "(1)");
  }
}

void write_options(std::ostream& out, const CLI::App& verb, const HelpFormatter& format) {
  const auto write = [&](const std::string& title, const auto& is_in) {
    const std::vector<const CLI::Option*> options = verb.get_options(is_in);
    if (!options.empty()) section(out, title);
    for (const CLI::Option* option : options)
      entry(out, plain(format.entry_name(option)), format.entry_text(option));
  };
  write("Arguments", [](const CLI::Option* option) { return option->get_positional(); });
  for (const std::string& title : group_titles(verb))
    write(title,
          [&](const CLI::Option* option) { return option->nonpositional() && option->get_group() == title; });
}

/// Writes the footer: paragraphs, and examples verbatim.
void write_footer(std::ostream& out, const std::string& footer) {
  std::istringstream lines(footer);
  std::string line;
  bool is_verbatim = false, is_first = true;
  const auto set_verbatim = [&](bool wanted) {
    if (wanted != is_verbatim) out << (wanted ? ".PP\n.nf\n" : ".fi\n");
    is_verbatim = wanted;
  };
  while (std::getline(lines, line)) {
    if (line == "Example:" || line == "Examples:") {
      set_verbatim(false);
      section(out, line.substr(0, line.size() - 1));
    } else {
      if (is_first) section(out, "Notes");
      set_verbatim(line.starts_with("  "));
      out << (line.empty() ? ".PP" : plain(line)) << "\n";
    }
    is_first = false;
  }
  set_verbatim(false);
}

}  // namespace

std::string page_name(const CLI::App& verb) {
  std::string name = command_of(verb);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const CLI::App& verb) {
  const HelpFormatter format;
  std::ostringstream out;
  const bool has_verbs = !verb.get_subcommands([](const CLI::App* app) { return is_shown(*app); }).empty();
  out << ".TH " << plain(upper(page_name(verb)))
      << " 1 \"\" \"crumb " CRUMB_VERSION "\" \"Crumb\"\n.ad l\n.nh\n";
  section(out, "Name");
  out << plain(page_name(verb)) << " \\- " << plain(verb.get_description()) << "\n";
  write_synopsis(out, verb, has_verbs);
  write_verbs(out, verb);
  write_options(out, verb, format);
  write_footer(out, verb.get_footer());
  return out.str();
}

}  // namespace crumb::cli
