// Finds what may come next on a command line, for the completions of shells, from the declarations of verbs
// and flags alone.
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
  bool files = false;  ///< whether names of files and folders fit as well
};

/// `words`: those before the cursor, without the program's name; the last is incomplete, or empty.
Candidates complete(const CLI::App& app, const std::vector<std::string>& words);

/// Prints the candidates, one a line with its help after a tab; and ":files" where names of files and folders
/// fit as well. The scripts of crumb completion call it by `crumb complete WORDS...`.
void print_candidates(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace crumb::cli
