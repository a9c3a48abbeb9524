// Layers small enough to try every input of, each with what its registers add up, as it was made: for each register the
// numbers that each term can be, and the bias.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/graph/node_builder.h"

namespace crumb::analysis {

/// What one register adds up: for each term every product that it can be.
struct AddedNumbers {
  std::vector<std::vector<std::int64_t>> terms;
  std::int64_t bias = 0;
};
using AddedRows = std::vector<std::vector<AddedNumbers>>;  ///< of each channel

struct SmallLayer {
  graph::NodeBuilder net;
  std::string node;
  bool has_codes = true;          ///< else both operands are computed
  std::vector<AddedRows> worlds;  ///< one for each zero point that is computed; else one
  bool refused = false;
};

class LayerMaker {
 public:
  using Ints = std::vector<std::int64_t>;

  explicit LayerMaker(unsigned seed) : engine_(seed) {}

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool coin() { return draw(0, 1) == 1; }

  SmallLayer make(std::size_t kind, std::size_t tile) {
    layer_ = {};
    tile_ = tile;
    counter_ = 0;
    kKinds[kind].make(*this);
    return std::move(layer_);
  }

  struct Kind {
    const char* name;
    void (*make)(LayerMaker&);
  };
  static const std::vector<Kind> kKinds;

 private:
  // ---- Operands ----

  struct Operand {
    std::string value;
    Ints numbers;  ///< a term can be, the zero point taken off
  };

  std::string fresh(const char* base) { return base + std::to_string(counter_++); }

  /// A computed operand behind a 2-bit quantizer with a zero point.
  Operand quantized_input(const Ints& shape) {
    const bool is_signed = coin(), narrow = is_signed && coin();
    const std::int64_t zero = draw(0, 2), low = is_signed ? (narrow ? -1 : -2) : 0, high = is_signed ? 1 : 3;
    Operand made{.value = {}, .numbers = {}};
    made.value = layer_.net.quant(layer_.net.input(fresh("x"), shape), graph::Tensor::scalar(kInputScale),
                                  static_cast<float>(zero), 2, is_signed, narrow);
    for (std::int64_t q = low; q <= high; ++q) made.numbers.push_back(q - zero);
    return made;
  }

  /// Constant codes behind a 2-bit quantizer with a zero point; `codes`: less the zero point.
  std::string quantized_weight(const Ints& shape, Ints& codes) {
    const bool is_signed = coin(), narrow = is_signed && coin();
    const std::int64_t zero = draw(0, 2), low = is_signed ? (narrow ? -1 : -2) : 0, high = is_signed ? 1 : 3;
    codes.resize(static_cast<std::size_t>(graph::count_elements(shape).take()));
    std::vector<float> values;
    for (std::int64_t& code : codes) {
      code = draw(low, high) - zero;
      values.push_back(static_cast<float>(code) * kWeightScale);
    }
    return layer_.net.quant(layer_.net.constant(fresh("w"), graph::Tensor::floats(shape, values)),
                            graph::Tensor::scalar(kWeightScale), static_cast<float>(zero), 2, is_signed,
                            narrow);
  }

  /// A graph's input of two bits, as an integer type.
  std::string integer_input(const Ints& shape) {
    const std::string name = fresh("x");
    layer_.net.graph.inputs.push_back(name);
    layer_.net.graph.values[name] = {.type = graph::ElementType::kUint8,
                                     .shape = graph::Shape(shape.begin(), shape.end()),
                                     .annotations = {{"finn_datatype", "UINT2"}}};
    return name;
  }

  std::string integers(const Ints& shape, const Ints& numbers) {
    std::vector<std::byte> bytes;
    for (const std::int64_t one : numbers)
      bytes.push_back(static_cast<std::byte>(static_cast<std::int8_t>(one)));
    return layer_.net.constant(fresh("c"), graph::Tensor(graph::ElementType::kInt8, shape, bytes));
  }

  std::string scalar(float number) {
    return layer_.net.constant(fresh("factor"), graph::Tensor::scalar(number));
  }

  /// Codes of a bias inside, or zeros for one that is after or not there; its value, or "".
  std::string bias(const Ints& shape, Ints& codes) {
    codes.assign(static_cast<std::size_t>(graph::count_elements(shape).take()), 0);
    const std::int64_t where = draw(0, 2);
    if (where == 0) return {};
    const float unit = kInputScale * kWeightScale;
    std::vector<float> values;
    for (std::int64_t& code : codes) {
      const std::int64_t drawn = draw(-9, 9);
      if (where == 1) code = drawn;
      values.push_back(static_cast<float>(drawn) * unit + (where == 2 ? 0.3F * unit : 0));
    }
    const std::string value = layer_.net.constant(fresh("offset"), graph::Tensor::floats(shape, values));
    return where == 1 ? layer_.net.quant(value, graph::Tensor::scalar(unit), 0, 16) : value;
  }

  // ---- AddedRows ----

  static Ints times(std::int64_t code, const Ints& numbers) {
    Ints products;
    for (const std::int64_t number : numbers) products.push_back(code * number);
    return products;
  }

  /// AddedRows of codes, in tiles; `part` of each term: which sum of the row it is in (a transposed convolution's phase).
  /// A bias is in the first tile of each part.
  void add_world(const std::vector<Ints>& rows, const Ints& numbers, const Ints& biases,
                 const Ints& part = {}) {
    AddedRows all;
    for (std::size_t c = 0; c < rows.size(); ++c) {
      std::map<std::pair<std::int64_t, std::size_t>, std::size_t> met;
      std::map<std::int64_t, bool> started;
      std::vector<AddedNumbers> registers;
      for (std::size_t k = 0; k < rows[c].size(); ++k) {
        const std::int64_t of = part.empty() ? 0 : part[k];
        const auto [place, is_new] = met.emplace(std::pair(of, tile_ == 0 ? 0 : k / tile_), registers.size());
        if (is_new) registers.push_back({{}, started[of] ? 0 : biases[c]});
        started[of] = true;
        registers[place->second].terms.push_back(times(rows[c][k], numbers));
      }
      all.push_back(std::move(registers));
    }
    layer_.worlds.push_back(std::move(all));
  }

  void finish(const std::string& output, std::size_t node) {
    layer_.node = layer_.net.graph.nodes.at(node).name;
    layer_.net.graph.outputs = {output};
  }
  /// The node that was made last is the layer.
  void finish(const std::string& output) { finish(output, layer_.net.graph.nodes.size() - 1); }

  /// [K, C] row-major as C rows.
  static std::vector<Ints> columns(const Ints& w, std::size_t terms, std::size_t channels) {
    std::vector<Ints> rows(channels);
    for (std::size_t k = 0; k < terms; ++k) {
      for (std::size_t c = 0; c < channels; ++c) rows[c].push_back(w[k * channels + c]);
    }
    return rows;
  }
  /// [C, K] row-major as C rows.
  static std::vector<Ints> lines(const Ints& w, std::size_t terms) {
    std::vector<Ints> rows;
    for (std::size_t i = 0; i < w.size(); i += terms)
      rows.emplace_back(w.begin() + std::ptrdiff_t(i), w.begin() + std::ptrdiff_t(i + terms));
    return rows;
  }

  // ---- Kinds ----

  void matmul() {
    const std::int64_t terms = draw(1, 6), channels = draw(1, 2);
    const Operand x = quantized_input({1, terms});
    Ints w, b;
    const std::string weight = quantized_weight({terms, channels}, w);
    const std::string offset = bias(coin() ? Ints{channels} : Ints{1, channels}, b);
    std::string y = layer_.net.node("MatMul", {x.value, weight});
    const std::size_t at = layer_.net.graph.nodes.size() - 1;
    if (!offset.empty()) y = layer_.net.node("Add", coin() ? std::vector{y, offset} : std::vector{offset, y});
    finish(y, at);
    add_world(columns(w, std::size_t(terms), std::size_t(channels)), x.numbers, b);
  }

  void matmul_weight_first() {
    const std::int64_t terms = draw(1, 6), channels = draw(1, 2);
    const Operand x = quantized_input({terms, 2});
    Ints w, b;
    const std::string weight = quantized_weight({channels, terms}, w);
    const std::string offset = bias({channels, 1}, b);
    std::string y = layer_.net.node("MatMul", {weight, x.value});
    const std::size_t at = layer_.net.graph.nodes.size() - 1;
    if (!offset.empty()) y = layer_.net.node("Add", {y, offset});
    finish(y, at);
    add_world(lines(w, std::size_t(terms)), x.numbers, b);
  }

  void gemm() {
    const std::int64_t terms = draw(1, 6), channels = draw(1, 2);
    const bool trans_a = coin(), trans_b = coin();
    const Operand x = quantized_input(trans_a ? Ints{terms, 1} : Ints{1, terms});
    Ints w, b;
    const std::string weight = quantized_weight(trans_b ? Ints{channels, terms} : Ints{terms, channels}, w);
    std::vector<std::string> inputs{x.value, weight};
    if (const std::string offset = bias({channels}, b); !offset.empty()) inputs.push_back(offset);
    const std::string y = layer_.net.node(
        "Gemm", inputs, {{"transA", std::int64_t{trans_a}}, {"transB", std::int64_t{trans_b}}});
    finish(y);
    add_world(trans_b ? lines(w, std::size_t(terms)) : columns(w, std::size_t(terms), std::size_t(channels)),
              x.numbers, b);
  }

  void conv() {
    const std::int64_t deep = draw(1, 2), taps = draw(1, 3), groups = draw(1, 2),
                       channels = groups * draw(1, 2);
    const bool last = coin();
    const Operand x = quantized_input(last ? Ints{1, 7, deep * groups} : Ints{1, deep * groups, 7});
    Ints w, b;
    const std::string weight =
        quantized_weight(last ? Ints{channels, taps, deep} : Ints{channels, deep, taps}, w);
    if (last) {  // channels before taps
      Ints turned;
      for (std::int64_t m = 0; m < channels; ++m) {
        for (std::int64_t c = 0; c < deep; ++c) {
          for (std::int64_t t = 0; t < taps; ++t) turned.push_back(w[std::size_t((m * taps + t) * deep + c)]);
        }
      }
      w = turned;
    }
    std::vector<std::string> inputs{x.value, weight};
    if (const std::string offset = bias({channels}, b); !offset.empty()) inputs.push_back(offset);
    const std::string y = layer_.net.node("Conv", inputs,
                                          {{"group", groups},
                                           {"kernel_shape", Ints{taps}},
                                           {"pads", Ints{draw(0, 1), draw(0, 1)}},
                                           {"strides", Ints{draw(1, 2)}},
                                           {"dilations", Ints{draw(1, 2)}}},
                                          last ? graph::kChannelsLastDomain : graph::kOnnxDomain);
    finish(y);
    add_world(lines(w, std::size_t(deep * taps)), x.numbers, b);
  }

  void conv_transposed() {
    const std::int64_t deep = draw(1, 2), taps = draw(1, 3), channels = draw(1, 2), stride = draw(1, 3),
                       dilation = draw(1, 2);
    const Operand x = quantized_input({1, deep, 7});
    Ints w, b;
    const std::string weight = quantized_weight({deep, channels, taps}, w);
    std::vector<std::string> inputs{x.value, weight};
    if (const std::string offset = bias({channels}, b); !offset.empty()) inputs.push_back(offset);
    const std::string y = layer_.net.node(
        "ConvTranspose", inputs,
        {{"kernel_shape", Ints{taps}}, {"strides", Ints{stride}}, {"dilations", Ints{dilation}}});
    finish(y);
    std::vector<Ints> rows(static_cast<std::size_t>(channels));
    Ints phase;
    for (std::int64_t c = 0; c < deep; ++c) {
      for (std::int64_t t = 0; t < taps; ++t) {
        phase.push_back(t * dilation % stride);
        for (std::int64_t m = 0; m < channels; ++m)
          rows[std::size_t(m)].push_back(w[std::size_t((c * channels + m) * taps + t)]);
      }
    }
    add_world(rows, x.numbers, b, phase);
  }

  /// Constant weights of an integer operator, one zero point for all or for each channel: less their zero points.
  std::string integer_weight(const Ints& shape, std::int64_t channels, bool last, Ints& codes,
                             std::string& zero) {
    Ints stored(static_cast<std::size_t>(graph::count_elements(shape).take()));
    for (std::int64_t& one : stored) one = draw(-2, 1);
    Ints zeros(std::size_t(coin() ? channels : 1));
    for (std::int64_t& one : zeros) one = draw(-2, 1);
    const bool none = coin();
    zero =
        none ? "" : integers(zeros.size() == 1 && coin() ? Ints{} : Ints{std::int64_t(zeros.size())}, zeros);
    codes = stored;
    const std::size_t of_one = stored.size() / std::size_t(channels);
    for (std::size_t i = 0; i < codes.size() && !none; ++i)
      codes[i] -= zeros[zeros.size() == 1 ? 0 : last ? i % std::size_t(channels) : i / of_one];
    return integers(shape, stored);
  }

  /// The data's zero point: none, a constant, one for each row, or computed: the worlds that it makes.
  std::string integer_zero(std::int64_t rows, std::vector<std::int64_t>& zeros) {
    const std::int64_t how = draw(0, rows > 1 ? 3 : 2);
    if (how == 0) return zeros = {0}, std::string();
    if (how == 2) {
      zeros = {0, 1, 2, 3};
      const std::string name = integer_input({});
      return name;
    }
    zeros.clear();
    for (std::int64_t i = 0; i < (how == 3 ? rows : 1); ++i) zeros.push_back(draw(0, 3));
    return integers(how == 3 ? Ints{rows} : Ints{}, zeros);
  }

  static Ints less(std::int64_t zero) { return {0 - zero, 1 - zero, 2 - zero, 3 - zero}; }

  void integer_matmul(bool quantized) {
    const std::int64_t terms = draw(1, 6), channels = draw(1, 2), rows = draw(1, 2);
    const std::string x = integer_input({rows, terms});
    Ints w, zeros;
    std::string w_zero;
    const std::string weight = integer_weight({terms, channels}, channels, true, w, w_zero);
    const std::string x_zero = integer_zero(rows, zeros);
    std::string y;
    if (quantized) {
      if (w_zero.empty()) w_zero = integers({}, {0});
      y = layer_.net.node("QLinearMatMul", {x, scalar(0.5F), x_zero.empty() ? integers({}, {0}) : x_zero,
                                            weight, scalar(0.25F), w_zero, scalar(1), integers({}, {0})});
    } else {
      y = layer_.net.node("MatMulInteger", {x, weight, x_zero, w_zero});
    }
    finish(y);
    for (const std::int64_t zero : zeros)
      add_world(columns(w, std::size_t(terms), std::size_t(channels)), less(zero),
                Ints(std::size_t(channels), 0));
  }

  void integer_conv(bool quantized) {
    const std::int64_t deep = draw(1, 2), taps = draw(1, 3), channels = draw(1, 2);
    const std::string x = integer_input({1, deep, 7});
    Ints w, zeros, b(std::size_t(channels), 0);
    std::string w_zero;
    const std::string weight = integer_weight({channels, deep, taps}, channels, false, w, w_zero);
    const std::string x_zero = integer_zero(1, zeros);
    std::string y;
    if (quantized) {
      if (w_zero.empty()) w_zero = integers({}, {0});
      std::vector<std::string> inputs{
          x,         scalar(0.5F),     x_zero.empty() ? integers({}, {0}) : x_zero,
          weight,    scalar(0.25F),    w_zero,
          scalar(1), integers({}, {0})};
      if (coin()) {
        for (std::int64_t& one : b) one = draw(-9, 9);
        inputs.push_back(layer_.net.constant(fresh("offset"), graph::Tensor::ints({channels}, b)));
      }
      y = layer_.net.node("QLinearConv", inputs, {{"kernel_shape", Ints{taps}}});
    } else {
      y = layer_.net.node("ConvInteger", {x, weight, x_zero, w_zero}, {{"kernel_shape", Ints{taps}}});
    }
    finish(y);
    for (const std::int64_t zero : zeros) add_world(lines(w, std::size_t(deep * taps)), less(zero), b);
  }

  /// Terms are whether two bits are the same.
  void xnor() {
    const std::int64_t terms = draw(1, 6), channels = draw(1, 2);
    const std::string x = integer_input({1, terms});
    layer_.net.graph.values[x].annotations["finn_datatype"] = "BINARY";
    Ints w(std::size_t(terms * channels));
    for (std::int64_t& bit : w) bit = draw(0, 1);
    finish(
        layer_.net.node("XnorPopcountMatMul", {x, integers({terms, channels}, w)}, {}, graph::kQonnxDomain));
    // A bit is 0 or 1, and so is whether it is the same as another: either way one of two numbers.
    add_world(std::vector<Ints>(std::size_t(channels), Ints(std::size_t(terms), 1)), {0, 1},
              Ints(std::size_t(channels), 0));
  }

  void einsum() {
    const std::int64_t terms = draw(1, 3), more = draw(1, 2), channels = draw(1, 2);
    const Operand x = quantized_input({2, terms, more});
    Ints w;
    const std::string weight = quantized_weight({terms, channels, more}, w);
    const bool first = coin();
    const std::string y =
        layer_.net.node("Einsum", first ? std::vector{weight, x.value} : std::vector{x.value, weight},
                        {{"equation", std::string(first    ? "kcm, nkm -> nc"
                                                  : coin() ? "nkm,kcm->cn"
                                                           : "nkm,kcm")}});
    finish(y);
    std::vector<Ints> rows(static_cast<std::size_t>(channels));
    for (std::int64_t k = 0; k < terms; ++k) {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t m = 0; m < more; ++m)
          rows[std::size_t(c)].push_back(w[std::size_t((k * channels + c) * more + m)]);
      }
    }
    add_world(rows, x.numbers, Ints(std::size_t(channels), 0));
  }

  /// Both operands are computed: a term is any product of both's numbers.
  void add_pairs(const Ints& a, const Ints& b, std::int64_t terms, const Ints& biases) {
    Ints products;
    for (const std::int64_t x : a) {
      for (const std::int64_t y : b) products.push_back(x * y);
    }
    AddedRows rows;
    for (const std::int64_t one : biases)
      rows.push_back({{std::vector<Ints>(std::size_t(terms), products), one}});
    layer_.worlds.push_back(rows);
    layer_.has_codes = false;
  }

  void computed_matmul() {
    const std::int64_t terms = draw(1, 3), channels = draw(1, 2);
    const Operand a = quantized_input({2, terms}), b = quantized_input({terms, channels});
    std::string y = layer_.net.node("MatMul", {a.value, b.value});
    const std::size_t at = layer_.net.graph.nodes.size() - 1;
    Ints codes(std::size_t(channels), 0);
    if (coin()) {  // at the product of both scales
      std::vector<float> values;
      for (std::int64_t& code : codes)
        values.push_back(static_cast<float>(code = draw(-9, 9)) * kInputScale * kInputScale);
      y = layer_.net.node(
          "Add", {y, layer_.net.quant(layer_.net.constant("b", graph::Tensor::floats({channels}, values)),
                                      graph::Tensor::scalar(kInputScale * kInputScale), 0, 16)});
    }
    finish(y, at);
    add_pairs(a.numbers, b.numbers, terms, codes);
  }

  void computed_conv() {
    const std::int64_t deep = draw(1, 2), taps = draw(1, 2), channels = draw(1, 2);
    const Operand x = quantized_input({1, deep, 7}), w = quantized_input({channels, deep, taps});
    finish(layer_.net.node("Conv", {x.value, w.value}));
    add_pairs(x.numbers, w.numbers, deep * taps, Ints(std::size_t(channels), 0));
  }

  void computed_einsum() {
    const std::int64_t terms = draw(1, 3);
    const Operand a = quantized_input({2, 3, terms}), b = quantized_input({2, 4, terms});
    const std::string y =
        layer_.net.node("Einsum", {a.value, b.value}, {{"equation", std::string("...ik,...jk->...ij")}});
    finish(y);
    add_pairs(a.numbers, b.numbers, terms, {0});
  }

  void computed_integers() {
    const std::int64_t terms = draw(1, 3);
    const std::string a = integer_input({2, terms}), b = integer_input({terms, 2});
    Ints a_zeros, b_zeros;
    const std::string a_zero = integer_zero(1, a_zeros), b_zero = integer_zero(1, b_zeros);
    finish(layer_.net.node("MatMulInteger", {a, b, a_zero, b_zero}));
    for (const std::int64_t x : a_zeros) {
      for (const std::int64_t y : b_zeros) add_pairs(less(x), less(y), terms, {0, 0});
    }
  }

  void squares() {
    const std::int64_t terms = draw(1, 4);
    const Operand x = quantized_input({3, terms});
    finish(layer_.net.node("ReduceSumSquare", {x.value},
                           {{"axes", Ints{1}}, {"keepdims", std::int64_t{coin()}}}));
    Ints products;
    for (const std::int64_t one : x.numbers) products.push_back(one * one);
    layer_.worlds.push_back({{{std::vector<Ints>(std::size_t(terms), products), 0}}});
    layer_.has_codes = false;
  }

  static constexpr float kInputScale = 0.5F, kWeightScale = 0.25F;

  std::mt19937 engine_;
  SmallLayer layer_;
  std::size_t tile_ = 0;
  int counter_ = 0;
};

inline const std::vector<LayerMaker::Kind> LayerMaker::kKinds = {
    {"MatMul", [](LayerMaker& m) { m.matmul(); }},
    {"MatMul, weight first", [](LayerMaker& m) { m.matmul_weight_first(); }},
    {"Gemm", [](LayerMaker& m) { m.gemm(); }},
    {"Conv", [](LayerMaker& m) { m.conv(); }},
    {"ConvTranspose", [](LayerMaker& m) { m.conv_transposed(); }},
    {"MatMulInteger", [](LayerMaker& m) { m.integer_matmul(false); }},
    {"QLinearMatMul", [](LayerMaker& m) { m.integer_matmul(true); }},
    {"ConvInteger", [](LayerMaker& m) { m.integer_conv(false); }},
    {"QLinearConv", [](LayerMaker& m) { m.integer_conv(true); }},
    {"XnorPopcountMatMul", [](LayerMaker& m) { m.xnor(); }},
    {"Einsum", [](LayerMaker& m) { m.einsum(); }},
    {"MatMul, both computed", [](LayerMaker& m) { m.computed_matmul(); }},
    {"Conv, both computed", [](LayerMaker& m) { m.computed_conv(); }},
    {"Einsum, both computed", [](LayerMaker& m) { m.computed_einsum(); }},
    {"MatMulInteger, both computed", [](LayerMaker& m) { m.computed_integers(); }},
    {"ReduceSumSquare", [](LayerMaker& m) { m.squares(); }},
};

}  // namespace crumb::analysis
