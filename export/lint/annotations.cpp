// Rules about QONNX's annotations: qonnx's executor rounds annotated tensors and fails where that moves them,
// and evaluates the texts of layouts and sparsities as Python.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/files/text.h"
#include "export/lint/checks.h"
#include "export/lint/quantized.h"
#include "graph/datatypes.h"
#include "graph/facts/contradictions.h"
#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::exporting::checks {
namespace {

using graph::DataType;

constexpr const char* kDataType = "finn_datatype";
constexpr std::array kTexts = {"tensor_layout", "tensor_sparsity"};

bool is_number(const Tensor& tensor) {
  return info(tensor.type()).bits > 0 && info(tensor.type()).kind != graph::ElementKind::kComplex;
}

/// Why values are not of the type; empty where they are.
std::string fault_of_values(const std::vector<float>& values, const DataType& type, const char* what) {
  for (const float value : values) {
    if (!type.allows(value)) return what + number_text(value);
  }
  return "";
}

/// The codes less the zero point that a quantizer can make, from low to high.
struct Steps {
  double low = -1, high = 1;
  double between = 2;  ///< one and the next
};

/// Nothing where its parameters are not constant, or none that a quantizer can have.
std::optional<Steps> steps_of(const Subject& subject, const Node& node) {
  if (is_bipolar(node)) return Steps{};
  const auto zero = uniform(subject.constant(node, kZeropt)), bits = uniform(subject.constant(node, kBits));
  if (!zero || !bits || !(*bits >= 1) || *bits > DataType::kMostBits) return {};
  const graph::IntegerFormat format{
      .bits = *bits, .is_signed = node.int_or("signed", 1) != 0, .narrow = node.int_or("narrow", 0) != 0};
  if (format.is_bipolar()) return Steps{.low = -1 - *zero, .high = 1 - *zero};
  return Steps{
      .low = std::trunc(format.lower()) - *zero, .high = std::trunc(format.upper()) - *zero, .between = 1};
}

/// Why the outputs of a quantizer with constant parameters are not of the type; empty where they are, or may
/// be.
std::string fault_of_quantizer(const Subject& subject, const Node& node, const DataType& type) {
  constexpr double kMostTried = 256;  // numbers of one scale; of more, both ends and the first ones
  if (type.kind() == DataType::Kind::kFloat) return "";
  const Tensor* scale = subject.constant(node, kScale);
  const auto steps = steps_of(subject, node);
  if (!scale || !is_number(*scale) || !steps) return "";
  const auto fault = [&](float factor, double step) {
    const double value = static_cast<float>(step) * factor;
    return type.allows(value) ? "" : "its quantizer makes " + number_text(value);
  };
  for (const float factor : scale->to_floats()) {
    for (double i = 0; i < kMostTried && steps->low + i * steps->between < steps->high; ++i) {
      if (std::string found = fault(factor, steps->low + i * steps->between); !found.empty()) return found;
    }
    if (std::string found = fault(factor, steps->high); !found.empty()) return found;
  }
  return "";
}

/// What a value is before operators that only move elements.
std::string origin_of(const Subject& subject, std::string value) {
  constexpr std::array kMoving = {"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity"};
  while (const Node* node = subject.producer(value)) {
    if (!node->domain.empty() || std::ranges::find(kMoving, node->op) == kMoving.end()) break;
    value = input_of(*node, 0);
  }
  return value;
}

std::string fault_of(const Subject& subject, const std::string& name, const std::string& text) {
  const auto parsed = DataType::parse(text);
  if (!parsed.ok()) return parsed.failure().message;
  const DataType& type = parsed.value();
  if (!type.is_integer() && !type.is_fixed_point()) return "";
  const std::string origin = origin_of(subject, name);
  std::string fault;
  if (const Tensor* constant = subject.graph().constant(origin)) {
    if (is_number(*constant)) fault = fault_of_values(constant->to_floats(), type, "it holds ");
  } else if (const Node* node = subject.producer(origin); node && is_integer_quantizer(*node)) {
    const auto made = quantized(subject.graph(), *node);  // of a constant
    fault = made ? fault_of_values(made->values, type, "its quantizer makes ")
                 : fault_of_quantizer(subject, *node, type);
  }
  return fault.empty() ? ""
                       : "it is annotated as " + type.name() + ", but " + fault +
                             "; expected an integer type on integers only";
}

/// What is wrong with annotations, by the names of values: by the quantizer or constant behind one, and by
/// the ranges that follow from the whole graph.
struct Fault {
  std::string what;
  bool fixable = true;  ///< an annotation, which can be dropped
};
std::map<std::string, Fault> faults_of(const Subject& subject) {
  std::map<std::string, Fault> faults;
  for (const auto& [name, value] : subject.graph().values) {
    const auto found = value.annotations.find(kDataType);
    if (found == value.annotations.end()) continue;
    if (std::string fault = fault_of(subject, name, found->second); !fault.empty())
      faults.emplace(name, Fault{std::move(fault)});
  }
  try {
    for (const graph::Contradiction& one : graph::contradictions(subject.graph())) {
      if (one.claim == graph::Contradiction::Claim::kElementType) continue;  // value-info says so
      faults.try_emplace(one.value, Fault{one.what, one.claim == graph::Contradiction::Claim::kAnnotation});
    }
  } catch (const Error&) {
    // A quantizer whose parameters do not fit: the rules about quantizers say so.
  }
  return faults;
}

/// Lists and dictionaries of names and numbers: nothing that does something when it is evaluated.
bool is_literal(const std::string& text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("[]{}:,'\"._-+ ").find(c) != std::string_view::npos;
  });
}

}  // namespace

void annotation_types(const Subject& subject, Report& report) {
  for (const auto& [name, fault] : faults_of(subject)) report.add(name, fault.what, fault.fixable);
}

Graph drop_annotations(Graph graph, Profile profile) {
  for (const auto& [name, fault] : faults_of(Subject(graph, profile))) {
    if (fault.fixable) graph.values[name].annotations.erase(kDataType);
  }
  return graph;
}

void annotation_texts(const Subject& subject, Report& report) {
  for (const auto& [name, value] : subject.graph().values) {
    for (const char* key : kTexts) {
      const auto found = value.annotations.find(key);
      if (found == value.annotations.end() || is_literal(found->second)) continue;
      report.add(name, std::string(key) + " is " + quote_text(found->second) +
                           ", which qonnx evaluates; expected a list or dictionary of names and numbers");
    }
  }
}

Graph drop_texts(Graph graph, Profile) {
  for (auto& [name, value] : graph.values) {
    for (const char* key : kTexts) {
      const auto found = value.annotations.find(key);
      if (found != value.annotations.end() && !is_literal(found->second)) value.annotations.erase(found);
    }
  }
  return graph;
}

}  // namespace crumb::exporting::checks
