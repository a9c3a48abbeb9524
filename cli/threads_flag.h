// The flag --threads, as every verb that computes has it.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>

#include "base/files/text.h"

namespace crumb::cli {

inline void add_threads_flag(CLI::App& verb, int& threads, const std::string& help) {
  verb.add_option("--threads", threads, help)->check([](const std::string& text) {
    constexpr int kMost = 1024;
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= kMost)
      return std::string();
    return "expected a number from 0 to " + std::to_string(kMost) + ", found " + quote_text(text);
  });
}

}  // namespace crumb::cli
