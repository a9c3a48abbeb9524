// A text as sequences, and the order in which they are trained by.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace crumb::tasks {

/// A text cut into sequences of `length` tokens, side by side, each with the first token in front of it where there is one,
/// which counts; what is left at the text's end is not used.
class Sequences {
 public:
  /// `tokens` must outlive this. Throws Error, which begins with `what`, where there are fewer tokens than a sequence takes.
  Sequences(std::span<const std::int64_t> tokens, std::optional<std::int64_t> first, std::int64_t length,
            const char* what);

  std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size()) / taken_; }

  /// The tokens of a sequence are put behind those that are there.
  void append(std::int64_t sequence, std::vector<std::int64_t>& tokens) const;

 private:
  std::span<const std::int64_t> tokens_;
  std::optional<std::int64_t> first_;
  std::int64_t taken_;  ///< of the text, for each
};

/// Numbers of sequences without end: each round has all of them, in an order of its own that follows from the seed.
class Rounds {
 public:
  Rounds(std::int64_t count, std::uint64_t seed) : count_(count), seed_(seed) {}

  /// The one that is trained by as the i-th, from 0.
  std::int64_t at(std::int64_t i);

 private:
  std::int64_t count_;
  std::uint64_t seed_;
  std::int64_t round_ = -1;
  std::vector<std::int64_t> order_;  ///< of the round
};

}  // namespace crumb::tasks
