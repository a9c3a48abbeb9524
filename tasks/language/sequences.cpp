#include "tasks/language/sequences.h"

#include <string>

#include "base/error.h"
#include "tasks/random.h"

namespace crumb::tasks {

Sequences::Sequences(const LanguageText& text, std::optional<std::int64_t> first, std::int64_t length,
                     const char* what)
    : text_(&text), first_(first), taken_(length - (first ? 1 : 0)) {
  if (taken_ < 1 || length < 2)
    throw Error("a sequence has two tokens at least, found " + std::to_string(length));
  if (count() == 0)
    throw Error(std::string(what) + " has " + std::to_string(text.tokens.size()) + " tokens, expected " +
                std::to_string(taken_) + " at least, a sequence of them");
}

void Sequences::append(std::int64_t sequence, LanguageText& to) const {
  const std::size_t begin = to.tokens.size();
  const auto from = static_cast<std::ptrdiff_t>(sequence * taken_),
             end = from + static_cast<std::ptrdiff_t>(taken_);
  if (first_) to.tokens.push_back(*first_);
  to.tokens.insert(to.tokens.end(), text_->tokens.begin() + from, text_->tokens.begin() + end);
  if (first_) to.counts.push_back(0);
  if (text_->counts.empty()) {
    to.counts.resize(to.tokens.size(), 1);
  } else {
    to.counts.insert(to.counts.end(), text_->counts.begin() + from, text_->counts.begin() + end);
  }
  to.counts[begin] = 0;
}

std::int64_t Rounds::at(std::int64_t i) {
  if (i / count_ != round_) {
    round_ = i / count_;
    order_ = Random(seed_, static_cast<std::uint64_t>(round_)).permutation(static_cast<std::size_t>(count_));
  }
  return order_[static_cast<std::size_t>(i % count_)];
}

}  // namespace crumb::tasks
