// Chooses the next token from its logits.
//
// The same steps as transformers, in its order: the repetition penalty (Keskar et al. 2019, arXiv:1909.05858)
// divides positive logits of tokens that occurred already and multiplies negative ones; the temperature
// divides all; top_k keeps the k largest (and what equals the last of them); top_p the most probable ones
// that together reach this probability (Holtzman et al. 2020, arXiv:1904.09751); min_p those with at least
// this share of the highest probability (arXiv:2407.01082). One of the rest is drawn. Probabilities are
// float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "text/wordpiece.h"

namespace crumb::runtime {

struct Sampling {
  double temperature = 0;  ///< 0: the largest logit, the lowest id of equal ones
  std::size_t top_k = 0;   ///< 0: all
  double top_p = 1;
  double min_p = 0;
  double repeat_penalty = 1;
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  /// Throws Error(kUsage), which names the option, where a number is out of range.
  explicit Sampler(const Sampling& sampling);

  /// `before`: the tokens so far. The same seed gives the same tokens for the same logits. Throws Error where
  /// a logit is NaN.
  text::TokenId choose(std::span<const float> logits, std::span<const text::TokenId> before);

 private:
  text::TokenId draw();

  Sampling sampling_;
  std::mt19937_64 random_;
  std::vector<float> logits_;
  struct Candidate {
    double weight;  ///< its logit, then its probability times a constant
    text::TokenId id;
  };
  std::vector<Candidate> candidates_;
};

}  // namespace crumb::runtime
