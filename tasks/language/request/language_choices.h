// What can be chosen of training a language model, by name. Free of LibTorch.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::tasks {

/// What training makes small, a mean over the positions that predict a token that counts.
enum class LanguageLoss : std::uint8_t {
  kDivergence,  ///< Kullback-Leibler, of predictions from the float network's
  kHidden,  ///< the error of what the last layer gives, relative to what the float network's gives, token by token
  kNextToken,  ///< cross entropy, without the float network
  kMix,  ///< half of kHidden and half of kNextToken (RILQ, Lee et al., arXiv:2412.01129), of encoders kCosine
  kCosine,  ///< of encoders: 1 - the cosine between a line's vector and the float network's
};

inline constexpr std::array<std::string_view, 5> kLanguageLossNames = {"kl", "hidden", "ce", "mix", "cosine"};

/// How an adapter begins, before it is trained.
enum class AdapterStart : std::uint8_t {
  kZero,  ///< as if it were not there
  kSvd,   ///< the nearest of its rank to what rounding took from each matrix (ZeroQuant-V2, arXiv:2303.08302)
  kWhitened,  ///< the same as the layer's inputs see it (QERA, arXiv:2410.06040; CLoQ, arXiv:2501.18475)
  kKept,  ///< what the base's own adapter of the name is: it goes on, and the other options of adapters say nothing
};

inline constexpr std::array<std::string_view, 4> kAdapterStartNames = {"zero", "svd", "whitened", "kept"};

/// How many directions of each layer an adapter gets, for kSvd and kWhitened.
enum class AdapterRanks : std::uint8_t {
  kEven,   ///< its rank
  kError,  ///< more where more of the error is won by it: of all layers' directions, the errors taken relative to what the layers
  ///< give, those that win most for each of their weights, as long as the adapter of the even rank is large; one at least
};

inline constexpr std::array<std::string_view, 2> kAdapterRanksNames = {"even", "error"};

inline std::string_view name_of(AdapterRanks ranks) {
  return kAdapterRanksNames.at(static_cast<std::size_t>(ranks));
}

/// Whether the network computes something else with the adapter than it did before it was given one.
constexpr bool begins_elsewhere(AdapterStart start) {
  return start == AdapterStart::kSvd || start == AdapterStart::kWhitened;
}

/// What numbers are multiplied as in training steps, by the student and by the teacher; weights, codes, sums and what is
/// measured are float32.
enum class Products : std::uint8_t {
  kFloat32,
  kBfloat16,  ///< of CPUs
  kTf32,      ///< of GPUs: float32 with 10 bits of mantissa
};
inline constexpr std::array<std::string_view, 3> kProductsNames = {"f32", "bf16", "tf32"};

inline std::string_view name_of(LanguageLoss loss) {
  return kLanguageLossNames.at(static_cast<std::size_t>(loss));
}
inline std::string_view name_of(AdapterStart start) {
  return kAdapterStartNames.at(static_cast<std::size_t>(start));
}
/// What the optimizer keeps of each number that learns, twice (qat/optimize/short_adamw.h).
enum class OptimizerStates : std::uint8_t { kFloat32, kBfloat16, kInt8 };

inline constexpr std::array<std::string_view, 3> kOptimizerStatesNames = {"f32", "bf16", "int8"};

inline std::string_view name_of(OptimizerStates states) {
  return kOptimizerStatesNames.at(static_cast<std::size_t>(states));
}

inline std::string_view name_of(Products products) {
  return kProductsNames.at(static_cast<std::size_t>(products));
}

/// The choice of that name. Throws usage Error, which begins with `what`, a flag, and has all names, for others.
template <class Choice, std::size_t kCount>
Choice chosen(const std::array<std::string_view, kCount>& names, const std::string& name, const char* what) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<Choice>(found - names.begin());
  std::string expected;
  for (std::size_t i = 0; i < kCount; ++i)
    expected += (i == 0 ? "" : i + 1 == kCount ? " or " : ", ") + std::string(names.at(i));
  throw usage_error(std::string(what) + " " + quote_text(name) + ": expected " + expected);
}

}  // namespace crumb::tasks
