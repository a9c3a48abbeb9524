// Writes QONNX's quantizers in ONNX's words, one after the other. Internal to export/qcdq.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "export/qcdq/integer_range.h"
#include "export/qcdq/linear_parameters.h"
#include "export/qcdq/rewriter.h"
#include "export/qcdq/to_qcdq.h"
#include "graph/facts/constant_parts.h"
#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::exporting {

/// Why something cannot be said ("has ...", "rounds ..."); nothing where it can.
using Why = std::optional<std::string>;

class QcdqWriter {
 public:
  /// The graph is sorted, its shapes inferred, and stays as it is.
  QcdqWriter(const graph::Graph& graph, const QcdqOptions& options, QcdqReport& report);

  /// Writes a node: a quantizer in its new form, any other as it is. Where it cannot be said nothing is
  /// written.
  Why write(std::size_t node);

  graph::Graph finish(graph::Graph graph) &&;

 private:
  /// Parameters of Quant that are constants.
  struct QuantParameters {
    graph::ConstantValue scale, zero;
    graph::IntegerFormat format;
    graph::QuantRounding mode = graph::QuantRounding::kHalfEven;

    bool has_whole_zero() const;
    bool has_whole_bits() const;  ///< 1 to 32
    IntegerRange range() const;
  };
  /// What stands between data and DequantizeLinear.
  struct Chain {
    std::string data;  ///< an initializer of integers, or floats where `quantizes`
    bool quantizes = false;
    graph::ElementType container = graph::ElementType::kInt8;
    bool is_bipolar = false;  ///< -1 and 1, and no 0 between them
    IntegerBounds bounds;     ///< Clip where the container holds more; not looked at for types of floats
    LinearParameters parameters;
    std::string name, output;
    graph::Value known;  ///< the shape of the data
  };

  Why quant(std::size_t at);
  Why bipolar(const graph::Node& node);
  Why float_quant(const graph::Node& node);

  // constants.cpp
  Why constant_quant(std::size_t at, const QuantParameters& parameters);
  Why constant_bipolar(const graph::Node& node, const graph::ConstantValue& scale);
  /// What the quantizer makes of the rows [begin, end) of its data.
  using MadeOfRows = std::function<Result<graph::Quantized>(const graph::ConstantValue& data,
                                                            std::size_t begin, std::size_t end)>;
  Why constant(const graph::Node& node, const graph::ConstantParts& data,
               const std::vector<std::int64_t>& shape, const MadeOfRows& made_of, Chain chain,
               std::optional<std::size_t> reshape);
  bool has_constant_data(const graph::Node& node) const;
  std::optional<std::size_t> merging_reshape(const graph::Node& node, const std::vector<std::int64_t>& shape,
                                             const LinearParameters& parameters) const;
  /// Takes the axis of blocks into the one before, in the shape that is written and in the chain, as
  /// merging_reshape() does.
  void merge_blocks(std::size_t reshape, std::vector<std::int64_t>& shape, Chain& chain);

  // minifloats.cpp
  Why constant_float(const graph::Node& node, const graph::ConstantValue& data, Chain chain);

  // arithmetic.cpp
  Why arithmetic_quant(const graph::Node& node);
  Why arithmetic_trunc(const graph::Node& node);
  std::string rounded(const std::string& x, graph::QuantRounding mode, const std::string& name);
  std::string step(const std::string& op, const std::string& name, std::vector<std::string> inputs);
  std::string last_step(const std::string& op, const graph::Node& node, std::vector<std::string> inputs);

  Why activation_quant(const graph::Node& node, const QuantParameters& parameters);
  Why activation_sign(const graph::Node& node, const graph::ConstantValue& scale, bool divides);
  Why takes_floats(const graph::Node& node) const;

  Result<QuantParameters> parameters_of_quant(const graph::Node& node) const;
  /// The type that carries the integers; a Failure where none does.
  Result<graph::ElementType> container_of(const IntegerRange& range, const LinearParameters& parameters,
                                          bool is_constant) const;
  void emit(const Chain& chain);
  Chain chain_for(const graph::Node& node) const;
  void replaces(const graph::Node& node) { out_.release(node); }

  const graph::Graph& graph_;
  const QcdqOptions& options_;
  QcdqReport& report_;
  const std::int64_t opset_;
  graph::ConstantValues constants_;
  graph::Links links_;
  Rewriter out_;
  std::set<std::size_t> done_;                        ///< nodes that went into another's form
  std::map<std::string, std::string> bipolar_names_;  ///< DequantizeLinear -> what it was
};

}  // namespace crumb::exporting
