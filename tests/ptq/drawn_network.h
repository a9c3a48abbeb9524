// Networks of layers behind each other and beside each other, for tests of stages that change them.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "graph/onnx/infer_shapes.h"
#include "ptq/stages.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"
#include "tests/ptq/settings.h"

namespace crumb::ptq::test {

/// Convolutions of drawn widths, kernels, groups and strides, depthwise ones and batch norms among them, functions of elements,
/// constants and gates between, sums of two branches, pools; then an image or a mean of it that is flattened, and products.
class DrawnNetwork {
 public:
  explicit DrawnNetwork(std::mt19937& random) : random_(random) {
    std::string x = build_.input("x", {2, channels_, size_, size_});
    sample = drawn_tensor(random_, {2, channels_, size_, size_});
    const std::size_t layers = 2 + random_() % 3;
    for (std::size_t i = 0; i < layers; ++i) x = i > 0 && random_() % 5 == 0 ? branches(x) : image_layer(x);
    x = products(flat(between(x)));
    build_.graph.outputs.push_back(x);
    setting.graph = graph::infer_shapes(build_.graph);
  }

  Setting setting;
  graph::Tensor sample;

 private:
  bool one_of(unsigned count) { return random_() % count == 0; }

  std::string constant(const std::string& name, const std::vector<std::int64_t>& shape) {
    return build_.constant(name + std::to_string(++constants_), drawn_tensor(random_, shape));
  }

  std::string weight(const std::vector<std::int64_t>& shape, std::size_t axis) {
    const std::string name =
        build_.constant("w" + std::to_string(++constants_), drawn_tensor(random_, shape, true));
    const std::string spec = std::vector<std::string>{"int4:channel", "int3:tensor", "int2h:channel",
                                                      "e2m1:channel", "int3:group=4:pad"}[random_() % 5];
    if (!one_of(6)) will_be(setting, name, axis, spec);
    return name;
  }

  std::string conv(const std::string& x, std::int64_t outputs, std::int64_t groups, std::int64_t kernel,
                   std::int64_t stride) {
    std::vector<std::string> inputs = {x, weight({outputs, channels_ / groups, kernel, kernel}, 0)};
    if (!one_of(3)) inputs.push_back(constant("b", {outputs}));
    const std::int64_t pad = kernel / 2;
    channels_ = outputs;
    return build_.node("Conv", std::move(inputs),
                       {{"group", groups},
                        {"pads", std::vector<std::int64_t>(4, pad)},
                        {"strides", std::vector<std::int64_t>(2, stride)}});
  }

  std::string image_layer(std::string x) {
    x = between(std::move(x));
    if (one_of(4)) x = between(conv(x, channels_, channels_, 3, 1));
    const std::int64_t groups = channels_ % 2 == 0 && one_of(3) ? 2 : 1,
                       outputs = 2 * (1 + static_cast<std::int64_t>(random_() % 8)),
                       stride = size_ > 4 && one_of(4) ? 2 : 1;
    size_ = (size_ + stride - 1) / stride;
    x = conv(x, outputs, groups, one_of(2) ? 1 : 3, stride);
    if (one_of(12)) build_.graph.outputs.push_back(x);
    return x;
  }

  /// Two layers that meet again, or one and what went in.
  std::string branches(const std::string& x) {
    const std::int64_t before = channels_, outputs = one_of(2) ? before : 6;
    const std::string left = between(conv(x, outputs, 1, 3, 1));
    channels_ = before;
    const std::string right = outputs == before && one_of(2) ? x : conv(x, outputs, 1, 1, 1);
    channels_ = outputs;
    return build_.node(one_of(2) ? "Add" : "Mul", {left, right});
  }

  /// What keeps channels apart; seldom what does not.
  std::string between(std::string x) {
    for (unsigned i = random_() % 3; i > 0; --i) {
      switch (random_() % 12) {
        case 0: x = build_.node("Relu", {x}); break;
        case 1: x = build_.node("LeakyRelu", {x}, {{"alpha", 0.1F}}); break;
        case 2: x = build_.node("PRelu", {x, constant("p", {channels_, 1, 1})}); break;
        case 3: x = build_.node("Sigmoid", {x}); break;
        case 4: x = build_.node("Mul", {x, constant("m", {channels_, 1, 1})}); break;
        case 5: x = build_.node("Add", {constant("a", {1, channels_, 1, 1}), x}); break;
        case 6: x = build_.node("Sub", {x, constant("a", {size_, size_})}); break;
        case 7: x = build_.node("Mul", {x, build_.node("Tanh", {x})}); break;
        case 8: x = build_.node("Mul", {x, build_.node("GlobalAveragePool", {x})}); break;
        case 9: x = norm(x); break;
        case 10:
          x = build_.node(
              "AveragePool", {x},
              {{"kernel_shape", std::vector<std::int64_t>{3, 3}}, {"pads", std::vector<std::int64_t>(4, 1)}});
          break;
        default:
          x = one_of(3) ? build_.node("Softmax", {x}, {{"axis", std::int64_t{1}}}) : build_.node("Elu", {x});
      }
    }
    return x;
  }

  std::string norm(const std::string& x) {
    std::vector<float> variances(static_cast<std::size_t>(channels_));
    for (float& variance : variances) variance = 0.5F + static_cast<float>(random_() % 100) / 50;
    const std::string variance =
        build_.constant("v" + std::to_string(++constants_), graph::Tensor::floats({channels_}, variances));
    return build_.node("BatchNormalization", {x, constant("g", {channels_}), constant("b", {channels_}),
                                              constant("m", {channels_}), variance});
  }

  std::string flat(std::string x) {
    if (one_of(2)) {
      x = build_.node(one_of(2) ? "GlobalAveragePool" : "GlobalMaxPool", {x});
      size_ = 1;
    }
    channels_ *= size_ * size_;
    if (one_of(2)) return build_.node("Flatten", {x});
    const std::int64_t rest = one_of(2) ? -1 : channels_;
    const std::vector<std::int64_t> shape = {rest == -1 ? 2 : -1, rest};
    return build_.node("Reshape", {x, build_.constant("shape", graph::Tensor::ints({2}, shape))});
  }

  std::string products(std::string x) {
    if (one_of(2)) x = build_.node("Tanh", {x});
    if (one_of(2)) {
      // As language models have it.
      const std::string up = build_.node("MatMul", {x, weight({channels_, 8}, 1)}),
                        gate = build_.node("MatMul", {x, weight({channels_, 8}, 1)});
      x = build_.node("Mul", {build_.node("Sigmoid", {gate}), build_.node("Add", {up, constant("b", {8})})});
    } else {
      x = build_.node("Gemm", {x, weight({8, channels_}, 0), constant("b", {8})},
                      {{"transB", std::int64_t{1}}});
      x = build_.node("Relu", {x});
    }
    return build_.node("Gemm", {x, weight({8, 3}, 1), constant("b", {1, 3})});
  }

  std::mt19937& random_;
  graph::NodeBuilder build_;
  std::int64_t channels_ = 3, size_ = 5;
  int constants_ = 0;
};

}  // namespace crumb::ptq::test
