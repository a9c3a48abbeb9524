#include "formats/checkpoint/activation.h"

namespace crumb {

std::optional<Activation> parse_activation(std::string_view name) {
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  return std::nullopt;
}

}  // namespace crumb
