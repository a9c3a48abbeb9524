#include "runtime/encoder/pooling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "runtime/encoder/elementwise.h"

namespace crumb::runtime {
namespace {

struct ModeName {
  PoolingMode mode;
  std::string_view name;
  const char* flag;
};

constexpr std::array<ModeName, 6> kModes = {{
    {PoolingMode::kCls, "cls", "pooling_mode_cls_token"},
    {PoolingMode::kMax, "max", "pooling_mode_max_tokens"},
    {PoolingMode::kMean, "mean", "pooling_mode_mean_tokens"},
    {PoolingMode::kMeanSqrtLen, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {PoolingMode::kWeightedMean, "weightedmean", "pooling_mode_weightedmean_tokens"},
    {PoolingMode::kLastToken, "lasttoken", "pooling_mode_lasttoken"},
}};

PoolingMode parse_mode(const JsonFile& config, const nlohmann::json& name) {
  for (const ModeName& mode : kModes) {
    if (name.is_string() && name == mode.name) return mode.mode;
  }
  throw config.error(
      "\"pooling_mode\" must be one or more of cls, max, mean, mean_sqrt_len_tokens, weightedmean, "
      "lasttoken");
}

void pool_sum(std::span<const float> states, size_t width, PoolingMode mode, std::span<float> out) {
  const size_t length = states.size() / width;
  std::ranges::fill(out, 0.0F);
  float total = 0;
  for (size_t i = 0; i < length; ++i) {
    const float weight = mode == PoolingMode::kWeightedMean ? static_cast<float>(i + 1) : 1.0F;
    for (size_t j = 0; j < width; ++j) out[j] += weight * states[i * width + j];
    total += weight;
  }
  const float divisor = mode == PoolingMode::kMeanSqrtLen ? std::sqrt(total) : total;
  for (float& x : out) x /= divisor;
}

void pool_max(std::span<const float> states, size_t width, std::span<float> out) {
  std::ranges::copy(states.first(width), out.begin());
  for (size_t at = width; at < states.size(); at += width) {
    for (size_t j = 0; j < width; ++j) out[j] = std::max(out[j], states[at + j]);
  }
}

}  // namespace

std::vector<PoolingMode> parse_pooling(const JsonFile& config) {
  std::vector<PoolingMode> modes;
  if (config.has("pooling_mode")) {
    const nlohmann::json& value = config.root().at("pooling_mode");
    if (!value.is_array()) return {parse_mode(config, value)};
    for (const auto& name : value) modes.push_back(parse_mode(config, name));
  } else {
    for (const ModeName& mode : kModes) {
      if (config.boolean(mode.flag).value_or(false)) modes.push_back(mode.mode);
    }
  }
  if (modes.empty()) modes.push_back(PoolingMode::kMean);
  return modes;
}

void pool(std::span<const float> states, size_t width, const std::vector<PoolingMode>& modes,
          std::span<float> out) {
  for (size_t m = 0; m < modes.size(); ++m) {
    const auto part = out.subspan(m * width, width);
    switch (modes[m]) {
      case PoolingMode::kCls: std::ranges::copy(states.first(width), part.begin()); break;
      case PoolingMode::kLastToken: std::ranges::copy(states.last(width), part.begin()); break;
      case PoolingMode::kMax: pool_max(states, width, part); break;
      default: pool_sum(states, width, modes[m], part);
    }
  }
}

}  // namespace crumb::runtime
