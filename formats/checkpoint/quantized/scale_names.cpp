#include "formats/checkpoint/quantized/scale_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/text/ascii_case.h"

namespace crumb::quantized {
namespace {

/// In the last part of a name: that of a scale, or of what else makes values of codes.
constexpr std::array<std::string_view, 14> kScaleWords = {
    "scale",  "scaling", "absmax", "amax",      "scb",   "quant_map", "quant_state",
    "qparam", "dequant", "zero_p", "zeropoint", "zeros", "code_book", "codebook"};
/// Words of networks themselves, which are no such thing.
constexpr std::array<std::string_view, 4> kNetworkWords = {"logit_scale", "layer_scale", "layerscale",
                                                           "layer_scaling"};
/// Last parts that belong to any weight of their module.
constexpr std::array<std::string_view, 9> kGeneric = {
    "scale", "scales", "_scale", "scale_inv", "scaling", "scaling_factor", "absmax", "amax", "zero_point"};
/// Last parts of activations' quantizers.
constexpr std::array<std::string_view, 18> kActivations = {
    "input_scale",   "input_scale_inv",   "scale_input",      "input_global_scale", "input_zero_point",
    "output_scale",  "output_zero_point", "activation_scale", "act_scale",          "qscale_act",
    "k_scale",       "v_scale",           "q_scale",          "kv_scale",           "k_cache_scale",
    "v_cache_scale", "prob_scale",        "scale_output"};
/// How codes' own names end where scales are named after what is before.
constexpr std::array<std::string_view, 8> kCodeEnds = {"_blocks", "_packed", "_quantized", "_codes",
                                                       "_data",   "_int8",   "_fp8",       "_q"};
/// Words in the last part of integers that are weights. Masks and tables of numbers are integers, too.
constexpr std::array<std::string_view, 6> kWeightWords = {"weight", "kernel", "data",
                                                          "codes",  "packed", "blocks"};

template <class Words>
bool holds_any(const std::string& name, const Words& words) {
  return std::ranges::any_of(words,
                             [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

template <class Names>
bool is_any(std::string_view name, const Names& names) {
  return std::ranges::find(names, name) != names.end();
}

bool looks_like_scale(std::string_view last) {
  const std::string lower = lower_case(std::string(last));
  return holds_any(lower, kScaleWords) && !holds_any(lower, kNetworkWords);
}

std::string_view without_code_end(std::string_view last) {
  for (const std::string_view end : kCodeEnds)
    if (last.size() > end.size() && last.ends_with(end)) return last.substr(0, last.size() - end.size());
  return last;
}

/// "up_scale" and "scale_up" after "up"; "gate_up_scale" is another's.
bool is_named_after(std::string_view scale, std::string_view name) {
  if (scale.ends_with(name)) return true;
  return scale.starts_with(name) && (scale[name.size()] == '_' || scale[name.size()] == '.');
}

bool may_be_scaled(const TensorEntry& tensor, std::string_view last) {
  if (dtype_bits(tensor.dtype) > 8 || tensor.dtype == DType::kBool || looks_like_scale(last) ||
      is_scale_mark(last))
    return false;
  const Result<std::uint64_t> count = element_count(tensor.shape);
  if (!count.ok() || count.value() == 0) return false;
  if (is_floating(tensor.dtype)) return tensor.dtype != DType::kF8E8M0;
  if (count.value() == 1) return false;
  return holds_any(lower_case(std::string(last)), kWeightWords) ||
         (tensor.dtype == DType::kI8 && tensor.shape.size() >= 2);
}

ScaleRole role_of(const TensorEntry& weight, std::string_view last, std::string_view scale) {
  if (is_activation_scale(scale)) return ScaleRole::kActivation;
  const std::string name(last), found(scale);
  if (found == name + "_scale") return ScaleRole::kWeight;
  if (!is_floating(weight.dtype)) return ScaleRole::kUnknown;
  const bool of_it = found == name + "_scale_inv" || found == "scale_" + name || found == "qscale_" + name;
  return of_it ? ScaleRole::kWeight : ScaleRole::kUnknown;
}

class Finder {
 public:
  explicit Finder(const std::vector<TensorEntry>& tensors) : tensors_(tensors) {
    for (const TensorEntry& tensor : tensors) {
      const auto [module, last] = part_name(tensor.name);
      if (looks_like_scale(last)) beside_[module].push_back(&tensor);
    }
  }

  std::vector<ScaledWeight> find() const {
    std::vector<ScaledWeight> found;
    for (const TensorEntry& tensor : tensors_) {
      const auto [module, last] = part_name(tensor.name);
      if (!may_be_scaled(tensor, last)) continue;
      ScaledWeight weight{.weight = &tensor};
      add_beside(module, last, weight);
      add_below(module, last, weight);
      if (!weight.scales.empty()) found.push_back(std::move(weight));
    }
    return found;
  }

 private:
  /// In the weight's own module.
  void add_beside(std::string_view module, std::string_view last, ScaledWeight& weight) const {
    const auto all = beside_.find(module);
    if (all == beside_.end()) return;
    for (const TensorEntry* tensor : all->second) {
      const std::string_view scale = part_name(tensor->name).last;
      const bool named = is_named_after(scale, without_code_end(last));
      const bool own = last == "weight" || named || is_any(scale, kGeneric);
      if (own) weight.scales.push_back({tensor, role_of(*weight.weight, last, scale)});
    }
  }

  /// "a.weight.absmax", "a.weight_quantizer._scale", "a.input_quantizer._pre_quant_scale".
  void add_below(std::string_view module, std::string_view last, ScaledWeight& weight) const {
    const std::size_t own = weight.weight->name.size();
    add_range(
        weight.weight->name,
        [](std::string_view rest) {
          return (rest.front() == '.' || rest.front() == '_') && rest.find('.') != std::string_view::npos;
        },
        weight, own);
    if (last != "weight" || module.empty()) return;
    add_range(
        std::string(module) + ".",
        [](std::string_view rest) {
          const std::size_t dot = rest.find('.');
          return dot != std::string_view::npos && rest.find("quantizer") < dot && !rest.starts_with("weight");
        },
        weight, module.size() + 1);
  }

  template <class Belongs>
  void add_range(const std::string& prefix, Belongs belongs, ScaledWeight& weight, std::size_t skip) const {
    auto at = std::ranges::lower_bound(tensors_, prefix, {}, &TensorEntry::name);
    for (; at != tensors_.end() && at->name.starts_with(prefix); ++at) {
      const std::string_view rest = std::string_view(at->name).substr(skip);
      if (!rest.empty() && belongs(rest) && looks_like_scale(part_name(at->name).last))
        weight.scales.push_back({&*at, ScaleRole::kUnknown});
    }
  }

  const std::vector<TensorEntry>& tensors_;
  std::map<std::string_view, std::vector<const TensorEntry*>> beside_;  ///< by module
};

}  // namespace

PartedName part_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool is_activation_scale(std::string_view last) { return is_any(last, kActivations); }

bool is_scale_mark(std::string_view last) { return last == "scaled_fp8" || last == "comfy_quant"; }

std::vector<ScaledWeight> find_scaled_weights(const std::vector<TensorEntry>& tensors) {
  return Finder(tensors).find();
}

}  // namespace crumb::quantized
