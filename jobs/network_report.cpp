#include "jobs/network_report.h"

#include <algorithm>
#include <optional>

#include "graph/held_floats.h"
#include "graph/output_first.h"
#include "graph/quantized_constant.h"
#include "quant/distortion.h"
#include "quant/quantized_tensor.h"

namespace crumb::jobs {
namespace {

/// Returns the bytes of codes and scales.
std::uint64_t stored_bytes(const QuantSpec& spec, const std::vector<std::int64_t>& shape,
                           graph::MatrixAxes axes) {
  const auto layout = graph::code_layout_of(spec, shape, axes);
  return layout.ok() ? layout.value().total_bytes() : 0;
}

/// Holds the whole tensor in memory, in the order of the codes, and decodes some codes at a time.
Distortion distortion_of(const graph::Tensor& tensor, const graph::QuantizedConstant& made) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 22;
  const graph::HeldFloats values(tensor);
  const std::size_t stack = made.tensor->encoding.stack_axes;
  const std::optional<std::size_t> axis = graph::output_axis_of(made.axes, stack);
  if (!axis) return distortion(values.span(), graph::HeldFloats(made.value()).span());
  graph::OutputFirst stream(values.span(), {tensor.shape(), {*axis, stack}});
  const RowDecoder decoder(made.tensor->view());
  DistortionSum sum;
  std::uint64_t at = 0;
  for (std::span<const float> piece = stream.next(kPiece); !piece.empty(); piece = stream.next(kPiece)) {
    sum.add_made(piece,
                 [&](std::uint64_t first, std::span<float> out) { decoder.flat_values(at + first, out); });
    at += piece.size();
  }
  return sum.result();
}

}  // namespace

std::vector<TensorReport> reports_of(const graph::Graph& before, const graph::QuantPlan& plan,
                                     const graph::Graph* quantized) {
  std::vector<TensorReport> reports;
  for (const graph::PlannedConstant& constant : plan.constants) {
    const graph::Tensor& tensor = before.initializers.at(constant.value);
    TensorReport line{.name = constant.value,
                      .shape = {tensor.shape().begin(), tensor.shape().end()},
                      .dtype = DType::kF32,
                      .spec = constant.spec ? constant.spec->to_string() : "",
                      .bytes = constant.spec ? stored_bytes(*constant.spec, tensor.shape(), constant.axes)
                                             : tensor.byte_count(),
                      .kept_because = constant.spec ? "" : constant.kept_because};
    if (constant.spec && quantized) {
      const graph::QuantizedConstant& made = quantized->quantized.at(constant.value);
      const Distortion lost = distortion_of(tensor, made);
      line.is_measured = true;
      line.sqnr_db = lost.sqnr_db;
      line.max_abs_error = lost.max_abs_error;
      made.tensor->release_codes();
      line.saturated_scales = made.tensor->saturated_scales;
    }
    reports.push_back(std::move(line));
  }
  return reports;
}

}  // namespace crumb::jobs
