#include "models/graph/onnx/local_functions.h"

#include <onnx/inliner/inliner.h>

#include <map>
#include <tuple>

#include "formats/error.h"
#include "formats/io/text.h"

namespace crumb::graph {
namespace {

constexpr int kMostNested = 64;
constexpr std::size_t kNodeBytes = 256;  // that a node takes beside what it says
constexpr std::size_t kFreeGrowth = std::size_t{4} << 20;
constexpr std::size_t kMostGrowth = 16;  // times the file

/// Adds up what the calls of a graph become.
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

}  // namespace

void inline_local_functions(onnx::ModelProto& model, std::size_t file_bytes) {
  if (model.functions_size() == 0) return;
  Growth(model, kFreeGrowth + kMostGrowth * file_bytes).of(model.graph().node());
  try {
    onnx::inliner::InlineLocalFunctions(model, true);
  } catch (const std::exception& error) {
    throw Error(std::string("the model's own functions cannot be put in place of their calls: ") +
                error.what());
  }
}

}  // namespace crumb::graph
