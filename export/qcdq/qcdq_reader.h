// Finds quantizers in ONNX's words. Internal to export/qcdq.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "export/qcdq/from_qcdq.h"
#include "export/qcdq/integer_range.h"
#include "export/qcdq/linear_parameters.h"
#include "export/qcdq/rewriter.h"

namespace crumb::exporting {

using Why = std::optional<std::string>;

/// QuantizeLinear and DequantizeLinear, of ONNX or onnxruntime's own.
bool is_quantize(const graph::Node& node);
bool is_dequantize(const graph::Node& node);

/// Where the integers of a DequantizeLinear come from, and what they are limited to.
struct IntegerSource {
  const graph::Node* quantize = nullptr;  ///< null: an initializer
  std::string value;                      ///< the QuantizeLinear's output, or the initializer
  graph::ElementType container = graph::ElementType::kUnknown;
  IntegerBounds bounds;  ///< of integer types
};
Result<IntegerSource> integer_source(const graph::Graph& graph, const graph::Links& links,
                                     const graph::Node& dequantize);

class QcdqReader {
 public:
  /// The graph is sorted, its shapes inferred, and stays as it is.
  QcdqReader(const graph::Graph& graph, QcdqReport& report);

  /// Writes a node: the end of a quantizer as that quantizer, any other as it is. What made the integers
  /// stays until nobody needs it.
  Why read(std::size_t node);

  graph::Graph finish(graph::Graph graph) &&;

 private:
  /// A quantizer to write: of `data`, or of a constant.
  struct Quantizer {
    std::string op = "Quant";
    IntegerRange range;
    graph::ElementType minifloat = graph::ElementType::kUnknown;
    bool saturates = true;
    BroadcastParameters parameters;
  };

  Why dequantize(const graph::Node& node);
  Why activation(const graph::Node& node, const IntegerSource& source, Quantizer quantizer);
  /// `tensor`: the integers, or the floats that are quantized, in the shape that the quantizer's parameters
  /// broadcast to; `shape`: that of the constant.
  Why constant(const graph::Node& node, const graph::Tensor& tensor, const std::vector<std::int64_t>& shape,
               const IntegerSource& source, Quantizer quantizer);
  Why constant_floats(const graph::Node& node, const graph::Tensor& tensor,
                      const std::vector<std::int64_t>& shape, const Quantizer& quantizer);
  Result<Quantizer> quantizer_of(const graph::Node& node, const IntegerSource& source) const;
  bool reads_sign(const graph::Node& where);
  void emit(const graph::Node& node, const std::string& data, const Quantizer& quantizer,
            const std::string& output);
  void emit_constant(const graph::Node& node, const graph::Tensor& values,
                     const std::vector<std::int64_t>& shape, const Quantizer& quantizer);
  const std::string& alias(const std::string& value) const;

  const graph::Graph& graph_;
  QcdqReport& report_;
  graph::Links links_;
  Rewriter out_;
  std::map<std::string, std::string> aliases_;  ///< a second DequantizeLinear's output -> the first one's
  std::map<std::string, std::string> same_;     ///< QuantizeLinear's output and range -> the quantizer's
  std::map<std::string, std::string> bipolar_names_;  ///< from the metadata
};

}  // namespace crumb::exporting
