// What may stand next on a command line: for the completions of shells, from the declarations of verbs and
// flags alone.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace crumb::cli {

struct Candidate {
  std::string text;  ///< the whole word
  std::string help;  ///< one line, or empty
};

struct Candidates {
  std::vector<Candidate> words;
  bool files = false;  ///< names of files and folders, too
};

/// `words`: those before the cursor, without the program's name; the last is begun, or empty.
Candidates complete(const CLI::App& app, const std::vector<std::string>& words);

/// Prints them, one a line, its help behind a tab; and ":files" where names of files and folders may stand,
/// too. What the scripts of crumb completion ask for by `crumb complete WORDS...`.
void print_candidates(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace crumb::cli
