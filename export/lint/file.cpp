// Rules about how a file is written: what reading puts right, and writing writes right.
#include <algorithm>
#include <set>

#include "base/files/text.h"
#include "export/lint/checks.h"
#include "graph/onnx/wire/domains.h"

namespace crumb::exporting::checks {
namespace {

using graph::FileFacts;

/// The name of a node of the file, which reading gives to those that have none.
std::string name_of(const Subject& subject, const FileFacts::NodeFacts& node) {
  if (!node.name.empty()) return node.name;
  for (const std::string& output : node.outputs) {
    if (const Node* made = subject.producer(output)) return made->name;
  }
  return node.outputs.empty() ? node.op : node.outputs[0];
}

std::string domain_text(const std::string& domain) {
  return domain.empty() ? "ONNX's own" : quote_text(domain);
}

bool is_onnx(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

}  // namespace

void opset_order(const Subject& subject, Report& report) {
  const FileFacts* file = subject.file();
  if (!file || (!file->imports.empty() && is_onnx(file->imports[0].domain))) return;
  report.add("opset_import",
             file->imports.empty()
                 ? "no operator set is imported, expected ONNX's own (\"\") first"
                 : "the first operator set that is imported is " + domain_text(file->imports[0].domain) +
                       " " + std::to_string(file->imports[0].version) + ", expected ONNX's own (\"\")");
}

void domain_imports(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  std::set<std::string> seen;
  for (const auto& import : subject.file()->imports) {
    seen.insert(is_onnx(import.domain) ? "" : import.domain);
  }
  for (const auto& node : subject.file()->nodes) {
    const std::string domain = is_onnx(node.domain) ? "" : node.domain;
    if (!seen.insert(domain).second) continue;
    report.add(name_of(subject, node), "its domain " + domain_text(domain) + " is not imported");
  }
}

void legacy_domains(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  for (const auto& node : subject.file()->nodes) {
    const bool is_older = graph::usual_domain(node.domain) == kQonnxDomain && node.domain != kQonnxDomain;
    const bool is_left_out = is_onnx(node.domain) && graph::is_qonnx_operator(node.op);
    if (!is_older && !is_left_out) continue;
    report.add(name_of(subject, node), node.op + " is of domain " + domain_text(node.domain) + ", expected " +
                                           quote_text(kQonnxDomain));
  }
}

void ir_version(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  constexpr std::int64_t kOfFinn = 10, kOfOnnxruntime = 13, kWritten = 8;
  const std::int64_t most = subject.is_for(Profile::kFinn) ? kOfFinn : kOfOnnxruntime;
  const std::int64_t found = subject.file()->ir_version;
  if (found <= most) return;
  bool is_small = false;  // element types that need a newer one
  const auto see = [&](graph::ElementType type) {
    is_small = is_small || (type >= graph::ElementType::kUint4 && type != graph::ElementType::kUnknown);
  };
  for (const auto& [name, tensor] : subject.graph().initializers) see(tensor.type());
  for (const auto& [name, value] : subject.graph().values) see(value.type);
  report.add("ir_version",
             "found " + std::to_string(found) + ", expected " + std::to_string(kWritten) + " and at most " +
                 std::to_string(most),
             !is_small || !subject.is_for(Profile::kFinn));
}

void functions(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  for (const std::string& name : subject.file()->functions) {
    report.add(printable(name), "the model defines a function of this name, expected its body in the graph");
  }
}

void initializers_as_inputs(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  for (const std::string& name : subject.file()->both) {
    report.add(name, "this initializer is also listed as an input of the graph");
  }
}

void unused_initializers(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  std::set<std::string> taken(subject.graph().outputs.begin(), subject.graph().outputs.end());
  for (const auto& node : subject.file()->nodes) taken.insert(node.inputs.begin(), node.inputs.end());
  for (const std::string& name : subject.file()->initializers) {
    if (!taken.contains(name)) report.add(name, "no node takes this initializer");
  }
}

void node_order(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  std::set<std::string> later;  // values of nodes that are still to come
  for (const auto& node : subject.file()->nodes) later.insert(node.outputs.begin(), node.outputs.end());
  later.erase("");
  for (const auto& node : subject.file()->nodes) {
    const auto early =
        std::ranges::find_if(node.inputs, [&](const auto& name) { return later.contains(name); });
    if (early != node.inputs.end()) {
      report.add(name_of(subject, node),
                 "it stands before the node that makes its input " + quote_text(*early));
    }
    for (const std::string& output : node.outputs) later.erase(output);
  }
}

void constant_nodes(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  for (const auto& node : subject.file()->nodes) {
    if (node.op != "Constant" || !is_onnx(node.domain) || node.outputs.empty()) continue;
    report.add(name_of(subject, node),
               "a Constant node makes " + quote_text(node.outputs[0]) + ", expected an initializer",
               subject.graph().constant(node.outputs[0]) || !subject.producer(node.outputs[0]));
  }
}

void stated_shapes(const Subject& subject, Report& report) {
  if (!subject.file()) return;
  const Graph& graph = subject.graph();
  const auto check = [&](const std::string& name, const Value* known) {
    if (name.empty() || !known || !known->is_static()) return;
    if (known->type == graph::ElementType::kUnknown) return;
    const auto found = subject.file()->stated.find(name);
    if (found == subject.file()->stated.end() || found->second.type == graph::ElementType::kUnknown ||
        !found->second.shape) {
      report.add(name, "the file does not state its type and shape: " +
                           std::string(graph::name_of(known->type)) + " " + text_of(*known->shape));
    } else if (found->second.shape != known->shape || found->second.type != known->type) {
      report.add(name, "the file states " + std::string(graph::name_of(found->second.type)) + " " +
                           text_of(*found->second.shape) + ", expected " +
                           std::string(graph::name_of(known->type)) + " " + text_of(*known->shape));
    }
  };
  for (const std::string& name : graph.inputs) check(name, graph.find(name));
  for (const Node& node : graph.nodes) {
    for (const std::string& name : node.outputs) {
      if (!graph.constant(name)) check(name, graph.find(name));
    }
  }
  if (!subject.is_for(Profile::kHls4ml)) return;
  for (const std::string& name : subject.file()->initializers) {  // hls4ml looks for every operand's
    const Tensor* constant = graph.constant(name);
    const Value value = constant ? graph::value_of(*constant) : Value{};
    check(name, &value);
  }
}

}  // namespace crumb::exporting::checks
