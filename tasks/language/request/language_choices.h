// The choices in training a language model, by name. Free of LibTorch.
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

/// What training minimizes: a mean over the positions that predict a token that counts.
enum class LanguageLoss : std::uint8_t {
  kDivergence,  ///< Kullback-Leibler divergence of predictions from the float network's
  kHidden,      ///< error of the last layer's output, relative to the float network's, token by token
  kNextToken,   ///< cross entropy, without the float network
  kMix,         ///< half kHidden, half kNextToken (RILQ, Lee et al., arXiv:2412.01129); encoders: kCosine
  kCosine,      ///< for encoders: 1 - the cosine between a line's vector and the float network's
};

inline constexpr std::array<std::string_view, 5> kLanguageLossNames = {"kl", "hidden", "ce", "mix", "cosine"};

/// What an adapter begins as, before it is trained.
enum class AdapterStart : std::uint8_t {
  kZero,      ///< as if there were no adapter
  kSvd,       ///< the nearest of its rank to each matrix' rounding error (ZeroQuant-V2, arXiv:2303.08302)
  kWhitened,  ///< the same, as the layer's inputs see it (QERA, arXiv:2410.06040; CLoQ, arXiv:2501.18475)
  kKept,      ///< the base's own adapter of the name: it goes on, and other options of adapters are ignored
};

inline constexpr std::array<std::string_view, 4> kAdapterStartNames = {"zero", "svd", "whitened", "kept"};

/// How many directions of each layer an adapter gets, for kSvd and kWhitened.
enum class AdapterRanks : std::uint8_t {
  kEven,   ///< the adapter's rank in each layer
  kError,  ///< more where they win more of the error: of all layers' directions those that win most for each
           ///< of their weights, errors relative to the layers' outputs, until the adapter is as large as
           ///< with the even rank; at least one a layer
};

inline constexpr std::array<std::string_view, 2> kAdapterRanksNames = {"even", "error"};

inline std::string_view name_of(AdapterRanks ranks) {
  return kAdapterRanksNames.at(static_cast<std::size_t>(ranks));
}

/// Whether an adapter with this start changes what the network computes.
constexpr bool begins_elsewhere(AdapterStart start) {
  return start == AdapterStart::kSvd || start == AdapterStart::kWhitened;
}

/// The number type of products in training steps, for the student and the teacher. Weights, codes, sums and
/// measurements are float32.
enum class Products : std::uint8_t {
  kFloat32,
  kBfloat16,  ///< on CPUs
  kTf32,      ///< on GPUs: float32 with 10 bits of mantissa
};
inline constexpr std::array<std::string_view, 3> kProductsNames = {"f32", "bf16", "tf32"};

inline std::string_view name_of(LanguageLoss loss) {
  return kLanguageLossNames.at(static_cast<std::size_t>(loss));
}
inline std::string_view name_of(AdapterStart start) {
  return kAdapterStartNames.at(static_cast<std::size_t>(start));
}
/// The type of the two numbers that the optimizer stores for each number that learns
/// (qat/optimize/short_adamw.h).
enum class OptimizerStates : std::uint8_t { kFloat32, kBfloat16, kInt8 };

inline constexpr std::array<std::string_view, 3> kOptimizerStatesNames = {"f32", "bf16", "int8"};

inline std::string_view name_of(OptimizerStates states) {
  return kOptimizerStatesNames.at(static_cast<std::size_t>(states));
}

inline std::string_view name_of(Products products) {
  return kProductsNames.at(static_cast<std::size_t>(products));
}

/// Returns the choice of that name. Throws usage Error for others, which begins with `what`, a flag, and has
/// all names.
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
