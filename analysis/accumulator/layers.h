// The layers of a graph: whatever adds up products, counted where its operands are quantized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/accumulator/product_operators.h"
#include "graph/certificate.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/graph.h"
#include "quant/accumulator/accumulator.h"

namespace crumb::analysis {

/// Ranges of inputs of the graph that neither their type nor an annotation says.
using GivenRanges = std::map<std::string, IntegerRange>;

/// The same ranges for infer_data_types. Throws usage Error for a name that is not an input of the graph.
graph::InputRanges as_numbers(const graph::Graph& graph, const GivenRanges& given);

/// A product of a node (product_operators.h). What a result is: the sum over a row's terms of code * input,
/// times unit * input_unit and both scales, and a bias. Where the weight is a constant it is rows of
/// integers; where it is computed, like the input, a term can be anything that two ranges make.
struct ProductLayer {
  enum class Kind : std::uint8_t { kMatrix, kConvolution, kTransposed };

  std::string name, op;
  std::string operands;                      ///< which of the node's products, "X W"; "" where it has one
  const graph::ProductRule* rule = nullptr;  ///< nothing: an operator that is not known
  bool has_ellipsis = false;                 ///< an Einsum's equation
  Kind kind = Kind::kMatrix;
  std::size_t weight_at = 1;  ///< which operand of the rule the weight is: a (0) or b (1)
  bool weight_first = false;  ///< the weight is the matrix on the left

  /// Matrices: the operand's own axes (a Gemm's weight as it would be without transB); Conv: [M, C/group,
  /// kernel...], channels-last too; ConvTranspose: [groups, inputs of one, outputs of one, kernel...].
  std::vector<std::int64_t> weight_shape;
  std::vector<std::int64_t> strides, dilations;  ///< kTransposed
  std::int64_t groups = 1;

  std::size_t channels = 0,
              length = 0;  ///< where the weight is computed one channel stands for all that are alike
  std::vector<std::int64_t>
      codes;  ///< [channels, length]; the terms in the order of weight_shape's summed axes
  /// As many as codes, or none: which of its row's sums a term belongs to. Terms of different scales are
  /// added up apart, and so are the taps of a strided ConvTranspose that never meet in one result.
  std::vector<std::uint32_t> part;
  bool one_scale = true;      ///< in each row
  std::vector<double> scale;  ///< of each channel, where one_scale
  double unit = 1;            ///< of the weight's grid: 1, half a step, the smallest subnormal

  std::string
      weight_failure;     ///< why the sums cannot be counted whatever the input is; then all else is empty
  bool is_float = false;  ///< because the weight is a constant that nothing quantizes

  std::string weight;                        ///< the value, where it is computed; then there are no codes
  std::optional<IntegerRange> weight_range;  ///< of it, less the zero point, in units
  std::optional<IntegerRange> term;          ///< what one product of computed operands can be, or its absence

  std::string input;                        ///< the value
  std::optional<IntegerRange> input_range;  ///< less the zero point, in units
  std::vector<IntegerRange> input_cases;    ///< OperandRange's; empty: the range itself
  std::string range_from;                   ///< OperandReader::changed_by
  std::string input_failure;                ///< why there is no range
  bool input_assumed = false;               ///< the range rests on what is said of the graph's inputs
  double input_unit = 1;
  std::optional<double> input_scale;  ///< nothing where each token has one that is computed

  graph::BiasPlace bias = graph::BiasPlace::kNone;
  std::vector<std::int64_t> bias_codes;  ///< of each channel, in units of the sum; kInside only
  /// kInside only: what the Add behind the product makes, where that adds the bias; "" where the node itself
  /// does.
  std::string bias_sum;

  /// The register that each of a channel's terms goes to, numbered as the terms meet them: parts, cut every
  /// `tile` terms (0: not).
  std::vector<std::uint32_t> registers(std::size_t channel, std::size_t tile) const;
  /// What each of a channel's registers starts with: a bias that lies inside, in the first of each part.
  std::vector<std::int64_t> starts(std::size_t channel, std::size_t tile) const;

  /// Of every channel and register, a bias that lies inside included: no claim takes a term out of a layer's
  /// sums. Nothing where a sum does not fit 64 bits.
  std::optional<std::vector<graph::ChannelSums>> worst_sums(IntegerRange input, std::size_t tile) const;
  /// Of the inputs that there are. Precondition: input_range.
  std::optional<std::vector<graph::ChannelSums>> worst_sums(std::size_t tile) const;

  /// Whether the weight is a constant with codes.
  bool has_codes() const { return weight_failure.empty() && weight.empty(); }
  /// Why the layer is not covered; "" where its sums are known.
  const std::string& failure() const { return weight_failure.empty() ? input_failure : weight_failure; }
  /// "layer 'lstm' (LSTM, X W)".
  std::string text() const;
};

class ProductLayers {
 public:
  /// Shapes may be open. Throws Error where an annotation, a quantizer or a node is not sound, and where
  /// `given` names no input.
  explicit ProductLayers(const graph::Graph& graph, const GivenRanges& given = {});
  ~ProductLayers();
  ProductLayers(const ProductLayers&) = delete;
  ProductLayers& operator=(const ProductLayers&) = delete;

  /// Products in the order of the nodes, those of float weights too, and nodes of operators that are not
  /// known. Products of constants alone are none.
  std::size_t size() const;
  const graph::Node& node(std::size_t i) const;
  /// Whether one operand is a constant: then it is the weight, whether or not it has codes.
  bool has_constant_weight(std::size_t i) const;
  /// Computed afresh: codes take eight bytes each.
  ProductLayer layer(std::size_t i) const;

 private:
  struct Data;
  std::unique_ptr<const Data> data_;
};

}  // namespace crumb::analysis
