#include "jobs/evaluate/layers/matched_layers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "graph/strided_index.h"
#include "graph/weighted_product.h"

namespace crumb::jobs {
namespace {

using Sizes = std::vector<std::int64_t>;

std::optional<Sizes> sizes_of(const LayeredNetwork& network, const LayerWeight& weight) {
  const auto shape = network.graph().shape_of(weight.value);
  if (!shape) return {};
  Sizes sizes;
  for (const graph::Dim& dim : *shape) {
    if (!dim.known()) return {};
    sizes.push_back(dim.size);
  }
  return sizes;
}

bool is_transposed(const Sizes& a, std::size_t a_output, const Sizes& b, std::size_t b_output) {
  return a.size() == 2 && b.size() == 2 && a_output != b_output && a[0] == b[1] && a[1] == b[0];
}

std::string kind_of(const graph::Node& node) {
  return graph::is_matrix_product(node) ? "matrix" : node.domain + "." + node.op;
}

bool are_alike(const LayeredNetwork& model, const NetworkLayer& a, const LayeredNetwork& baseline,
               const NetworkLayer& b) {
  if (kind_of(model.node(a)) != kind_of(baseline.node(b)) || a.weights.size() != b.weights.size())
    return false;
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    const auto one = sizes_of(model, a.weights[i]), other = sizes_of(baseline, b.weights[i]);
    if (!one || !other) return false;
    const std::size_t out = a.weights[i].at.output_axis, other_out = b.weights[i].at.output_axis;
    if (!(one == other && out == other_out) && !is_transposed(*one, out, *other, other_out)) return false;
  }
  return true;
}

/// Keys by which a layer can be known, each with the layers that have it, in order.
using Keys = std::function<std::vector<std::string>(const LayeredNetwork&, const NetworkLayer&)>;

class Matcher {
 public:
  Matcher(const LayeredNetwork& model, const LayeredNetwork& baseline)
      : model_(model), baseline_(baseline), found_(model.layers().size()) {}

  MatchedLayers run() {
    by_key([](const LayeredNetwork&, const NetworkLayer& layer) { return layer.weights[0].names; });
    by_key([](const LayeredNetwork& network, const NetworkLayer& layer) {
      return std::vector{network.node(layer).name};
    });
    by_key(
        [](const LayeredNetwork& network, const NetworkLayer& layer) { return network.node(layer).outputs; });
    MatchedLayers made{.baseline = {}, .by_place = by_place()};
    made.baseline = std::move(found_);
    return made;
  }

 private:
  void by_key(const Keys& keys_of) {
    std::map<std::string, std::vector<std::size_t>> there;
    for (std::size_t i = 0; i < baseline_.layers().size(); ++i)
      for (const std::string& key : keys_of(baseline_, baseline_.layers()[i])) there[key].push_back(i);
    for (std::size_t i = 0; i < found_.size(); ++i)
      for (const std::string& key : keys_of(model_, model_.layers()[i]))
        for (const std::size_t other : there[key])
          if (!key.empty()) take(i, other);
  }

  bool take(std::size_t one, std::size_t other) {
    const bool fits = !found_[one] && !taken_.contains(other) &&
                      are_alike(model_, model_.layers()[one], baseline_, baseline_.layers()[other]);
    if (!fits) return false;
    found_[one] = other;
    taken_.insert(other);
    return true;
  }

  std::size_t by_place() {
    std::size_t count = 0, next = 0;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (found_[i]) {
        next = std::max(next, *found_[i] + 1);
        continue;
      }
      for (std::size_t other = next; other < baseline_.layers().size(); ++other) {
        if (!take(i, other)) continue;
        next = other + 1;
        ++count;
        break;
      }
    }
    return count;
  }

  const LayeredNetwork &model_, &baseline_;
  std::vector<std::optional<std::size_t>> found_;
  std::set<std::size_t> taken_;
};

}  // namespace

MatchedLayers match_layers(const LayeredNetwork& model, const LayeredNetwork& baseline) {
  return Matcher(model, baseline).run();
}

graph::Tensor laid_out_for(const LayeredNetwork& network, const NetworkLayer& layer, std::size_t weight,
                           const LayeredNetwork& from_network, const NetworkLayer& from,
                           const graph::Tensor& values) {
  const LayerWeight &to_weight = layer.weights[weight], &from_weight = from.weights[weight];
  const auto sizes = sizes_of(network, to_weight), from_sizes = sizes_of(from_network, from_weight);
  if (sizes == from_sizes && to_weight.at.output_axis == from_weight.at.output_axis) return values;
  const std::vector<std::int64_t> swapped{1, 0};
  return graph::Tensor::floats(*sizes, graph::permuted(values.to_floats(), values.shape(), swapped));
}

}  // namespace crumb::jobs
