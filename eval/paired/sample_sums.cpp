#include "eval/paired/sample_sums.h"

#include <algorithm>

namespace crumb::eval {

void SampleSums::add(std::span<const Term> sample) {
  terms_.insert(terms_.end(), sample.begin(), sample.end());
  ends_.push_back(terms_.size());
  for (const Term& term : sample) width_ = std::max<std::size_t>(width_, term.sum + std::size_t{1});
}

std::span<const Term> SampleSums::of(std::size_t sample) const {
  const std::size_t begin = sample == 0 ? 0 : ends_[sample - 1];
  return std::span(terms_).subspan(begin, ends_[sample] - begin);
}

}  // namespace crumb::eval
