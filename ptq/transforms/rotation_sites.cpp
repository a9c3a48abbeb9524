#include "ptq/transforms/rotation_sites.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/files/text.h"
#include "graph/attention_caches.h"
#include "graph/edit.h"
#include "graph/weighted_product.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;
using graph::Tensor;
using In = graph::AttentionInput;
using Out = graph::AttentionOutput;

/// A MatMul or Gemm y = x W + b of constants: the axes of its matrix.
struct Product {
  std::string weight;
  std::size_t in = 0, out = 1;
};

std::optional<Product> product_of(const Graph& graph, const Node& node) {
  const auto product = graph::weighted_product(node, 2);
  if (!product || product->is_convolution() || product->transposes_data || node.inputs.size() < 2)
    return std::nullopt;
  const Tensor* weight = graph.constant(node.inputs[1]);
  if (!weight || weight->rank() != 2 || weight->type() != graph::ElementType::kFloat) return std::nullopt;
  return Product{.weight = node.inputs[1], .in = product->input_axis, .out = product->output_axis};
}

std::optional<std::size_t> channels_of(const Graph& graph, const std::string& value) {
  const auto shape = graph.shape_of(value);
  if (!shape || shape->empty() || !shape->back().known()) return std::nullopt;
  return static_cast<std::size_t>(shape->back().size);
}

bool looks_at_shape(const Node& node) { return node.is("Shape") || node.is("Size"); }

bool is_norm(const Graph& graph, const Node& node) {
  if (!node.is("RMSNormalization") || !node.has_input(1)) return false;
  const auto rank = graph.rank_of(node.inputs[0]);
  const std::int64_t axis = node.int_or("axis", -1);
  return axis == -1 || (rank && axis == static_cast<std::int64_t>(*rank) - 1);
}

/// Collects one site; throws what prevents it.
class SiteSearch {
 public:
  struct Obstacle {
    std::string why;
  };

  SiteSearch(const Graph& graph, const Links& links, std::string value, std::size_t size)
      : graph_(graph), links_(links) {
    site_.value = std::move(value);
    site_.size = size;
  }

  /// Returns the site if all consumers of its constants are rotated with it.
  RotationSite take() {
    for (const auto& [name, users] : users_) {
      if (links_.is_output(name) || links_.consumers(name).size() != users.size())
        stop("constant " + quote_text(name) + " is in use elsewhere");
    }
    return std::move(site_);
  }

  [[noreturn]] static void stop(std::string why) { throw Obstacle{std::move(why)}; }

  /// Rotates a constant that is that input of `node`.
  void rotate(RotatedConstant constant, std::size_t node, std::size_t input) {
    const Tensor* tensor = graph_.constant(constant.name);
    if (!tensor || tensor->type() != graph::ElementType::kFloat)
      stop(quote_text(constant.name) + " is no constant in float32");
    const auto length = static_cast<std::size_t>(tensor->shape().at(constant.axis));
    if (constant.first + constant.blocks * site_.size > length)
      stop("constant " + quote_text(constant.name) + " has " + std::to_string(length) + " channels");
    users_[constant.name].insert({node, input});
    const auto like = [&](const RotatedConstant& other) { return other.name == constant.name; };
    const auto found = std::ranges::find_if(site_.constants, like);
    if (found == site_.constants.end()) {
      site_.constants.push_back(std::move(constant));
    } else if (!(*found == constant)) {
      stop("constant " + quote_text(constant.name) + " would be rotated in two ways");
    }
  }

  /// Rotates the bias of a Gemm or Add: one number for each channel.
  void rotate_bias(std::size_t node, std::size_t input, std::size_t first, std::size_t blocks,
                   std::size_t channels) {
    const std::string& name = graph_.nodes[node].inputs[input];
    const Tensor* tensor = graph_.constant(name);
    if (!tensor || tensor->rank() < 1 || tensor->size() != static_cast<std::int64_t>(channels) ||
        tensor->shape().back() != tensor->size())
      stop(quote_text(name) + " is no bias of " + std::to_string(channels) + " channels");
    rotate({.name = name,
            .axis = static_cast<std::size_t>(tensor->rank()) - 1,
            .first = first,
            .blocks = blocks},
           node, input);
  }

  /// Rotates the outputs of a matrix that produces these channels, and its bias.
  bool rotate_producer(std::size_t index, std::size_t first, std::size_t blocks) {
    const Node& node = graph_.nodes[index];
    const auto product = product_of(graph_, node);
    if (!product) return false;
    rotate({.name = product->weight, .axis = product->out, .first = first, .blocks = blocks}, index, 1);
    if (node.has_input(2))
      rotate_bias(index, 2, first, blocks,
                  static_cast<std::size_t>(graph_.constant(product->weight)->shape()[product->out]));
    return true;
  }

  /// Rotates a matrix that takes them.
  bool rotate_consumer(std::size_t index, const std::string& value, std::size_t blocks) {
    const Node& node = graph_.nodes[index];
    const auto product = product_of(graph_, node);
    if (!product || node.inputs[0] != value) return false;
    const auto length = static_cast<std::size_t>(graph_.constant(product->weight)->shape()[product->in]);
    if (length != blocks * site_.size)
      stop("constant " + quote_text(product->weight) + " takes " + std::to_string(length) + " channels");
    rotate({.name = product->weight, .axis = product->in, .first = 0, .blocks = blocks}, index, 1);
    return true;
  }

  RotationSite& site() { return site_; }

 protected:
  const Graph& graph_;
  const Links& links_;
  RotationSite site_;
  std::map<std::string, std::set<std::pair<std::size_t, std::size_t>>> users_;  ///< of constants
};

class StreamSearch : public SiteSearch {
 public:
  using SiteSearch::SiteSearch;

  /// Collects everything connected to the site's value.
  void run() {
    reach(site_.value);
    while (!open_.empty()) {
      const std::string value = open_.back();
      open_.pop_back();
      behind(value);
      before(value);
    }
  }

  const std::set<std::string>& reached() const { return reached_; }

 private:
  void reach(const std::string& value) {
    if (reached_.contains(value)) return;
    if (channels_of(graph_, value) != site_.size)
      stop("value " + quote_text(value) + " has other channels than " + quote_text(site_.value));
    if (links_.is_output(value)) stop("value " + quote_text(value) + " is an output of the network");
    reached_.insert(value);
    open_.push_back(value);
  }

  const Tensor* single_number(const std::string& name) const {
    const Tensor* constant = graph_.constant(name);
    return constant && constant->size() == 1 ? constant : nullptr;
  }

  void before(const std::string& value) {
    const std::size_t index = links_.producer(value);
    if (index == Links::kNone) stop("value " + quote_text(value) + " is an input of the network");
    const Node& node = graph_.nodes[index];
    if (rotate_producer(index, 0, 1)) return;
    if (node.is("Gather") && node.int_or("axis", 0) == 0 && graph_.constant(node.inputs[0]) &&
        graph_.constant(node.inputs[0])->rank() == 2)
      return rotate({.name = node.inputs[0], .axis = 1, .first = 0, .blocks = 1}, index, 0);
    if (node.is("Identity")) return reach(node.inputs[0]);
    if (node.is("Add")) return add(index);
    if (node.is("Mul"))
      for (const std::size_t one : {0U, 1U})
        if (single_number(node.inputs[one])) return reach(node.inputs[1 - one]);
    stop("value " + quote_text(value) + " comes from " + graph::text_of(node));
  }

  void add(std::size_t index) {
    const Node& node = graph_.nodes[index];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (graph_.constant(node.inputs[i])) {
        rotate_bias(index, i, 0, 1, site_.size);
      } else {
        reach(node.inputs[i]);
      }
    }
  }

  void behind(const std::string& value) {
    for (const std::size_t index : links_.consumers(value)) {
      const Node& node = graph_.nodes[index];
      if (looks_at_shape(node)) continue;
      if (is_norm(graph_, node) && node.inputs[0] == value) {
        norm(index);
        continue;
      }
      if (rotate_consumer(index, value, 1)) continue;
      const bool is_scaled =
          node.is("Mul") && (single_number(node.inputs[0]) || single_number(node.inputs[1]));
      if (!node.is("Add") && !node.is("Identity") && !is_scaled)
        stop("value " + quote_text(value) + " goes to " + graph::text_of(node));
      reach(node.outputs[0]);
    }
  }

  void norm(std::size_t index) {
    const Node& node = graph_.nodes[index];
    const Tensor* gain = graph_.constant(node.inputs[1]);
    if (!gain || gain->type() != graph::ElementType::kFloat ||
        gain->size() != static_cast<std::int64_t>(site_.size))
      stop("the gain of " + graph::text_of(node) + " is no constant of a number for each channel");
    if (!std::ranges::all_of(gain->to_floats(), [](float g) { return g == 1; }))
      site_.norms.push_back({.node = index, .gain = node.inputs[1]});
    takers(node.outputs[0]);
  }

  /// Collects consumers of a normalized value: matrices, perhaps behind nodes that keep its last axis.
  void takers(const std::string& value) {
    if (links_.is_output(value)) stop("value " + quote_text(value) + " is an output of the network");
    for (const std::size_t index : links_.consumers(value)) {
      const Node& node = graph_.nodes[index];
      if (looks_at_shape(node) || rotate_consumer(index, value, 1)) continue;
      const bool keeps = node.is("Identity") || (node.is("Reshape") && node.inputs[0] == value &&
                                                 channels_of(graph_, node.outputs[0]) == site_.size);
      if (!keeps) stop("value " + quote_text(value) + " goes to " + graph::text_of(node));
      takers(node.outputs[0]);
    }
  }

  std::set<std::string> reached_;
  std::vector<std::string> open_;
};

/// The size of a head of an Attention node with three axes that keeps no codes; nothing for others.
std::optional<std::size_t> head_size(const Graph& graph, const Node& node) {
  if (!node.is("Attention") || node.inputs.size() < 3 || node.outputs.empty()) return std::nullopt;
  const auto rank = graph.rank_of(node.inputs[In::kValue]);
  const auto channels = channels_of(graph, node.inputs[In::kValue]);
  const std::int64_t heads = node.int_or("kv_num_heads", 0);
  if (rank != std::size_t{3} || !channels || heads <= 0 || *channels % static_cast<std::size_t>(heads) != 0)
    return std::nullopt;
  return *channels / static_cast<std::size_t>(heads);
}

class HeadSearch : public SiteSearch {
 public:
  using SiteSearch::SiteSearch;

  /// Of all Attention nodes that take the value, which have heads of one size.
  void run() {
    const std::string& value = site_.value;
    const std::span<const std::size_t> takers = links_.consumers(value);
    const bool is_for_attention = std::ranges::all_of(takers, [&](std::size_t i) {
      return std::ranges::count(graph_.nodes[i].inputs, value) == 1 &&
             head_size(graph_, graph_.nodes[i]) == site_.size && graph_.nodes[i].inputs[In::kValue] == value;
    });
    if (!is_for_attention || links_.is_output(value))
      stop("value " + quote_text(value) + " is in use elsewhere");
    const auto channels = channels_of(graph_, value);
    makers(value, 0, *channels / site_.size);
    for (const std::size_t taker : takers) {
      expect_own_past(graph_.nodes[taker], takers);
      turn_back(graph_.nodes[taker]);
    }
  }

 private:
  /// What is kept of earlier runs turns, too: nobody else may read it.
  void expect_own_past(const Node& node, std::span<const std::size_t> takers) const {
    if (!node.has_input(In::kPastValue)) return;
    const std::string& past = node.inputs[In::kPastValue];
    for (const std::size_t reader : links_.consumers(past))
      if (!looks_at_shape(graph_.nodes[reader]) && std::ranges::find(takers, reader) == takers.end())
        stop("value " + quote_text(past) + " is in use elsewhere");
  }

  /// What takes an Attention's output.
  void turn_back(const Node& node) {
    const std::string& made = node.outputs[0];
    const auto width = channels_of(graph_, made);
    if (!width || *width % site_.size != 0) stop("value " + quote_text(made) + " has no known channels");
    if (node.has_output(Out::kPresentValue) && !links_.consumers(node.outputs[Out::kPresentValue]).empty())
      stop("value " + quote_text(node.outputs[Out::kPresentValue]) + " is in use elsewhere");
    if (links_.is_output(made)) stop("value " + quote_text(made) + " is an output of the network");
    for (const std::size_t index : links_.consumers(made))
      if (!looks_at_shape(graph_.nodes[index]) && !rotate_consumer(index, made, *width / site_.size))
        stop("value " + quote_text(made) + " goes to " + graph::text_of(graph_.nodes[index]));
  }

  void makers(const std::string& value, std::size_t first, std::size_t blocks) {
    const std::size_t index = links_.producer(value);
    if (index == Links::kNone) stop("value " + quote_text(value) + " is an input of the network");
    const Node& node = graph_.nodes[index];
    if (rotate_producer(index, first, blocks)) return;
    if (node.is("Add")) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (!graph_.constant(node.inputs[i])) continue;
        rotate_bias(index, i, first, blocks, *channels_of(graph_, value));
        return makers(node.inputs[1 - i], first, blocks);
      }
    }
    if (node.is("Split") && node.has_input(1)) {
      const Tensor* sizes = graph_.constant(node.inputs[1]);
      const auto rank = graph_.rank_of(node.inputs[0]);
      const std::int64_t axis = node.int_or("axis", 0);
      if (sizes && rank && (axis == -1 || axis + 1 == static_cast<std::int64_t>(*rank))) {
        const std::vector<std::int64_t> lengths = sizes->to_ints();
        for (std::size_t i = 0; i < node.outputs.size() && node.outputs[i] != value; ++i)
          first += static_cast<std::size_t>(lengths[i]);
        return makers(node.inputs[0], first, blocks);
      }
    }
    stop("value " + quote_text(value) + " comes from " + graph::text_of(node));
  }
};

}  // namespace

RotationSites residual_streams(const Graph& graph) {
  const Links links(graph);
  RotationSites found;
  std::set<std::string> seen;
  for (const Node& node : graph.nodes) {
    if (!is_norm(graph, node) || seen.contains(node.inputs[0])) continue;
    const auto size = channels_of(graph, node.inputs[0]);
    if (!size) continue;
    StreamSearch search(graph, links, node.inputs[0], *size);
    try {
      search.run();
      found.sites.push_back(search.take());
    } catch (const SiteSearch::Obstacle& obstacle) {
      found.refusals.push_back(obstacle.why);
    }
    seen.insert(search.reached().begin(), search.reached().end());
  }
  return found;
}

RotationSites attention_heads(const Graph& graph) {
  const Links links(graph);
  RotationSites found;
  std::set<std::string> seen;
  for (const Node& node : graph.nodes) {
    const auto size = head_size(graph, node);
    if (!size || !seen.insert(node.inputs[In::kValue]).second) continue;
    HeadSearch search(graph, links, node.inputs[In::kValue], *size);
    try {
      search.run();
      found.sites.push_back(search.take());
    } catch (const SiteSearch::Obstacle& obstacle) {
      found.refusals.push_back(obstacle.why);
    }
  }
  return found;
}

std::vector<RotationSite> values_before_products(const Graph& graph, std::size_t block,
                                                 const std::vector<RotationSite>& others) {
  const Links links(graph);
  const auto is_transposed = [&](const Product& product) {
    return std::ranges::any_of(others, [&](const RotationSite& site) {
      return std::ranges::any_of(site.constants, [&](const RotatedConstant& constant) {
        return constant.name == product.weight && constant.axis == product.in;
      });
    });
  };
  std::vector<RotationSite> found;
  std::set<std::string> seen;
  for (const Node& node : graph.nodes) {
    const auto product = product_of(graph, node);
    if (!product || !seen.insert(node.inputs[0]).second || is_transposed(*product)) continue;
    const std::string& value = node.inputs[0];
    const auto channels = channels_of(graph, value);
    if (!channels || *channels % block != 0 || graph.constant(value) || links.is_output(value) ||
        links.producer(value) == Links::kNone)
      continue;
    SiteSearch search(graph, links, value, block);
    try {
      for (const std::size_t index : links.consumers(value))
        if (!search.rotate_consumer(index, value, *channels / block)) SiteSearch::stop("");
      found.push_back(search.take());
    } catch (const SiteSearch::Obstacle&) {
      continue;
    }
  }
  return found;
}

}  // namespace crumb::ptq
