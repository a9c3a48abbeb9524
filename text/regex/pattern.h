// Regular expressions of tokenizers, which are written for Oniguruma (Ruby's syntax) and need look-ahead.
// They run on PCRE2; where the two differ, the expression is translated (translate.h) or refused by name.
//
// Patterns come with a model's files, so they may be hostile: the steps, the memory and the depth of a match
// are bounded. At each position of a text kFreeSteps are free; matches that take more have kMatchSteps in
// all, and kStepsPerByte for each byte of the text. More than that is an Error.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace crumb::text {

/// A stretch of a text: a match, or the text between matches.
struct Stretch {
  std::size_t begin = 0, end = 0;
  bool is_match = false;
};

/// The longest text that a tokenizer's steps may make: a short description can make a text grow without end.
constexpr std::size_t kLongestText = std::size_t{64} << 20;

/// Throws Error where a text has more bytes.
void check_text_length(std::size_t bytes);

class Pattern {
 public:
  static constexpr std::size_t kFreeSteps = 1'000;
  static constexpr std::size_t kMatchSteps = 2'000'000;
  static constexpr std::size_t kStepsPerByte = 64;

  /// A regular expression, or a Failure that says what in it is wrong or not supported.
  static Result<Pattern> regex(std::string_view expression);
  /// A pattern that matches the text itself.
  static Result<Pattern> literal(std::string_view text);

  /// Cuts the text into matches and what is between them, from left to right, as Oniguruma's bindings do: the
  /// next search begins where a match ended, and an empty match right behind another match does not count.
  /// Precondition: the text is UTF-8. Throws Error where a limit is passed. Thread-safe.
  std::vector<Stretch> split(std::string_view text) const;

  /// The text with every match replaced. Throws Error as split() does, and where it becomes longer than
  /// kLongestText.
  std::string replace(std::string_view text, std::string_view by) const;

 private:
  class Code;
  Pattern() = default;

  std::string literal_;  // where there is no code
  std::shared_ptr<const Code> code_;
  std::string expression_;  // for messages
};

}  // namespace crumb::text
