#include "graph/onnx/local_functions.h"

#include <onnx/inliner/inliner.h>

#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::graph {
namespace {

constexpr int kMostNested = 64;
constexpr std::size_t kNodeBytes = 256;  // size of a node without its strings
constexpr std::size_t kFreeGrowth = std::size_t{4} << 20;
constexpr std::size_t kMostGrowth = 16;  // times the file's size

/// Adds up the sizes of what a graph's calls expand to.
class Growth {
 public:
  Growth(const onnx::ModelProto& model, std::size_t most) : most_(most) {
    for (const auto& function : model.functions()) {
      functions_.emplace(Key{usual(function.domain()), function.name(), function.overload()},
                         Function{.body = &function});
    }
  }

  template <class Nodes>
  std::size_t of(const Nodes& nodes) {
    std::size_t total = 0;
    for (const onnx::NodeProto& node : nodes) {
      total += of_node(node);
      if (total > most_) {
        throw Error("its functions call each other so often that the graph would take more than " +
                    byte_text(most_));
      }
    }
    return total;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Function {
    const onnx::FunctionProto* body = nullptr;
    std::size_t bytes = 0;  ///< 0: not known yet
    bool is_open = false;   ///< its calls are being followed
  };

  static std::string usual(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

  std::size_t of_node(const onnx::NodeProto& node) {
    std::size_t total = kNodeBytes + node.ByteSizeLong();
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) total += of(attribute.g().node());
      for (const auto& graph : attribute.graphs()) total += of(graph.node());
    }
    const auto found = functions_.find(Key{usual(node.domain()), node.op_type(), node.overload()});
    return found == functions_.end() ? total : total + of_function(found->second);
  }

  std::size_t of_function(Function& function) {
    if (function.is_open) throw Error("its function " + quote_text(function.body->name()) + " calls itself");
    if (function.bytes > 0) return function.bytes;
    if (depth_ >= kMostNested) {
      throw Error("its functions call each other more than " + std::to_string(kMostNested) + " deep");
    }
    ++depth_;
    function.is_open = true;
    function.bytes = kNodeBytes + of(function.body->node());
    function.is_open = false;
    --depth_;
    return function.bytes;
  }

  const std::size_t most_;
  std::map<Key, Function> functions_;
  int depth_ = 0;
};

/// Checks a function's body, or a graph within one: the values that its nodes produce, and those that they
/// take from it or from around it.
class Body {
 public:
  explicit Body(const std::string& function, const Body* around = nullptr)
      : function_(function), around_(around), depth_(around ? around->depth_ + 1 : 0) {
    if (depth_ > kMostNested) throw Error("its function " + quote_text(function_) + " nests too many graphs");
  }

  void make(const std::string& value) {
    if (!value.empty()) made_.insert(value);
  }

  /// Throws Error where a node takes a value that does not exist yet.
  void run(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    for (const onnx::NodeProto& node : nodes) {
      for (const std::string& value : node.input()) {
        if (!value.empty() && !sees(value)) refuse(value);
      }
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) run_inside(attribute.g());
        for (const auto& graph : attribute.graphs()) run_inside(graph);
      }
      for (const std::string& value : node.output()) make(value);
    }
  }

  void expect_own(const std::string& output) const {
    if (!made_.contains(output)) refuse(output);
  }

 private:
  bool sees(const std::string& value) const {
    for (const Body* body = this; body; body = body->around_) {
      if (body->made_.contains(value)) return true;
    }
    return false;
  }

  void run_inside(const onnx::GraphProto& graph) const {
    Body inner(function_, this);
    for (const auto& input : graph.input()) inner.make(input.name());
    for (const auto& initializer : graph.initializer()) inner.make(initializer.name());
    inner.run(graph.node());
    for (const auto& output : graph.output()) inner.expect_own(output.name());
  }

  [[noreturn]] void refuse(const std::string& value) const {
    throw Error("its function " + quote_text(function_) + " uses the value " + quote_text(value) +
                ", which nothing in it makes");
  }

  const std::string& function_;
  const Body* around_;
  int depth_;
  std::set<std::string> made_;
};

void check_bodies(const onnx::ModelProto& model) {
  for (const auto& function : model.functions()) {
    Body body(function.name());
    for (const std::string& input : function.input()) body.make(input);
    body.run(function.node());
    for (const std::string& output : function.output()) body.expect_own(output);
  }
}

}  // namespace

void inline_local_functions(onnx::ModelProto& model, std::size_t file_bytes) {
  if (model.functions_size() == 0) return;
  check_bodies(model);
  Growth(model, kFreeGrowth + kMostGrowth * file_bytes).of(model.graph().node());
  try {
    onnx::inliner::InlineLocalFunctions(model, true);
  } catch (const std::exception& error) {
    throw Error(std::string("the model's own functions cannot be put in place of their calls: ") +
                error.what());
  }
}

}  // namespace crumb::graph
