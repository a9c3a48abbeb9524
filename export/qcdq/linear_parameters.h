// Scale and zero point as QuantizeLinear and DequantizeLinear take them. Internal to export/qcdq.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "graph/facts/constant_values.h"
#include "graph/graph.h"

namespace crumb::exporting {

struct LinearParameters {
  std::vector<float> scale;
  std::vector<std::int64_t> zero;  ///< as many
  std::vector<std::int64_t>
      shape;               ///< of both: [] for one number, [C] along an axis, blocked: of the data's rank
  std::int64_t axis = 0;   ///< where `shape` is not []
  std::int64_t block = 0;  ///< elements of the axis to a number; 0: not blocked

  bool has_axis() const { return !shape.empty(); }
  bool is_shifted() const;                                     ///< some zero point is not 0
  std::map<std::string, graph::Attribute> attributes() const;  ///< axis and block_size where they are needed

  bool operator==(const LinearParameters&) const = default;
};

/// Of QONNX's scale and zero point (whole numbers), which broadcast to data of this shape. A Failure says why
/// there is no such form in operator set `opset`.
Result<LinearParameters> linear_parameters(const graph::ConstantValue& scale,
                                           const graph::ConstantValue& zero,
                                           const std::optional<graph::Shape>& data, std::int64_t opset);

/// Of a QuantizeLinear's or DequantizeLinear's own constants; the data have this many axes (nothing: not
/// known). A Failure where they are no constants, or do not fit.
Result<LinearParameters> parameters_of(const graph::Graph& graph, const graph::Node& node,
                                       const std::optional<graph::Shape>& data);

/// What broadcasts over data of the shape as QONNX's scale does: [] for one number, full rank for an axis;
/// blocks that are not the whole axis as one number for each element of it.
struct BroadcastParameters {
  std::vector<float> scale, zero;
  std::vector<std::int64_t> shape;
};
BroadcastParameters broadcast(const LinearParameters& parameters, const graph::Shape& data);

/// The same where blocks divide their axis, without a number for each element: the shape of the data with
/// that axis as two, blocks and what is within one. Other data keep their shape.
struct GroupedParameters {
  std::vector<std::int64_t> shape;
  BroadcastParameters parameters;
};
GroupedParameters in_groups(const LinearParameters& parameters, std::vector<std::int64_t> shape);

}  // namespace crumb::exporting
