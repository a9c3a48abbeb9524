// The flag --threads, for every verb that computes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/files/text.h"
#include "base/text/number.h"
#include "cli/flags/flag_group.h"

namespace crumb::cli {

inline void add_threads_flag(CLI::App& verb, int& threads, const std::string& help) {
  verb.add_option("--threads", threads, help)
      ->type_name("THREADS")
      ->group(kRunningFlags)
      ->check([](const std::string& text) {
        constexpr int kMost = 1024;
        const auto value = parse_number<int>(text);
        if (value && *value >= 0 && *value <= kMost) return std::string();
        return "expected a number from 0 to " + std::to_string(kMost) + ", found " + quote_text(text);
      });
}

}  // namespace crumb::cli
