// Rules about every quantizer: operator, attributes, and the shapes and types of its parameters.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "export/lint/checks.h"
#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::exporting::checks {
namespace {

constexpr const char* kMode = "rounding_mode";

/// An attribute that a quantizer must have, and what stands for it where it is missing and that is certain.
struct Needed {
  const char* name;
  std::optional<graph::Attribute> certain;
};

std::vector<Needed> needed_attributes(const Node& node) {
  const auto integer = [](std::int64_t value) { return std::optional<graph::Attribute>(value); };
  const auto text = [](const char* value) { return std::optional<graph::Attribute>(std::string(value)); };
  // Tools differ about what a Quant without `signed` or `narrow` is.
  if (is_quant(node)) return {{"signed", {}}, {"narrow", {}}, {kMode, text("ROUND")}};
  if (node.is("FloatQuant", kQonnxDomain)) {
    return {{kMode, text("ROUND")},
            {"has_inf", integer(0)},
            {"has_nan", integer(0)},
            {"has_subnormal", integer(0)},
            {"saturation", integer(1)}};
  }
  if (!node.is("Trunc", kQonnxDomain)) return {};
  std::vector<Needed> needed{{kMode, text("FLOOR")}};
  if (node.inputs.size() > 5) {
    needed.push_back({"signed", integer(1)});
    needed.push_back({"narrow", integer(0)});
  }
  return needed;
}

/// Inputs that are one number each.
std::vector<std::size_t> scalars_of(const Node& node) {
  if (is_quant(node)) return {kBits};
  if (node.is("Trunc", kQonnxDomain)) {
    return node.inputs.size() > 5 ? std::vector<std::size_t>{3, 5} : std::vector<std::size_t>{3, 4};
  }
  if (node.is("FloatQuant", kQonnxDomain)) return {2, 3, 4, 5};
  return {};
}

/// The constant as float32; nothing where a number would change.
std::optional<Tensor> as_floats(const Tensor& tensor) {
  const auto kind = info(tensor.type()).kind;
  if (kind != graph::ElementKind::kFloat && !graph::is_integer(tensor.type())) return {};
  const std::vector<float> values = tensor.to_floats();
  if (graph::is_integer(tensor.type())) {
    const std::vector<std::int64_t> exact = tensor.to_ints();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::abs(exact[i]) > (std::int64_t{1} << 24)) return {};
    }
  } else if (tensor.type() == graph::ElementType::kDouble) {
    const auto bytes = tensor.bytes();
    for (std::size_t i = 0; i < values.size(); ++i) {
      double exact = 0;
      std::memcpy(&exact, bytes.data() + i * sizeof exact, sizeof exact);
      if (static_cast<double>(values[i]) != exact) return {};
    }
  }
  return Tensor::floats(tensor.shape(), values);
}

/// For each parameter of a quantizer that is a constant.
template <class F>
void each_parameter(const Graph& graph, const Node& node, F visit) {
  if (!is_qonnx_quantizer(node)) return;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (const Tensor* constant = constant_input(graph, node, i)) visit(i, *constant);
  }
}

const char* parameter_name(const Node& node, std::size_t i) {
  static constexpr const char* kOfQuant[] = {"X", "scale", "zeropt", "bitwidth"};
  static constexpr const char* kOfTrunc[] = {"X", "scale", "zeropt", "in_bitwidth", "out_bitwidth"};
  static constexpr const char* kOfTrunc2[] = {"X",           "scale",     "zeropt",
                                              "in_bitwidth", "out_scale", "out_bitwidth"};
  static constexpr const char* kOfFloat[] = {
      "X", "scale", "exponent_bitwidth", "mantissa_bitwidth", "exponent_bias", "max_val"};
  if (is_integer_quantizer(node)) return i < 4 ? kOfQuant[i] : "an input";
  if (node.op == "FloatQuant") return i < 6 ? kOfFloat[i] : "an input";
  if (node.inputs.size() > 5) return i < 6 ? kOfTrunc2[i] : "an input";
  return i < 5 ? kOfTrunc[i] : "an input";
}

std::string shape_text(const Tensor& tensor) { return graph::text_of(std::span(tensor.shape())); }

bool is_parameter_of_shape(const Node& node, std::size_t i) {
  return i == kScale || (i == kZeropt && !is_bipolar(node) && node.op != "FloatQuant");
}

bool lacks_axes(const Graph& graph, const Node& node, std::size_t i, const Tensor& constant) {
  const auto rank = graph.rank_of(input_of(node, kData));
  return is_parameter_of_shape(node, i) && rank && constant.size() > 1 && constant.shape().size() < *rank;
}

/// A mode that means the same and is known everywhere.
std::string usual_mode(const std::string& mode) {
  const std::string upper = upper_case(mode);
  return upper == "HALF_EVEN" ? "ROUND" : upper;
}

}  // namespace

void old_names(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (node.is("IntQuant", kQonnxDomain)) {
      report.add(node, "found IntQuant, expected Quant: qonnx's tools fold IntQuant of a constant away");
    }
  }
}

Graph rename_old(Graph graph, Profile) {
  for (Node& node : graph.nodes) {
    if (node.is("IntQuant", kQonnxDomain)) node.op = "Quant";
  }
  return graph;
}

void input_count(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_qonnx_quantizer(node) || node.op == "Trunc") continue;
    const std::size_t expected = is_bipolar(node) ? 2 : is_quant(node) ? 4 : 6;
    std::size_t found = 0;
    while (found < node.inputs.size() && node.has_input(found)) ++found;
    if (found == expected && node.inputs.size() == expected) continue;
    report.add(node, "it has " + std::to_string(found) + " inputs, expected " + std::to_string(expected));
  }
}

void attributes(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    for (const Needed& needed : needed_attributes(node)) {
      if (!node.has(needed.name)) {
        report.add(node, "attribute " + std::string(needed.name) + " is not written",
                   needed.certain.has_value());
      }
    }
  }
}

Graph add_attributes(Graph graph, Profile) {
  for (Node& node : graph.nodes) {
    for (const Needed& needed : needed_attributes(node)) {
      if (needed.certain) node.attributes.emplace(needed.name, *needed.certain);
    }
  }
  return graph;
}

void rounding_mode(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_qonnx_quantizer(node) || !node.has(kMode)) continue;
    const std::string mode = node.text_or(kMode, "ROUND");
    const std::string upper = upper_case(mode);
    const std::string usual = usual_mode(mode);
    if (!graph::find_quant_rounding(mode)) {
      report.add(node, "unknown rounding_mode " + quote_text(mode), false);
    } else if (subject.is_for(Profile::kHls4ml) && usual != "ROUND" && usual != "FLOOR") {
      report.add(node, "rounding_mode is " + upper + ", expected ROUND or FLOOR", false);
    } else if (subject.is_for(Profile::kFinn) && is_quant(node) && !is_weight(subject.graph(), node) &&
               !finn_takes_rounding(node)) {
      report.add(node,
                 "rounding_mode is " + upper +
                     ", expected ROUND, or HALF_UP without a sign: FINN rounds activations to nearest",
                 can_be_thresholds(subject, node));
    } else if (upper != usual && !subject.is_for(Profile::kQonnx)) {
      report.add(node, "rounding_mode is " + upper + ", expected " + usual + ", which is the same", true);
    }
  }
}

void mode_spelling(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_qonnx_quantizer(node) || !node.has(kMode)) continue;
    const std::string mode = node.text_or(kMode, "ROUND");
    if (graph::find_quant_rounding(mode) && mode != upper_case(mode)) {
      report.add(node, "rounding_mode is " + quote_text(mode) + ", expected " + upper_case(mode));
    }
  }
}

bool finn_takes_rounding(const Node& node) {
  const std::string mode = upper_case(node.text_or(kMode, "ROUND"));
  return usual_mode(mode) == "ROUND" || (mode == "HALF_UP" && node.int_or("signed", 1) == 0);
}

Graph spell_modes(Graph graph, Profile profile) {
  for (Node& node : graph.nodes) {
    if (!is_qonnx_quantizer(node) || !node.has(kMode)) continue;
    const std::string mode = node.text_or(kMode, "ROUND");
    if (graph::find_quant_rounding(mode)) node.attributes[kMode] = usual_mode(mode);
  }
  return profile == Profile::kFinn ? write_thresholds(std::move(graph), profile) : std::move(graph);
}

void constant_parameters(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!is_qonnx_quantizer(node)) continue;
    const std::vector<std::size_t> scalars = scalars_of(node);
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      const bool matters = !subject.is_for(Profile::kQonnx) || std::ranges::find(scalars, i) != scalars.end();
      if (!matters || !node.has_input(i) || subject.constant(node, i)) continue;
      report.add(node, std::string(parameter_name(node, i)) + " is computed, expected a constant");
    }
  }
}

void parameter_types(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    each_parameter(subject.graph(), node, [&](std::size_t i, const Tensor& constant) {
      if (constant.type() == graph::ElementType::kFloat) return;
      report.add(node,
                 std::string(parameter_name(node, i)) + " is " +
                     std::string(graph::name_of(constant.type())) + ", expected float",
                 as_floats(constant).has_value());
    });
  }
}

Graph rewrite_types(Graph graph, Profile) {
  for (Node& node : graph.nodes) {
    std::vector<std::pair<std::size_t, Tensor>> changes;
    each_parameter(graph, node, [&](std::size_t i, const Tensor& constant) {
      if (constant.type() == graph::ElementType::kFloat) return;
      if (auto floats = as_floats(constant)) changes.emplace_back(i, std::move(*floats));
    });
    for (auto& [i, tensor] : changes) give_constant(graph, node, i, std::move(tensor));
  }
  return graph;
}

void scalar_bits(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    for (const std::size_t i : scalars_of(node)) {
      const Tensor* constant = subject.constant(node, i);
      if (!constant || constant->rank() == 0) continue;
      report.add(node,
                 std::string(parameter_name(node, i)) + " has shape " + shape_text(*constant) +
                     ", expected [] (one number without axes)",
                 uniform(constant).has_value());
    }
  }
}

Graph make_bits_scalar(Graph graph, Profile) {
  for (Node& node : graph.nodes) {
    for (const std::size_t i : scalars_of(node)) {
      const Tensor* constant = constant_input(graph, node, i);
      const auto value = uniform(constant);
      if (!value || constant->rank() == 0) continue;
      give_constant(graph, node, i, constant->size() == 1 ? constant->reshaped({}) : Tensor::scalar(*value));
    }
  }
  return graph;
}

void scalar_zeropt(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Tensor* zeropt = is_quant(node) ? subject.constant(node, kZeropt) : nullptr;
    if (!zeropt || zeropt->size() < 2 || !uniform(zeropt)) continue;
    report.add(node, "zeropt has shape " + shape_text(*zeropt) + " of one number, " +
                         number_text(*uniform(zeropt)) + ", expected shape []");
  }
}

Graph make_zeropt_scalar(Graph graph, Profile) {
  for (Node& node : graph.nodes) {
    const Tensor* zeropt = is_quant(node) ? constant_input(graph, node, kZeropt) : nullptr;
    const auto value = uniform(zeropt);
    if (value && zeropt->size() > 1) give_constant(graph, node, kZeropt, Tensor::scalar(*value));
  }
  return graph;
}

void whole_bits(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const auto bits = is_quant(node) ? uniform(subject.constant(node, kBits)) : std::nullopt;
    if (!bits || (*bits >= 1 && std::trunc(*bits) == *bits)) continue;
    report.add(node, "bitwidth is " + number_text(*bits) + ", expected a whole number of at least 1");
  }
}

void finite_scale(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Tensor* scale = is_qonnx_quantizer(node) ? subject.constant(node, kScale) : nullptr;
    if (!scale || info(scale->type()).kind != graph::ElementKind::kFloat) continue;
    const bool positive = !subject.is_for(Profile::kQonnx);
    for (const float value : scale->to_floats()) {
      if (std::isfinite(value) && value != 0 && (value > 0 || !positive)) continue;
      report.add(node, "scale holds " + number_text(value) + ", expected " +
                           (positive ? "positive numbers" : "finite numbers other than 0"));
      break;
    }
  }
}

void parameter_axes(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    each_parameter(subject.graph(), node, [&](std::size_t i, const Tensor& constant) {
      if (!lacks_axes(subject.graph(), node, i, constant)) return;
      const auto rank = *subject.graph().rank_of(input_of(node, kData));
      report.add(node, std::string(parameter_name(node, i)) + " has shape " + shape_text(constant) +
                           ", expected " + std::to_string(rank) + " axes as the data have");
    });
  }
}

Graph add_axes(Graph graph, Profile) {
  for (Node& node : graph.nodes) {
    std::vector<std::pair<std::size_t, Tensor>> changes;
    each_parameter(graph, node, [&](std::size_t i, const Tensor& constant) {
      if (!lacks_axes(graph, node, i, constant)) return;
      const auto rank = *graph.rank_of(input_of(node, kData));
      changes.emplace_back(i, constant.reshaped(filled_up(constant.shape(), rank)));
    });
    for (auto& [i, tensor] : changes) give_constant(graph, node, i, std::move(tensor));
  }
  return graph;
}

void broadcast(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    each_parameter(subject.graph(), node, [&](std::size_t i, const Tensor& constant) {
      if (!is_parameter_of_shape(node, i) || constant.size() == 1) return;
      const auto data = subject.graph().shape_of(input_of(node, kData));
      if (!data) return;
      bool fits = constant.shape().size() <= data->size();
      for (std::size_t k = 0; fits && k < constant.shape().size(); ++k) {
        const std::int64_t size = constant.shape()[constant.shape().size() - 1 - k];
        const graph::Dim& dim = (*data)[data->size() - 1 - k];
        fits = size == 1 || !dim.known() || dim.size == size;
      }
      if (fits) return;
      report.add(node, std::string(parameter_name(node, i)) + " has shape " + shape_text(constant) +
                           ", which does not broadcast to the data's " + graph::text_of(*data));
    });
  }
}

void unsigned_narrow(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (is_quant(node) && node.int_or("signed", 1) == 0 && node.int_or("narrow", 0) != 0) {
      report.add(node, "it is unsigned and narrow; expected narrow with signed only");
    }
  }
}

}  // namespace crumb::exporting::checks
