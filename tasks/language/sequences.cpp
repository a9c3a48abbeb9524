#include "tasks/language/sequences.h"

#include <string>

#include "base/error.h"
#include "tasks/random.h"

namespace crumb::tasks {

Sequences::Sequences(std::span<const std::int64_t> tokens, std::optional<std::int64_t> first,
                     std::int64_t length, const char* what)
    : tokens_(tokens), first_(first), taken_(length - (first ? 1 : 0)) {
  if (taken_ < 1 || length < 2)
    throw Error("a sequence has two tokens at least, found " + std::to_string(length));
  if (count() == 0)
    throw Error(std::string(what) + " has " + std::to_string(tokens.size()) + " tokens, expected " +
                std::to_string(taken_) + " at least, a sequence of them");
}

void Sequences::append(std::int64_t sequence, std::vector<std::int64_t>& tokens) const {
  if (first_) tokens.push_back(*first_);
  const auto taken =
      tokens_.subspan(static_cast<std::size_t>(sequence * taken_), static_cast<std::size_t>(taken_));
  tokens.insert(tokens.end(), taken.begin(), taken.end());
}

std::int64_t Rounds::at(std::int64_t i) {
  if (i / count_ != round_) {
    round_ = i / count_;
    order_ = Random(seed_, static_cast<std::uint64_t>(round_)).permutation(static_cast<std::size_t>(count_));
  }
  return order_[static_cast<std::size_t>(i % count_)];
}

}  // namespace crumb::tasks
