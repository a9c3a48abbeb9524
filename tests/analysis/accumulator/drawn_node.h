// Nodes drawn in every form that registers take. Numbers are small multiples of powers of two, so that floats are exact.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/analysis/accumulator/networks.h"

namespace crumb::analysis {

inline constexpr float kStep = 0.5F, kWeightStep = 0.25F;

/// One node, its inputs as they are, and the graph around it in which its operands are quantized.
struct DrawnNode {
  using Ints = std::vector<std::int64_t>;
  using S = std::string;
  using ElementType = graph::ElementType;
  using Tensor = graph::Tensor;

  std::mt19937 engine;
  Net net;
  graph::Node node;
  std::vector<Tensor> inputs;  ///< of the node
  std::vector<S> names;

  explicit DrawnNode(unsigned seed) : engine(seed) {}

  int draw(int low, int high) { return std::uniform_int_distribution(low, high)(engine); }
  bool one_in(int count) { return draw(1, count) == 1; }

  Tensor floats(const Ints& shape, int low, int high, float step) {
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).take()));
    for (float& one : values) one = static_cast<float>(draw(low, high)) * step;
    return Tensor::floats(shape, values);
  }
  Tensor bytes(ElementType type, const Ints& shape) {
    std::vector<std::byte> values(static_cast<std::size_t>(graph::count_elements(shape).take()));
    for (std::byte& one : values) one = static_cast<std::byte>(draw(0, 255));
    return {type, shape, values};
  }

  bool is_integer() const { return node.op.ends_with("Integer"); }

  void take(const S& name, Tensor tensor) {
    names.push_back(name);
    inputs.push_back(std::move(tensor));
  }
  /// An operand that a quantizer behind an input of the graph makes.
  void computed(const S& name, const Ints& shape, float step) {
    take(net.quant(net.input(name, shape), Tensor::scalar(step), 0, 4), floats(shape, -8, 7, step));
  }
  void constant(const S& name, const Ints& shape, float step) {
    const Tensor values = floats(shape, -7, 7, step);
    take(net.quant(net.constant(name, values), Tensor::scalar(step), 0, 4), values);
  }
  void weight(const Ints& shape, bool is_computed) {
    is_computed ? computed("w", shape, kWeightStep) : constant("w", shape, kWeightStep);
  }
  /// One that stands in the registers, or one of other steps.
  void bias(const Ints& shape) {
    if (one_in(2)) {
      const Tensor values = floats(shape, -20, 20, kStep * kWeightStep);
      take(net.quant(net.constant("b", values), Tensor::scalar(kStep * kWeightStep), 0, 16), values);
    } else {
      const Tensor values = floats(shape, -20, 20, 0.0625F);
      take(net.constant("b", values), values);
    }
  }
  void finish(const S& op, std::map<S, graph::Attribute> attributes,
              std::string_view domain = graph::kOnnxDomain) {
    net.graph.outputs = {net.node(op, names, std::move(attributes), domain)};
    node = net.graph.nodes.back();
  }

  void matrices() {
    const std::int64_t rows = draw(1, 3), terms = draw(1, 5), columns = draw(1, 4);
    const bool is_computed = one_in(3), weight_first = one_in(2) && !is_computed;
    Ints a{rows, terms}, b{terms, columns};
    if (one_in(4)) a = {terms};
    if (one_in(4)) b = {terms};
    const auto stacked = [&](Ints& shape, std::int64_t size) {
      if (shape.size() == 2) shape.insert(shape.begin(), one_in(3) ? 1 : size);
    };
    const std::int64_t size = draw(2, 3);
    if (one_in(2)) stacked(a, size);
    if (one_in(2)) stacked(b, size);
    if (a.size() == 3 && one_in(3)) a.insert(a.begin(), 2);
    if (b.size() == 3 && one_in(3)) b.insert(b.begin(), 2);
    weight_first ? constant("a", a, kWeightStep) : computed("a", a, kStep);
    if (weight_first) {
      computed("b", b, kStep);
    } else {
      weight(b, is_computed);
    }
    finish("MatMul", {});
  }

  void gemm() {
    const std::int64_t rows = draw(1, 3), terms = draw(1, 5), columns = draw(1, 4);
    const bool transposed_a = one_in(2), transposed_b = one_in(2), is_computed = one_in(3);
    computed("a", transposed_a ? Ints{terms, rows} : Ints{rows, terms}, kStep);
    weight(transposed_b ? Ints{columns, terms} : Ints{terms, columns}, is_computed);
    const bool adds = one_in(2);
    if (adds) bias(one_in(3) ? Ints{1} : Ints{columns});
    std::map<S, graph::Attribute> attributes;
    if (transposed_a) attributes["transA"] = std::int64_t{1};
    if (transposed_b) attributes["transB"] = std::int64_t{1};
    if (one_in(3)) attributes["alpha"] = 2.0F;
    if (adds && one_in(3)) attributes["beta"] = 0.5F;
    finish("Gemm", attributes);
  }

  void convolution() {
    const bool is_transposed = one_in(3), is_computed = !is_transposed && one_in(3),
               is_last = !is_transposed && one_in(4);
    const std::int64_t groups = draw(1, 2), in = draw(1, 2), out = draw(1, 2);
    const auto axes = static_cast<std::size_t>(draw(1, 2));
    Ints image, kernel, strides, dilations, pads(2 * axes);
    for (std::size_t i = 0; i < axes; ++i) {
      kernel.push_back(draw(1, is_transposed ? 5 : 3));
      strides.push_back(draw(1, 3));
      dilations.push_back(draw(1, 2));
      image.push_back((kernel[i] - 1) * dilations[i] + draw(1, 4));
    }
    for (std::size_t i = 0; i < 2 * axes; ++i) {
      const std::size_t axis = i % axes;
      const std::int64_t most = (image[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis];
      pads[i] = is_transposed && most < 2 ? 0 : draw(0, 1);  // a result is left
    }
    Ints x{draw(1, 2), groups * in}, w = is_transposed ? Ints{groups * in, out} : Ints{groups * out, in};
    x.insert(x.end(), image.begin(), image.end());
    w.insert(w.end(), kernel.begin(), kernel.end());
    if (is_last) {
      net.graph.opsets[S(graph::kChannelsLastDomain)] = 1;
      std::rotate(x.begin() + 1, x.begin() + 2, x.end());
      std::rotate(w.begin() + 1, w.begin() + 2, w.end());
    }
    computed("x", x, kStep);
    weight(w, is_computed);
    if (one_in(2)) bias({groups * out});
    std::map<S, graph::Attribute> attributes{{"pads", pads}, {"strides", strides}, {"dilations", dilations}};
    if (strides == Ints(axes, 1) && one_in(2)) attributes.erase("strides");
    if (dilations == Ints(axes, 1) && one_in(2)) attributes.erase("dilations");
    if (groups > 1 || one_in(2)) attributes["group"] = groups;
    if (!is_transposed && one_in(4)) {
      attributes.erase("pads");
      attributes["auto_pad"] = S(one_in(2) ? "SAME_UPPER" : "SAME_LOWER");
    }
    finish(is_transposed ? "ConvTranspose" : "Conv", attributes,
           is_last ? graph::kChannelsLastDomain : graph::kOnnxDomain);
  }

  void equation() {
    static const std::vector<std::pair<S, S>> kLabels{{"ik", "kj"},  {"bik", "bkj"}, {"kib", "jkb"},
                                                      {"ijk", "kj"}, {"k", "kj"},    {"bi", "bi"},
                                                      {"i", "j"},    {"bkij", "kl"}};
    static const std::vector<S> kResults{"ij", "jib", "bij", "i", "j", "b", "ji", "jlib"};
    const auto at = static_cast<std::size_t>(draw(0, static_cast<int>(kLabels.size()) - 1));
    std::map<char, std::int64_t> sizes;
    for (const char label : S("bijkl")) sizes[label] = draw(1, 3);
    const auto shape_of = [&](const S& labels) {
      Ints shape;
      for (const char label : labels) shape.push_back(sizes.at(label));
      return shape;
    };
    const auto& [a, b] = kLabels[at];
    const bool is_computed = one_in(3), weight_first = !is_computed && one_in(2);
    weight_first ? constant("a", shape_of(a), kWeightStep) : computed("a", shape_of(a), kStep);
    weight_first ? computed("b", shape_of(b), kStep) : weight(shape_of(b), is_computed);
    finish("Einsum", {{"equation", a + "," + b + "->" + kResults[at]}});
  }

  /// Of integers, less zero points: one, or one for each row, column or channel.
  void integers() {
    const bool is_convolution = one_in(2);
    const auto kind = [&] { return one_in(2) ? ElementType::kInt8 : ElementType::kUint8; };
    const ElementType x_type = kind(), w_type = kind();
    const std::int64_t rows = draw(1, 3), terms = draw(1, 4), columns = draw(1, 3);
    const Ints x = is_convolution ? Ints{1, terms, 4, 3} : Ints{rows, terms},
               w = is_convolution ? Ints{columns, terms, 2, 1} : Ints{terms, columns};
    net.input("x", x);
    net.graph.values["x"].type = x_type;
    take("x", bytes(x_type, x));
    const Tensor weights = bytes(w_type, w);
    take(net.constant("w", weights), weights);
    const int zeros = draw(0, 2);
    if (zeros > 0) {
      const Tensor zero = bytes(x_type, one_in(2) ? Ints{} : Ints{1});
      take(net.constant("x_zero", zero), zero);
    }
    if (zeros > 1) {
      const Tensor zero = bytes(w_type, one_in(2) ? Ints{} : Ints{columns});
      take(net.constant("w_zero", zero), zero);
    }
    finish(is_convolution ? "ConvInteger" : "MatMulInteger",
           is_convolution ? std::map<S, graph::Attribute>{{"pads", Ints{1, 0, 0, 1}}}
                          : std::map<S, graph::Attribute>{});
  }
};

}  // namespace crumb::analysis
