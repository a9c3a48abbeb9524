// The activations that configurations of networks name.
#pragma once

#include <optional>
#include <string_view>

namespace crumb {

/// GELU is x * Phi(x); its tanh form x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))); SiLU x *
/// sigmoid(x).
enum class Activation { kGelu, kGeluTanh, kRelu, kSilu, kTanh, kIdentity };

/// From "hidden_act" of a Hugging Face configuration: gelu, gelu_new, gelu_pytorch_tanh, relu, silu.
std::optional<Activation> parse_activation(std::string_view name);

}  // namespace crumb
