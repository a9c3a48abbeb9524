// A text as sequences, and the order in which training takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tasks/language/text/language_text.h"

namespace crumb::tasks {

/// A text cut into consecutive sequences of `length` tokens. Each begins with the `first` token, which counts
/// towards the length, where there is one: it is added unless the text has it there. The rest at the text's
/// end is not used.
class Sequences {
 public:
  /// `text` must outlive this. Throws Error, which begins with `what`, where the text has fewer tokens than a
  /// sequence takes, or no token of a sequence is to be predicted.
  Sequences(const LanguageText& text, std::optional<std::int64_t> first, std::int64_t length,
            const char* what);

  std::int64_t count() const { return static_cast<std::int64_t>(begins_.size()); }

  /// Appends a sequence, and for each of its tokens whether it counts. The first of a sequence never does:
  /// nothing predicts it.
  void append(std::int64_t sequence, LanguageText& to) const;

 private:
  bool brings_first(std::size_t begin) const { return !first_ || text_->tokens[begin] == *first_; }
  /// Returns how many tokens of the text are in the sequence that begins there.
  std::size_t taken(std::size_t begin) const { return length_ - (brings_first(begin) ? 0 : 1); }
  bool predicts() const;

  const LanguageText* text_;
  std::optional<std::int64_t> first_;
  std::size_t length_;
  std::vector<std::size_t> begins_;  ///< offset of each sequence in the text
};

/// Indices of sequences without end: each round has all of them, in its own order, which follows from the
/// seed.
class Rounds {
 public:
  Rounds(std::int64_t count, std::uint64_t seed) : count_(count), seed_(seed) {}

  /// Returns the sequence that is trained by as the i-th, from 0.
  std::int64_t at(std::int64_t i);

 private:
  std::int64_t count_;
  std::uint64_t seed_;
  std::int64_t round_ = -1;
  std::vector<std::int64_t> order_;  ///< that of the round
};

}  // namespace crumb::tasks
