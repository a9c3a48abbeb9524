#include "runtime/language/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/fixed.h"
#include "runtime/largest.h"

namespace crumb::runtime {
namespace {

using text::TokenId;

void check(bool fits, const char* name, double value, const char* expected) {
  if (!fits)
    throw Error(std::string(name) + " is " + fixed(value, 3) + ", expected " + expected, ErrorKind::kUsage);
}

/// Penalizes each token once, however often it occurred.
void penalize(std::vector<float>& logits, std::span<const TokenId> before, double penalty) {
  std::vector<TokenId> ids(before.begin(), before.end());
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto factor = static_cast<float>(penalty);
  for (const TokenId id : ids) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

}  // namespace

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {
  const auto finite = [](double value) { return std::isfinite(value); };
  check(finite(sampling.temperature) && sampling.temperature >= 0, "temperature", sampling.temperature,
        "0 or more");
  check(sampling.top_p > 0 && sampling.top_p <= 1, "top-p", sampling.top_p, "more than 0, and 1 at most");
  check(sampling.min_p >= 0 && sampling.min_p <= 1, "min-p", sampling.min_p, "0 to 1");
  check(finite(sampling.repeat_penalty) && sampling.repeat_penalty > 0, "repeat-penalty",
        sampling.repeat_penalty, "more than 0");
}

TokenId Sampler::choose(std::span<const float> logits, std::span<const TokenId> before) {
  const Largest largest = largest_of(logits);
  for (std::size_t i = 0; largest.has_nan && i < logits.size(); ++i) {
    if (std::isnan(logits[i])) throw Error("the logit of token " + std::to_string(i) + " is not a number");
  }
  const bool penalizes = sampling_.repeat_penalty != 1;
  if (sampling_.temperature == 0 && !penalizes) return static_cast<TokenId>(largest.index);
  logits_.assign(logits.begin(), logits.end());
  if (penalizes) penalize(logits_, before, sampling_.repeat_penalty);
  return sampling_.temperature == 0 ? static_cast<TokenId>(largest_of(logits_).index) : draw();
}

TokenId Sampler::draw() {
  candidates_.clear();
  for (std::size_t i = 0; i < logits_.size(); ++i)
    candidates_.push_back({logits_[i] / sampling_.temperature, static_cast<TokenId>(i)});
  std::ranges::stable_sort(candidates_,
                           [](const Candidate& a, const Candidate& b) { return a.weight > b.weight; });
  const double largest = candidates_[0].weight;
  std::size_t kept = candidates_.size();
  if (sampling_.top_k > 0 && sampling_.top_k < kept) {
    const double last = candidates_[sampling_.top_k - 1].weight;
    kept = sampling_.top_k;
    while (kept < candidates_.size() && candidates_[kept].weight == last) ++kept;
  }
  // An infinite weight takes the whole probability.
  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    double& weight = candidates_[i].weight;
    weight = weight == largest ? 1 : std::exp(weight - largest);
    total += weight;
  }
  if (sampling_.top_p < 1) {
    double sum = 0;
    std::size_t count = 0;
    while (count < kept && sum < sampling_.top_p * total) sum += candidates_[count++].weight;
    kept = std::max<std::size_t>(count, 1);
  }
  while (kept > 1 && candidates_[kept - 1].weight < sampling_.min_p) --kept;
  total = 0;
  for (std::size_t i = 0; i < kept; ++i) total += candidates_[i].weight;
  // The distributions of standard libraries differ from one library to the next.
  constexpr int kBits = 53;
  double rest = std::ldexp(static_cast<double>(random_() >> (64 - kBits)), -kBits) * total;
  std::size_t chosen = 0;
  while (chosen + 1 < kept && rest >= candidates_[chosen].weight) rest -= candidates_[chosen++].weight;
  return candidates_[chosen].id;
}

}  // namespace crumb::runtime
