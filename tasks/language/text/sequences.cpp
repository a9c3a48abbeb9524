#include "tasks/language/text/sequences.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/error.h"
#include "tasks/random.h"

namespace crumb::tasks {

Sequences::Sequences(const LanguageText& text, std::optional<std::int64_t> first, std::int64_t length,
                     const char* what)
    : text_(&text), first_(first), length_(static_cast<std::size_t>(std::max<std::int64_t>(length, 0))) {
  if (length < 2) throw Error("a sequence has two tokens at least, found " + std::to_string(length));
  const std::size_t size = text.tokens.size();
  for (std::size_t at = 0; at < size && at + taken(at) <= size; at += taken(at)) begins_.push_back(at);
  if (begins_.empty())
    throw Error(std::string(what) + " has " + std::to_string(size) + " tokens, expected " +
                std::to_string(size > 0 ? taken(0) : length_ - (first ? 1 : 0)) +
                " at least, a sequence of them");
  if (!predicts())
    throw Error(std::string(what) + " has no answer, or part of one, in its " + std::to_string(count()) +
                (count() == 1 ? " sequence" : " sequences") + " of " + std::to_string(length) +
                " tokens: nothing is to be predicted");
}

bool Sequences::predicts() const {
  if (text_->counts.empty()) return true;
  return std::ranges::any_of(begins_, [&](std::size_t begin) {
    const auto from = text_->counts.begin() + static_cast<std::ptrdiff_t>(begin);
    // Nothing predicts a token of the text that is the first of a sequence.
    const std::ptrdiff_t skipped = taken(begin) == length_ ? 1 : 0;
    return std::any_of(from + skipped, from + static_cast<std::ptrdiff_t>(taken(begin)),
                       [](std::uint8_t counts) { return counts != 0; });
  });
}

void Sequences::append(std::int64_t sequence, LanguageText& to) const {
  const std::size_t begin_of_it = to.tokens.size(), begin = begins_[static_cast<std::size_t>(sequence)];
  const auto from = static_cast<std::ptrdiff_t>(begin),
             end = from + static_cast<std::ptrdiff_t>(taken(begin));
  const bool adds_first = taken(begin) < length_;
  if (adds_first) to.tokens.push_back(*first_);
  to.tokens.insert(to.tokens.end(), text_->tokens.begin() + from, text_->tokens.begin() + end);
  if (adds_first) to.counts.push_back(0);
  if (text_->counts.empty()) {
    to.counts.resize(to.tokens.size(), 1);
  } else {
    to.counts.insert(to.counts.end(), text_->counts.begin() + from, text_->counts.begin() + end);
  }
  to.counts[begin_of_it] = 0;
}

std::int64_t Rounds::at(std::int64_t i) {
  if (i / count_ != round_) {
    round_ = i / count_;
    order_ = Random(seed_, static_cast<std::uint64_t>(round_)).permutation(static_cast<std::size_t>(count_));
  }
  return order_[static_cast<std::size_t>(i % count_)];
}

}  // namespace crumb::tasks
