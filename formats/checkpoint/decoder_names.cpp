#include "formats/checkpoint/decoder_names.h"

#include <algorithm>
#include <array>

namespace crumb {
namespace {

/// In front of a decoder's own names.
constexpr std::array<std::string_view, 8> kWrappers = {
    "model",      "language_model", "text_model",           "module",
    "base_model", "_orig_mod",      "_fsdp_wrapped_module", "_checkpoint_wrapped_module"};
/// Anywhere.
constexpr std::array<std::string_view, 3> kTransparent = {"_orig_mod", "_fsdp_wrapped_module",
                                                          "_checkpoint_wrapped_module"};
constexpr std::array<std::string_view, 3> kDecoderParts = {"embed_tokens", "layers", "norm"};
constexpr std::string_view kDecoderHead = "lm_head";

template <class Names>
bool is_any(std::string_view name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The first component of a name, which is taken off it.
std::string_view take_component(std::string_view& name) {
  const std::size_t dot = name.find('.');
  const std::string_view first = name.substr(0, dot);
  name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  return first;
}

}  // namespace

std::optional<std::string> decoder_name(std::string_view stored) {
  std::string_view rest = stored, first = take_component(rest);
  while (!rest.empty() && is_any(first, kWrappers)) first = take_component(rest);
  if (rest.empty() || (first != kDecoderHead && !is_any(first, kDecoderParts))) return std::nullopt;
  std::string name = (first == kDecoderHead ? "" : "model.") + std::string(first);
  while (!rest.empty()) {
    const std::string_view next = take_component(rest);
    if (!is_any(next, kTransparent)) name.append(".").append(next);
  }
  return name;
}

std::string part_beside_decoder(std::string_view stored) {
  std::string_view rest = stored, first = take_component(rest);
  while (!rest.empty() && is_any(first, kWrappers)) first = take_component(rest);
  return std::string(stored.substr(0, static_cast<std::size_t>(first.data() - stored.data()) + first.size()));
}

}  // namespace crumb
