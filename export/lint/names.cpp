// Rules about names: what qonnx's converters split names at, and what hls4ml makes C++ of.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/files/text.h"
#include "export/lint/checks.h"

namespace crumb::exporting::checks {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// What is wrong with a node's name; empty where nothing is.
std::string fault_of_name(const std::string& name) {
  if (name.empty()) return "it has no name";
  if (!is_letter(name.front())) return "its name does not begin with a letter";
  return name.find('.') == std::string::npos ? "" : "its name holds a '.'";
}

constexpr std::string_view kReserved = "input";  // of layers, by hls4ml

/// What an input's variable cannot be called in the C++ that hls4ml writes: words of the language, its own
/// types, the project.
constexpr auto kTaken = std::to_array<std::string_view>(
    {"alignas",     "alignof",  "and",        "and_eq",    "asm",       "auto",         "bitand",
     "bitor",       "bool",     "break",      "case",      "catch",     "char",         "char16_t",
     "char32_t",    "char8_t",  "class",      "co_await",  "co_return", "co_yield",     "compl",
     "concept",     "const",    "const_cast", "consteval", "constexpr", "constinit",    "continue",
     "decltype",    "default",  "delete",     "do",        "double",    "dynamic_cast", "else",
     "enum",        "explicit", "export",     "extern",    "false",     "float",        "for",
     "friend",      "goto",     "if",         "inline",    "int",       "long",         "mutable",
     "namespace",   "new",      "noexcept",   "not",       "not_eq",    "nullptr",      "operator",
     "or",          "or_eq",    "private",    "protected", "public",    "register",     "reinterpret_cast",
     "requires",    "return",   "short",      "signed",    "sizeof",    "static",       "static_assert",
     "static_cast", "struct",   "switch",     "template",  "this",      "thread_local", "throw",
     "true",        "try",      "typedef",    "typeid",    "typename",  "union",        "unsigned",
     "using",       "virtual",  "void",       "volatile",  "wchar_t",   "while",        "xor",
     "xor_eq",      "input_t",  "result_t",   "myproject"});

/// Letters, digits and underscores, and no digit first.
bool is_word(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

enum class Named { kNode, kInput, kConstant };

/// Why hls4ml, which makes variables of inputs, types of nodes and layers of all three, cannot take the name;
/// empty where it can.
std::string fault_for_hls4ml(const std::string& name, Named what) {
  if (name == kReserved) return "its name is one that hls4ml reserves";
  if (what == Named::kConstant) {
    if (name.find('.') != std::string::npos) return "its name holds a '.'";
    return is_digit(name.empty() ? '0' : name.front()) ? "its name begins with a digit" : "";
  }
  if (!is_word(name)) return "its name is no C++ identifier";
  const bool taken = what == Named::kInput && std::ranges::find(kTaken, name) != kTaken.end();
  return taken ? "its name is taken in hls4ml's C++" : "";
}

/// The nearest that it can take, and is none of `names`; it is put there.
std::string name_for_hls4ml(const std::string& name, std::set<std::string>& names) {
  std::string requested;
  for (const char c : name) requested += is_letter(c) || is_digit(c) ? c : '_';
  if (requested.empty() || !is_letter(requested.front())) requested = "n" + requested;
  std::string made = requested;
  for (int i = 1; !fault_for_hls4ml(made, Named::kInput).empty() || !names.insert(made).second; ++i)
    made = requested + "_" + std::to_string(i);
  return made;
}

bool is_input(const Graph& graph, const std::string& name) {
  return std::ranges::find(graph.inputs, name) != graph.inputs.end();
}

std::string fault_for_hls4ml(const Graph& graph, const Node& node) {
  if (is_input(graph, node.name)) return "its name is that of an input of the graph";
  return fault_for_hls4ml(node.name, Named::kNode);
}

/// Calls with those that become layers by their own name, and what is wrong with it.
template <class Call>
void for_each_faulty_value(const Graph& graph, const Call& call) {
  const auto look = [&](const std::string& name, Named what) {
    if (const std::string fault = fault_for_hls4ml(name, what); !fault.empty()) call(name, fault);
  };
  for (const std::string& name : graph.inputs) look(name, Named::kInput);
  for (const auto& [name, tensor] : graph.initializers) look(name, Named::kConstant);
}

}  // namespace

void node_names(const Subject& subject, Report& report) {
  std::map<std::string, int> counts;
  for (const Node& node : subject.nodes()) {
    if (const std::string fault = fault_of_name(node.name); !fault.empty()) report.add(node, fault);
    if (++counts[node.name] == 2 && !node.name.empty()) report.add(node, "two nodes have this name");
  }
  if (!subject.file()) return;
  for (const auto& node : subject.file()->nodes) {
    if (!node.name.empty()) continue;
    const Node* made = nullptr;
    for (const std::string& output : node.outputs) made = made ? made : subject.producer(output);
    if (made) report.add(*made, "it has no name in the file");
  }
}

Graph name_nodes(Graph graph, Profile) {
  std::map<std::string, int> counts, numbers;
  for (const Node& node : graph.nodes) ++counts[node.name];
  for (Node& node : graph.nodes) {
    if (fault_of_name(node.name).empty() && counts[node.name] == 1) continue;
    --counts[node.name];
    std::string base = is_letter(node.op.empty() ? ' ' : node.op.front()) ? node.op : "Node";
    std::ranges::replace(base, '.', '_');
    do {
      node.name = base + "_" + std::to_string(numbers[base]++);
    } while (counts.contains(node.name));
    counts[node.name] = 1;
  }
  return graph;
}

void hls4ml_names(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!fault_of_name(node.name).empty()) continue;  // node-name speaks of it
    if (const std::string fault = fault_for_hls4ml(subject.graph(), node); !fault.empty())
      report.add(node, fault);
  }
  for_each_faulty_value(subject.graph(),
                        [&](const std::string& name, const std::string& fault) { report.add(name, fault); });
}

Graph rename_for_hls4ml(Graph graph, Profile) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes) {
    names.insert(node.name);
    names.insert(node.outputs.begin(), node.outputs.end());
  }
  names.insert(graph.inputs.begin(), graph.inputs.end());
  for (const auto& [name, tensor] : graph.initializers) names.insert(name);
  for (Node& node : graph.nodes) {
    if (!fault_for_hls4ml(graph, node).empty()) node.name = name_for_hls4ml(node.name, names);
  }
  std::map<std::string, std::string> renamed;
  for_each_faulty_value(graph, [&](const std::string& name, const std::string&) {
    renamed[name] = name_for_hls4ml(name, names);
  });
  graph::rename_values(graph, renamed);
  return graph;
}

}  // namespace crumb::exporting::checks
