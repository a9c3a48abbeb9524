#include "libtorch/capture/torchscript.h"

#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <functional>
#include <set>

#include "base/files/text.h"
#include "libtorch/capture/convert.h"
#include "libtorch/capture/torchscript_constants.h"
#include "libtorch/operators.h"

namespace crumb::libtorch {
namespace {

namespace jit = torch::jit;

jit::Module load(const std::filesystem::path& path) {
  register_operators();
  try {
    jit::Module module = jit::load(path.string(), at::kCPU);
    if (!module.find_method("forward")) throw Error(quote_text(path.string()) + " has no forward()");
    return module;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // LibTorch's errors have no other base in common
    const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
    const std::string text = of_libtorch ? of_libtorch->what_without_backtrace() : error.what();
    throw Error(quote_text(path.string()) +
                " is no TorchScript archive that LibTorch reads: " + text.substr(0, text.find('\n')));
  }
}

/// The module itself is the first of them.
const std::vector<c10::Argument>& arguments_of(const jit::Module& module) {
  return module.get_method("forward").function().getSchema().arguments();
}

/// Whether the operator reads a value out of a tensor.
bool reads_values(const jit::Node* node) {
  static const std::set<std::string, std::less<>> kReaders = {"aten::item",
                                                              "aten::Int",
                                                              "aten::Float",
                                                              "aten::Bool",
                                                              "aten::Complex",
                                                              "aten::IntImplicit",
                                                              "aten::equal",
                                                              "aten::allclose",
                                                              "prim::tolist",
                                                              "aten::FloatImplicit",
                                                              "aten::ScalarImplicit",
                                                              "aten::is_nonzero",
                                                              "aten::_local_scalar_dense"};
  return kReaders.contains(node->kind().toQualString());
}

/// Whether the result says what type and shape say, and nothing of the values.
bool gives_facts(const jit::Node* node) {
  static const std::set<std::string, std::less<>> kFacts = {"aten::size", "aten::numel", "aten::len",
                                                            "aten::dim", "prim::shape"};
  return kFacts.contains(node->kind().toQualString());
}

/// Names every operator that turns data into something that may decide what runs: a number, a bool, a list of
/// numbers.
class DataControl {
 public:
  explicit DataControl(const jit::Graph& graph) {
    for (const jit::Value* input : graph.inputs()) data_.insert(input);
    if (!graph.inputs().empty()) data_.erase(graph.inputs()[0]);  // the module itself
    visit(graph.block(), 0);
  }
  const std::string& found() const { return found_; }

 private:
  /// Numbers that go around in a loop or come out of it hold data only where an operator that is named read
  /// them.
  static bool may_hold_data(const jit::Value* value) {
    const auto kind = value->type()->kind();
    return kind != c10::TypeKind::IntType && kind != c10::TypeKind::FloatType &&
           kind != c10::TypeKind::BoolType;
  }

  void visit(const jit::Block* block, int depth) {
    if (depth > 200) throw Error("blocks of the program lie too deep inside each other");
    for (const jit::Node* node : block->nodes()) {
      bool data = false;
      for (const jit::Value* input : node->inputs()) data = data || data_.contains(input);
      if (data && node->blocks().empty() && !gives_facts(node)) {
        if (reads_values(node)) add(node);
        for (const jit::Value* output : node->outputs()) data_.insert(output);
      }
      for (const jit::Block* inner : node->blocks()) {
        for (const jit::Value* input : inner->inputs()) {
          if (data && may_hold_data(input)) data_.insert(input);
        }
        visit(inner, depth + 1);
        for (const jit::Value* output : inner->outputs()) data = data || data_.contains(output);
      }
      if (data && !node->blocks().empty()) {
        for (const jit::Value* output : node->outputs()) {
          if (may_hold_data(output)) data_.insert(output);
        }
      }
    }
  }

  void add(const jit::Node* node) {
    const std::string kind = node->kind().toQualString();
    if (!found_.empty()) found_ += ", ";
    found_ += kind;
    const std::string where = node->sourceRange().str();
    if (const std::size_t file = where.find("File \""); file != std::string::npos) {
      found_ += " (" + where.substr(file, where.find('\n', file) - file) + ")";
    }
  }

  std::set<const jit::Value*> data_;
  std::string found_;
};

/// Constants, and arguments that are left out and have a default, are what they are, so that branches over
/// them are decided.
void put_constants(jit::Graph& graph, const jit::Module& module, const jit::Kwargs& constants) {
  const auto& arguments = arguments_of(module);
  const jit::WithInsertPoint front(*graph.nodes().begin());
  for (std::size_t i = 1; i < arguments.size() && i < graph.inputs().size(); ++i) {
    const auto given = constants.find(arguments[i].name());
    const bool is_given = given != constants.end();
    if (!is_given && !arguments[i].default_value()) continue;
    const c10::IValue& value = is_given ? given->second : *arguments[i].default_value();
    graph.inputs()[i]->replaceAllUsesWith(graph.insertConstant(value));
  }
}

void refuse_data_control(const jit::Module& module, const std::filesystem::path& path,
                         const jit::Kwargs& constants) {
  std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  put_constants(*graph, module, constants);
  jit::PeepholeOptimize(graph);
  jit::ConstantPropagation(graph);
  const DataControl control(*graph);
  if (control.found().empty()) return;
  throw Error(
      quote_text(path.string()) +
      ": values of tensors decide what the program does, which no graph can hold: " + control.found());
}

std::vector<NamedState> states_of(const jit::Module& module) {
  std::vector<NamedState> states;
  std::set<at::TensorImpl*> seen;
  const auto add = [&](const auto& all, bool trains) {
    for (const auto& one : all) {
      if (seen.insert(one.value.unsafeGetTensorImpl()).second)
        states.push_back({one.name, one.value, trains});
    }
  };
  add(module.named_parameters(), true);
  add(module.named_buffers(), false);
  return states;
}

}  // namespace

std::vector<graph::TorchScriptArgument> torchscript_arguments(const std::filesystem::path& path) {
  const jit::Module module = load(path);
  std::vector<graph::TorchScriptArgument> found;
  for (const c10::Argument& argument : arguments_of(module)) {
    if (&argument == &arguments_of(module).front()) continue;
    found.push_back({.name = argument.name(),
                     .type = argument.type()->annotation_str(),
                     .is_tensor = argument.type()->isSubtypeOf(*c10::TensorType::get()),
                     .has_default = argument.default_value().has_value()});
  }
  return found;
}

graph::Graph read_torchscript(const std::filesystem::path& path, const Tensors& example,
                              const std::map<std::string, std::string>& constants,
                              const CaptureOptions& options) {
  jit::Module module = load(path);
  const jit::Kwargs given = torchscript_constants(arguments_of(module), constants);
  refuse_data_control(module, path, given);
  module.eval();
  const std::vector<NamedState> states = states_of(module);
  // Where nothing wants gradients, scripted transformers take one fused operator for a layer.
  for (const NamedState& state : states) {
    if (state.trains && state.tensor.is_floating_point()) state.tensor.requires_grad_();
  }
  std::vector<std::string> names;
  for (const graph::TorchScriptArgument& argument : torchscript_arguments(path))
    if (argument.is_input() && !given.contains(argument.name)) names.push_back(argument.name);
  if (names.size() != example.size())
    throw Error(quote_text(path.string()) + ": forward() takes " + std::to_string(names.size()) +
                " tensors, found " + std::to_string(example.size()));
  CaptureOptions chosen = options;
  if (chosen.input_names.empty()) chosen.input_names = names;
  const jit::GraphOptimizerEnabledGuard unoptimized(false);
  const Forward forward = [&](const Tensors& x) {
    jit::Kwargs all_given = given;
    for (std::size_t i = 0; i < names.size(); ++i) all_given[names[i]] = x[i];
    const c10::IValue result = module.forward({}, all_given);
    Tensors all;
    const std::function<void(const c10::IValue&)> flatten = [&](const c10::IValue& value) {
      if (value.isTensor()) return all.push_back(value.toTensor());
      if (value.isTensorList()) return detail::flatten(value.toTensorVector(), all);
      if (!value.isTuple()) throw Error("forward() gives a " + value.tagKind() + ", expected tensors");
      for (const c10::IValue& element : value.toTupleRef().elements()) flatten(element);
    };
    flatten(result);
    return all;
  };
  const auto run = [&](const CaptureOptions& with) {
    try {
      return capture_function(forward, example, states, with);
    } catch (const std::exception& error) {
      throw Error(quote_text(path.string()) + ": " + error.what());
    }
  };
  if (!options.batch_axes.empty()) return run(chosen);
  try {
    return run(chosen);
  } catch (const Error&) {
    chosen.batch_axes.assign(example.size(), -1);
    return run(chosen);
  }
}

}  // namespace crumb::libtorch
