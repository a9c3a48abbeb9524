#include "models/folded_norms.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/within.h"
#include "formats/half.h"
#include "graph/onnx/infer_shapes.h"
#include "models/checkpoint_graph.h"
#include "models/named_weights.h"

namespace crumb::models {
namespace {

constexpr std::uint64_t kPieceOfMatrix = std::uint64_t{1} << 16;

std::uint16_t narrowed(DType dtype, float value) {
  return dtype == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
}

float widened(DType dtype, std::uint16_t half) {
  return dtype == DType::kF16 ? f16_to_float(half) : bf16_to_float(half);
}

}  // namespace

FoldedNorms::FoldedNorms(const TensorSource& source, const std::string& name, int threads)
    : source_(source), threads_(threads) {
  try {
    plan();
  } catch (const Error& error) {
    throw within(name, error);
  }
}

std::optional<DType> FoldedNorms::changes(std::string_view name) const {
  const auto found = changes_.find(name);
  return found == changes_.end() ? std::nullopt : std::optional(found->second.dtype);
}

void FoldedNorms::read(std::string_view name, const Sink& sink) const {
  const Change& change = changes_.find(name)->second;
  std::vector<std::uint16_t> halves;
  each_piece(*source_.find(name), change, [&](std::span<const float> values) {
    if (change.dtype == DType::kF32) return sink(std::as_bytes(values));
    halves.clear();
    for (const float value : values) halves.push_back(narrowed(change.dtype, value));
    sink(std::as_bytes(std::span(halves)));
  });
}

void FoldedNorms::plan() {
  const NamedWeights weights(source_);
  graph::Graph graph = graph_of_weights(weights).graph;
  graph = graph::infer_shapes(graph::sorted(std::move(graph)));
  for (graph::NormFold& fold : graph::plan_norm_folds(graph, graph::CodedConstants::kDeclared)) {
    if (fold.stays.empty() && graph.nodes[fold.node].has_input(2))
      fold.stays = "it has a bias, which graphs alone fold";
    if (fold.stays.empty()) put(graph, fold);
    remarks_.push_back(graph::remark_of(fold));
  }
}

void FoldedNorms::put(const graph::Graph& graph, graph::NormFold& fold) {
  const std::vector<float> gains = graph::gains_of(fold, source_.floats(*source_.find(fold.gain), threads_));
  if (!std::ranges::all_of(gains, [](float gain) { return std::isfinite(gain); })) {
    fold.stays = "its gain is not finite";
  } else if (std::ranges::all_of(gains, [](float gain) { return gain == 1; })) {
    fold.stays = "its gain is ones";
  }
  if (!fold.stays.empty()) return;
  for (const graph::NormMatrix& matrix : fold.matrices) {
    const std::int64_t axis = graph.quantized.at(matrix.name).axes[matrix.axis];
    const std::vector<std::uint64_t>& shape = source_.find(matrix.name)->shape;
    Change change{.gains = gains};
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < shape.size(); ++i) change.stride *= shape[i];
    add(matrix.name, std::move(change));
  }
  add(fold.gain, {.constant = graph::constant_of_ones(fold)});
}

void FoldedNorms::add(const std::string& name, Change change) {
  const SourceTensor& tensor = *source_.find(name);
  const bool is_half = tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
  if (is_half && source_.checkpoint() && is_held(tensor, change)) change.dtype = tensor.dtype;
  is_wider_ = is_wider_ || change.dtype != tensor.dtype;
  changes_[name] = std::move(change);
}

bool FoldedNorms::is_held(const SourceTensor& tensor, const Change& change) const {
  bool held = true;
  each_piece(tensor, change, [&](std::span<const float> values) {
    held = held && std::ranges::all_of(values, [&](float value) {
             return widened(tensor.dtype, narrowed(tensor.dtype, value)) == value;
           });
  });
  return held;
}

void FoldedNorms::each_piece(const SourceTensor& tensor, const Change& change,
                             const std::function<void(std::span<const float>)>& use) const {
  const std::unique_ptr<ValueStream> stream = source_.stream(tensor, threads_);
  std::vector<float> made;
  std::uint64_t at = 0;
  for (auto values = stream->next(kPieceOfMatrix); !values.empty(); values = stream->next(kPieceOfMatrix)) {
    check_interrupt();
    made.assign(values.size(), change.constant);
    for (std::size_t i = 0; i < values.size() && !change.gains.empty(); ++i, ++at) {
      const float gain = change.gains[at / change.stride % change.gains.size()];
      if (!graph::holds_product(values[i], gain)) {
        throw Error("tensor " + quote_text(tensor.name) +
                    " times the gain of its norm is a number that float32 does not "
                    "hold: element " +
                    std::to_string(at) + ", " + std::to_string(values[i]) + " times " + std::to_string(gain) +
                    "; give -o OUT.onnx, in which such a norm stays");
      }
      made[i] = static_cast<float>(static_cast<double>(values[i]) * gain);
    }
    use(made);
  }
}

}  // namespace crumb::models
