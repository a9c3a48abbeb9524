// Many small modules and functions at once: each is captured and compared, and a failure says which.
#pragma once

#include "tests/libtorch/capture/check_capture.h"
//
#include <functional>
#include <string>
#include <vector>

namespace crumb::testing {

using Function = std::function<at::Tensor(const at::Tensor&)>;

struct Case {
  std::string name;
  Inputs inputs;
  Function function;
};

inline void check_all(const std::vector<Case>& cases) {
  torch::manual_seed(6);
  for (const Case& one : cases) {
    CAPTURE(one.name);
    const auto failure = [&]() -> std::string {
      try {
        check_function(one.inputs, [&](const Tensors& x) { return Tensors{one.function(x[0])}; });
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    }();
    CHECK(failure == "");
  }
}

struct Layer {
  std::string name;
  torch::nn::AnyModule layer;
  Inputs inputs;
};

inline void check_all(std::vector<Layer> layers) {
  torch::manual_seed(7);
  for (Layer& one : layers) {
    CAPTURE(one.name);
    const auto module = one.layer.ptr();
    {
      const torch::NoGradGuard no_gradients;
      for (auto& parameter : module->named_parameters()) {
        if (parameter.value().dim() == 1) parameter.value().uniform_(0.5, 1.5);
      }
      for (auto& buffer : module->named_buffers()) {
        if (buffer.value().is_floating_point()) buffer.value().uniform_(0.5, 1.5);
      }
    }
    const auto failure = [&]() -> std::string {
      try {
        check_capture(*module, one.inputs,
                      [&](const Tensors& x) { return Tensors{one.layer.forward(x[0])}; });
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    }();
    CHECK(failure == "");
  }
}

}  // namespace crumb::testing
