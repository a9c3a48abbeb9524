// Makes a verb's manual page from its declarations.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace crumb::cli {

/// Returns "crumb-train-lm"; "crumb" for the program.
std::string page_name(const CLI::App& verb);

/// Returns the page in the macros of man(7).
std::string man_page(const CLI::App& verb);

}  // namespace crumb::cli
