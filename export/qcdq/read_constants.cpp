// Constants in QCDQ's forms as quantizers of floats, checked code by code.
#include <algorithm>
#include <array>
#include <cmath>

#include "export/qcdq/minifloats.h"
#include "export/qcdq/qcdq_reader.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "graph/strided_index.h"

namespace crumb::exporting {

using graph::Node;
using graph::Shape;
using graph::StridedIndex;
using graph::Tensor;

namespace {

std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

/// What a quantizer makes of one number.
struct One {
  float value = 0;
  double integer = 0;
  bool operator==(const One&) const = default;
};

/// The quantizer that is to be written.
class Check {
 public:
  Check(bool is_bipolar_quant, const IntegerRange& range) : is_bipolar_quant_(is_bipolar_quant) {
    format_ = {.bits = static_cast<double>(range.bits), .is_signed = range.is_signed, .narrow = range.narrow};
  }

  Result<graph::Quantized> all(std::span<const float> values, std::span<const std::int64_t> shape,
                               const BroadcastParameters& parameters) const {
    const std::vector<double> data = doubles(values), scale = doubles(parameters.scale),
                              zero = doubles(parameters.zero);
    const graph::QuantOperand x{data, shape}, s{scale, parameters.shape}, z{zero, parameters.shape};
    if (is_bipolar_quant_) return graph::quantize_bipolar(x, s);
    return graph::quantize(x, s, z, format_, graph::QuantRounding::kHalfEven);
  }

  One operator()(float x, float scale, float zero) const {
    const auto made = all({&x, 1}, {}, {.scale = {scale}, .zero = {zero}});
    return {made.value().values[0], made.value().integers[0]};
  }

  /// A float that the quantizer makes exactly this of: the first wish that does, or a neighbour of the last.
  std::optional<float> input_for(const One& wanted, float scale, float zero,
                                 std::span<const float> requests) const {
    for (const float requested : requests) {
      if ((*this)(requested, scale, zero) == wanted) return requested;
    }
    for (const float towards : {INFINITY, -INFINITY}) {
      const float near = std::nextafter(requests.back(), towards);
      if ((*this)(near, scale, zero) == wanted) return near;
    }
    return {};
  }

 private:
  bool is_bipolar_quant_;
  graph::IntegerFormat format_;
};

/// What QuantizeLinear makes of a float, before Clip.
std::int64_t linear_code(float x, float scale, float zero, const IntegerBounds& container) {
  const double q = graph::rounded(x / scale, graph::QuantRounding::kHalfEven) + static_cast<double>(zero);
  return static_cast<std::int64_t>(
      std::clamp(q, static_cast<double>(container.low), static_cast<double>(container.high)));
}

/// A tensor cut along axis 0 into whole bytes, where it is large.
class TensorRows {
 public:
  static constexpr std::int64_t kLeastCut = 1 << 20;  // elements

  explicit TensorRows(const Tensor& tensor) : tensor_(tensor) {
    if (tensor.size() < 2 * kLeastCut || tensor.shape()[0] < 2) return;
    const auto all = static_cast<std::size_t>(tensor.shape()[0]);
    row_ = static_cast<std::size_t>(tensor.size()) / all;
    const std::size_t a_byte = std::max(1U, 8 / graph::info(tensor.type()).bits);  // elements
    rows_ = std::max<std::size_t>(1, static_cast<std::size_t>(kLeastCut) / row_ / a_byte) * a_byte;
    count_ = (all + rows_ - 1) / rows_;
    reader_.emplace(tensor);
  }

  std::size_t count() const { return count_; }
  std::size_t first(std::size_t part) const { return part * rows_ * row_; }  ///< element

  Tensor part(std::size_t part) const {
    if (rows_ == 0) return tensor_;
    std::vector<std::int64_t> shape = tensor_.shape();
    const std::size_t begin = part * rows_, end = std::min(static_cast<std::size_t>(shape[0]), begin + rows_);
    shape[0] = static_cast<std::int64_t>(end - begin);
    const unsigned bits = graph::info(tensor_.type()).bits;
    std::vector<std::byte> bytes(((end - begin) * row_ * bits + 7) / 8);
    reader_->read(begin * row_ * bits / 8, bytes);
    return {tensor_.type(), shape, std::move(bytes)};
  }

  /// Those of a part's rows.
  BroadcastParameters parameters(const BroadcastParameters& whole, std::size_t part) const {
    if (rows_ == 0 || whole.shape.size() != tensor_.shape().size() || whole.shape[0] != tensor_.shape()[0])
      return whole;
    const auto all = static_cast<std::size_t>(whole.shape[0]);
    const std::size_t begin = part * rows_, end = std::min(all, begin + rows_),
                      width = whole.scale.size() / all;
    BroadcastParameters made{.scale = {}, .zero = {}, .shape = whole.shape};
    made.shape[0] = static_cast<std::int64_t>(end - begin);
    const auto cut = [&](const std::vector<float>& from) {
      if (from.size() != whole.scale.size()) return from;
      return std::vector<float>(from.begin() + static_cast<std::ptrdiff_t>(begin * width),
                                from.begin() + static_cast<std::ptrdiff_t>(end * width));
    };
    made.scale = cut(whole.scale);
    made.zero = cut(whole.zero);
    return made;
  }

 private:
  const Tensor& tensor_;
  std::optional<graph::PartReader> reader_;  ///< of one that is cut
  std::size_t row_ = 0, rows_ = 0, count_ = 1;
};

float input_of(float code, float scale, float zero, bool is_bipolar_quant) {
  return is_bipolar_quant ? code * std::fabs(scale) : (code - zero) * scale;
}

std::pair<float, float> next_parameters(const BroadcastParameters& parameters, StridedIndex& at) {
  const std::size_t i = at.at();
  at.next();
  return {parameters.scale[i], parameters.zero[i]};
}

/// A float32 for each code of a part, whose parameters `at` has come to.
std::vector<float> inputs_of(const std::vector<std::int64_t>& codes, const BroadcastParameters& parameters,
                             bool is_bipolar_quant, StridedIndex& at) {
  std::vector<float> inputs;
  inputs.reserve(codes.size());
  for (const std::int64_t code : codes) {
    const auto [scale, zero] = next_parameters(parameters, at);
    inputs.push_back(input_of(static_cast<float>(code), scale, zero, is_bipolar_quant));
  }
  return inputs;
}

/// The integers of a part, whose parameters `at` has come to; nothing where a float is NaN.
std::optional<std::vector<std::int64_t>> codes_of(const Tensor& piece, const IntegerSource& source,
                                                  const BroadcastParameters& parameters, StridedIndex& at) {
  const auto floats = source.quantize ? piece.to_floats() : std::vector<float>();
  auto codes = source.quantize ? std::vector<std::int64_t>(floats.size()) : piece.to_ints();
  for (std::size_t i = 0; i < codes.size(); ++i, at.next()) {
    if (source.quantize) {
      if (std::isnan(floats[i])) return {};
      codes[i] = linear_code(floats[i], parameters.scale[at.at()], parameters.zero[at.at()],
                             bounds_of(source.container));
    }
    codes[i] = std::clamp(codes[i], source.bounds.low, source.bounds.high);
  }
  return codes;
}

/// Integers [first, first + count) of a tensor.
std::vector<std::int64_t> integers_between(const Tensor& tensor, std::uint64_t first, std::uint64_t count) {
  const unsigned bits = graph::info(tensor.type()).bits;
  const std::uint64_t begin = first * bits / 8, before = first - begin * 8 / bits,  // in the first byte
      end = ((first + count) * bits + 7) / 8;
  std::vector<std::byte> bytes(end - begin);
  tensor.read(begin, bytes);
  const auto size = static_cast<std::int64_t>(bytes.size() * 8 / bits);
  std::vector<std::int64_t> integers = Tensor(tensor.type(), {size}, std::move(bytes)).to_ints();
  integers.erase(integers.begin(), integers.begin() + static_cast<std::ptrdiff_t>(before));
  integers.resize(count);
  return integers;
}

/// What a quantizer of the constant gets, if every float is the usual one: elements
/// [first, first + to.size()).
template <class Quantizer>
void usual_values(const Tensor& tensor, const IntegerSource& source, const Quantizer& quantizer,
                  std::uint64_t first, std::span<float> to) {
  if (to.empty()) return;
  if (source.quantize) return tensor.read(first * sizeof(float), std::as_writable_bytes(to));
  auto at = StridedIndex::broadcast(tensor.shape(), quantizer.parameters.shape);
  at->move_to(first);
  for (std::uint64_t done = 0; done < to.size();) {
    const auto piece = integers_between(tensor, first + done,
                                        std::min<std::uint64_t>(to.size() - done, TensorRows::kLeastCut));
    for (const std::int64_t code : piece) {
      const auto clamped = static_cast<float>(std::clamp(code, source.bounds.low, source.bounds.high));
      to[done++] = input_of(clamped, quantizer.parameters.scale[at->at()],
                            quantizer.parameters.zero[at->at()], quantizer.op == "BipolarQuant");
      at->next();
    }
  }
}

/// Whether one of the codes is 0; nothing where the constant holds NaN.
template <class Quantizer>
std::optional<bool> has_zero_code(const Tensor& tensor, const TensorRows& rows, const IntegerSource& source,
                                  const Quantizer& quantizer) {
  auto at = StridedIndex::broadcast(tensor.shape(), quantizer.parameters.shape);
  for (std::size_t part = 0; part < rows.count(); ++part) {
    const auto found = codes_of(rows.part(part), source, quantizer.parameters, *at);
    if (!found) return {};
    if (std::ranges::find(*found, 0) != found->end()) return true;
  }
  return false;
}

/// usual_values() of a whole constant, which large ones make where they are asked for.
template <class Quantizer>
Tensor usual_constant(const Tensor& tensor, const IntegerSource& source, const Quantizer& quantizer) {
  Tensor values =
      Tensor::in_parts(graph::ElementType::kFloat, tensor.shape(),
                       [tensor, source, quantizer](std::uint64_t first, std::span<std::byte> to) {
                         usual_values(tensor, source, quantizer, first / sizeof(float),
                                      {reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)});
                       });
  if (tensor.size() < TensorRows::kLeastCut) values.bytes();
  return values;
}

}  // namespace

Why QcdqReader::constant(const Node& node, const Tensor& tensor, const std::vector<std::int64_t>& shape,
                         const IntegerSource& source, Quantizer quantizer) {
  if (source.quantize && tensor.type() != graph::ElementType::kFloat) {
    return "is of values of type " + std::string(name_of(tensor.type())) + "; QONNX's quantizers are float32";
  }
  auto at = StridedIndex::broadcast(tensor.shape(), quantizer.parameters.shape);
  if (!at) return "has a scale that does not broadcast to its constant";
  const TensorRows rows(tensor);
  if (quantizer.range == IntegerRange{1, true, false}) {
    const auto has_zero = has_zero_code(tensor, rows, source, quantizer);
    if (!has_zero) return "is of a constant that holds NaN";
    if (*has_zero) {
      quantizer.op = "Quant";  // whatever the metadata say
      quantizer.range = {2, true, true};
    }
  }

  const bool is_bipolar_quant = quantizer.op == "BipolarQuant";
  const Check check(is_bipolar_quant, quantizer.range);
  auto for_values = *at, for_checks = *at;
  std::vector<float> changed;  // all values, once one of them is another than the usual
  for (std::size_t part = 0; part < rows.count(); ++part) {
    const Tensor piece = rows.part(part);
    const auto codes = codes_of(piece, source, quantizer.parameters, *at);
    if (!codes) return "is of a constant that holds NaN";
    std::vector<float> values = source.quantize
                                    ? piece.to_floats()
                                    : inputs_of(*codes, quantizer.parameters, is_bipolar_quant, for_values);
    const auto made = check.all(values, piece.shape(), rows.parameters(quantizer.parameters, part));
    if (!made.ok()) return made.failure().message;
    for (std::size_t i = 0; i < codes->size(); ++i) {
      const auto [scale, zero] = next_parameters(quantizer.parameters, for_checks);
      const auto code = static_cast<float>((*codes)[i]);
      const float value = (code - zero) * scale;
      if (made.value().values[i] == value && made.value().integers[i] == static_cast<double>(code)) continue;
      const std::array requests{values[i], input_of(code, scale, zero, is_bipolar_quant)};
      const auto found = check.input_for({value, code}, scale, zero, requests);
      if (!found) {
        return "holds the integer " + std::to_string((*codes)[i]) +
               ", which no float32 is rounded to at its scale";
      }
      if (*found != values[i] && changed.empty()) {
        changed.resize(static_cast<std::size_t>(tensor.size()));
        usual_values(tensor, source, quantizer, 0, changed);
      }
      values[i] = *found;
      if (!changed.empty()) changed[rows.first(part) + i] = *found;
    }
  }
  Tensor values = tensor;
  if (!changed.empty()) {
    values = Tensor::floats(tensor.shape(), changed);
  } else if (!source.quantize) {
    values = usual_constant(tensor, source, quantizer);
  }
  emit_constant(node, values, shape, quantizer);
  return {};
}

Why QcdqReader::constant_floats(const Node& node, const Tensor& tensor,
                                const std::vector<std::int64_t>& shape, const Quantizer& quantizer) {
  std::vector<float> values = tensor.to_floats();
  auto at = StridedIndex::broadcast(tensor.shape(), quantizer.parameters.shape);
  if (!at) return "has a scale that does not broadcast to its constant";
  for (float& value : values) {
    value *= quantizer.parameters.scale[at->at()];
    at->next();
  }
  const std::vector<double> data = doubles(values), scale = doubles(quantizer.parameters.scale);
  const auto made =
      graph::quantize_float({data, tensor.shape()}, {scale, quantizer.parameters.shape},
                            find_minifloat(quantizer.minifloat)->format, graph::QuantRounding::kHalfEven);
  if (!made.ok()) return made.failure().message;
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  if (!std::ranges::equal(made.value().values, values, same)) {
    return "holds values that FloatQuant would not give again";
  }
  emit_constant(node, Tensor::floats(tensor.shape(), values), shape, quantizer);
  return {};
}

/// Values that are in groups get the constant's shape by a Reshape.
void QcdqReader::emit_constant(const Node& node, const Tensor& values, const std::vector<std::int64_t>& shape,
                               const Quantizer& quantizer) {
  const std::string name = name_of(node);
  if (values.shape() == shape) {
    emit(node, out_.constant(name + "_values", values), quantizer, node.outputs[0]);
    return;
  }
  const Shape groups(values.shape().begin(), values.shape().end());
  const std::string grouped =
      out_.fresh_value(name + "_groups", {.type = graph::ElementType::kFloat, .shape = groups});
  emit(node, out_.constant(name + "_values", values), quantizer, grouped);
  const auto rank = static_cast<std::int64_t>(shape.size());
  out_.node({.op = "Reshape",
             .name = name + "_reshape",
             .inputs = {grouped, out_.constant(name + "_shape", Tensor::ints({rank}, shape))},
             .output = node.outputs[0]});
}

}  // namespace crumb::exporting
