// A text that a language model is trained by.
#pragma once

#include <cstdint>
#include <vector>

namespace crumb::tasks {

struct LanguageText {
  std::vector<std::int64_t> tokens;
  std::vector<std::uint8_t> counts;  ///< one a token: whether it is to be predicted; empty: all are

  bool empty() const { return tokens.empty(); }
};

}  // namespace crumb::tasks
