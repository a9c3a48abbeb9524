#include "libtorch/capture/torchscript.h"

#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <set>

#include "base/files/text.h"
#include "libtorch/capture/convert.h"
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

/// Arguments that are left out are what they are by default, so that branches over them are decided.
void drop_defaults(jit::Graph& graph, const jit::Module& module, std::size_t given) {
  const auto& arguments = module.get_method("forward").function().getSchema().arguments();
  const jit::WithInsertPoint front(*graph.nodes().begin());
  for (std::size_t i = given + 1; i < arguments.size() && i < graph.inputs().size(); ++i) {
    if (!arguments[i].default_value()) continue;
    graph.inputs()[i]->replaceAllUsesWith(graph.insertConstant(*arguments[i].default_value()));
  }
}

void refuse_data_control(const jit::Module& module, const std::filesystem::path& path, std::size_t given) {
  std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  drop_defaults(*graph, module, given);
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

std::vector<std::string> torchscript_inputs(const std::filesystem::path& path) {
  const jit::Module module = load(path);
  const auto& arguments = module.get_method("forward").function().getSchema().arguments();
  std::vector<std::string> names;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].default_value()) continue;
    if (!arguments[i].type()->isSubtypeOf(*c10::TensorType::get())) {
      throw Error(quote_text(path.string()) + ": forward() takes " + quote_text(arguments[i].name()) +
                  " of type " + arguments[i].type()->str() + ", expected tensors only");
    }
    names.push_back(arguments[i].name());
  }
  return names;
}

graph::Graph read_torchscript(const std::filesystem::path& path, const Tensors& example,
                              const CaptureOptions& options) {
  jit::Module module = load(path);
  refuse_data_control(module, path, example.size());
  module.eval();
  const std::vector<NamedState> states = states_of(module);
  // Where nothing wants gradients, scripted transformers take one fused operator for a layer.
  for (const NamedState& state : states) {
    if (state.trains && state.tensor.is_floating_point()) state.tensor.requires_grad_();
  }
  CaptureOptions chosen = options;
  if (chosen.input_names.empty()) {
    for (const std::string& name : torchscript_inputs(path)) chosen.input_names.push_back(name);
    chosen.input_names.resize(std::min(chosen.input_names.size(), example.size()));
  }
  const jit::GraphOptimizerEnabledGuard unoptimized(false);
  const Forward forward = [&](const Tensors& x) {
    const c10::IValue result = module.forward(std::vector<c10::IValue>(x.begin(), x.end()));
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
