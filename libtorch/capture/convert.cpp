#include "libtorch/capture/convert.h"

#include <torch/csrc/jit/ir/constants.h>

#include <set>

#include "base/files/text.h"
#include "graph/buffers.h"
#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "libtorch/capture/aliases.h"
#include "libtorch/capture/op.h"
#include "libtorch/execute/graph_module.h"

namespace crumb::libtorch {
namespace {

namespace jit = torch::jit;
using graph::Graph;

bool is_structure(const jit::Node* node) {
  return node->kind() == c10::prim::Constant || node->kind() == c10::prim::ListConstruct ||
         node->kind() == c10::prim::ListUnpack || node->kind() == c10::prim::TupleConstruct ||
         node->kind() == c10::prim::TupleUnpack;
}

bool holds_tensors(const jit::Value* value) {
  const auto& type = value->type();
  if (type->isSubtypeOf(*c10::TensorType::get())) return true;
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->isSubtypeOf(*c10::TensorType::get());
}

class Converter {
 public:
  Converter(const Recording& recording, Number batch, const Ints& axes, const std::vector<NamedState>& states,
            const CaptureOptions& options)
      : recording_(recording),
        axes_(axes),
        states_(states),
        options_(options),
        input_names_(names_of(options.input_names, "input", recording.inputs())),
        net_(batch, batch_input(), batch_axis()) {}

  Graph run() {
    find_wanted();
    refuse_unknown();
    net_.graph.opsets[std::string(graph::kOnnxDomain)] = kOpset;
    add_inputs();
    for (const jit::Node* node : wanted_) convert_node(node);
    if (!refused_.empty()) refuse();
    add_outputs();
    Graph& graph = net_.graph;
    graph.name = "captured";
    graph::drop_unused(graph);
    name_buffers();
    return graph::infer_shapes(graph::sorted(std::move(graph)));
  }

 private:
  static Names names_of(Names given, const std::string& requested, std::size_t count) {
    for (std::size_t i = given.size(); i < count; ++i) {
      given.push_back(count == 1 ? requested : requested + "_" + std::to_string(i));
    }
    return given;
  }

  std::size_t batch_index() const {
    return static_cast<std::size_t>(std::ranges::find_if(axes_, [](std::int64_t axis) { return axis >= 0; }) -
                                    axes_.begin());
  }
  std::string batch_input() const { return batch_index() < axes_.size() ? input_names_[batch_index()] : ""; }
  std::int64_t batch_axis() const { return batch_index() < axes_.size() ? axes_[batch_index()] : -1; }

  /// The operators that the outputs depend on by tensors, in the order in which they ran.
  void find_wanted() {
    std::set<const jit::Node*> wanted;
    std::vector<const jit::Value*> open(recording_.graph().outputs().begin(),
                                        recording_.graph().outputs().end());
    while (!open.empty()) {
      const jit::Node* node = open.back()->node();
      open.pop_back();
      if (node->kind() == c10::prim::Constant || node->kind() == c10::prim::Param) continue;
      if (!wanted.insert(node).second) continue;
      for (const jit::Value* input : node->inputs()) {
        if (holds_tensors(input) || is_structure(input->node())) open.push_back(input);
      }
    }
    for (const jit::Node* node : recording_.graph().nodes()) {
      if (wanted.contains(node)) wanted_.push_back(node);
    }
    refuse_shared_changes(recording_.graph(), wanted_);
  }

  /// "behind 'conv1'": the module whose parameters the operator takes, or those before it.
  void find_places() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const std::string& name = states_[i].name;
      const std::size_t dot = name.rfind('.');
      places_[recording_.graph().inputs()[recording_.inputs() + i]] = {
          dot == std::string::npos ? "" : name.substr(0, dot), true};
    }
    for (const jit::Node* node : recording_.graph().nodes()) {
      Place place;
      for (const jit::Value* input : node->inputs()) {
        const auto known = places_.find(input);
        if (known == places_.end() || known->second.module.empty()) continue;
        if (place.module.empty() || known->second.own) place = known->second;
      }
      own_[node] = place.own ? place.module : "";
      behind_[node] = place.module;
      place.own = is_structure(node) && place.own;
      for (const jit::Value* output : node->outputs()) places_[output] = place;
    }
  }

  std::string where(const jit::Node* node) const {
    const std::string kind = node->kind().toQualString();
    if (!own_.at(node).empty()) return kind + " in " + quote_text(own_.at(node));
    if (!behind_.at(node).empty()) return kind + " behind " + quote_text(behind_.at(node));
    return kind;
  }

  void refuse_unknown() {
    find_places();
    for (const jit::Node* node : wanted_) {
      if (is_structure(node)) continue;
      const Op op(node, recording_, net_, values_, options_.batch_statistics);
      if (!find_conversion(op.kind())) refused_.push_back(where(node));
    }
    if (!refused_.empty()) refuse();
  }

  [[noreturn]] void refuse() const {
    std::string text;
    for (const std::string& one : refused_) text += (text.empty() ? "" : ", ") + one;
    throw Error("operators that have no form in ONNX here: " + text);
  }

  graph::Value value_of(const Seen& seen) const {
    graph::Value value{.type = libtorch::type_of(seen.type), .shape = graph::Shape{}};
    for (const Number& size : seen.sizes) value.shape->push_back(net_.dim(size, options_.batch_name));
    return value;
  }

  void add_inputs() {
    const auto inputs = recording_.graph().inputs();
    for (std::size_t i = 0; i < recording_.inputs(); ++i) {
      const std::string name = net_.unused(input_names_[i]);
      if (name != input_names_[i]) throw Error("two inputs are called " + quote_text(name));
      net_.graph.inputs.push_back(name);
      net_.graph.values[name] = value_of(recording_.seen(inputs[i]));
      values_[inputs[i]] = {name};
    }
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const std::string name = net_.tensor(states_[i].tensor, states_[i].name);
      if (states_[i].trains) trained_.insert(name);
      values_[inputs[recording_.inputs() + i]] = {name};
    }
  }

  void convert_node(const jit::Node* node) {
    if (is_structure(node)) return convert_structure(node);
    Op op(node, recording_, net_, values_, options_.batch_statistics);
    const std::string short_kind = op.kind().substr(op.kind().rfind(':') + 1);
    net_.label(own_.at(node).empty() ? short_kind : own_.at(node));
    try {
      find_conversion(op.kind())(op);
    } catch (const Error& error) {
      refused_.push_back(where(node) + " (" + error.what() + ")");
    } catch (const c10::Error& error) {
      refused_.push_back(where(node) + " (" + error.what_without_backtrace() + ")");
    }
    for (const jit::Value* output : node->outputs()) {
      const auto made = values_.find(output);
      if (made == values_.end()) {
        if (!output->uses().empty() && refused_.empty()) {
          refused_.push_back(where(node) + " (its output " + std::to_string(output->offset()) + ")");
        }
        values_[output] = {"?"};  // never seen: what was refused is thrown
      }
    }
  }

  void convert_structure(const jit::Node* node) {
    if (node->kind() == c10::prim::ListUnpack) {
      const auto list = values_.find(node->input());
      for (std::size_t i = 0; i < node->outputs().size(); ++i) {
        if (list != values_.end() && i < list->second.size()) {
          values_[node->output(i)] = {list->second[i]};
        } else if (node->input()->node()->kind() == c10::prim::ListConstruct) {
          if (const auto one = values_.find(node->input()->node()->input(i)); one != values_.end()) {
            values_[node->output(i)] = one->second;
          }
        }
      }
    }
  }

  void add_outputs() {
    Names names = names_of(options_.output_names, "output", recording_.graph().outputs().size());
    Graph& graph = net_.graph;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const jit::Value* output = recording_.graph().outputs()[i];
      const std::string name = net_.unused(names[i]);
      net_.label(name);
      std::string made;
      if (const auto known = values_.find(output); known != values_.end()) {
        made = known->second[0];
      } else {
        const auto both = recording_.constants(output);
        if (both.empty() || !both[0].isTensor() || !both[0].toTensor().equal(both[1].toTensor())) {
          throw Error("output " + quote_text(name) + " was made by no operator that is recorded");
        }
        made = net_.tensor(both[0].toTensor());
      }
      graph.nodes.push_back({.name = net_.unused(name + "/Identity"),
                             .op = "Identity",
                             .domain = "",
                             .version = kOpset,
                             .inputs = {made},
                             .outputs = {name}});
      graph.outputs.push_back(name);
      graph.values[name] = value_of(recording_.seen(output));
    }
    const std::size_t first = graph.nodes.size() - names.size();
    for (std::size_t i = graph.nodes.size(); i-- > first;) graph::bypass(graph, i, 0);
  }

  /// What does not train, for GraphModule.
  void name_buffers() {
    for (const auto& [name, constant] : net_.graph.initializers)
      if (graph::is_float(constant.type()) && !trained_.contains(name)) graph::add_buffer(net_.graph, name);
  }

  struct Place {
    std::string module;
    bool own = false;
  };

  const Recording& recording_;
  const Ints& axes_;
  const std::vector<NamedState>& states_;
  const CaptureOptions& options_;
  Names input_names_;
  Network net_;
  Converted values_;
  std::vector<const jit::Node*> wanted_;
  std::map<const jit::Value*, Place> places_;
  std::map<const jit::Node*, std::string> own_, behind_;
  Names refused_;
  std::set<std::string> trained_;
};

}  // namespace

Graph convert(const Recording& recording, Number batch, const Ints& batch_axes,
              const std::vector<NamedState>& states, const CaptureOptions& options) {
  return Converter(recording, batch, batch_axes, states, options).run();
}

}  // namespace crumb::libtorch
