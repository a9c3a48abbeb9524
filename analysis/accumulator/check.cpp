#include "analysis/accumulator/check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/text.h"
#include "graph/facts/contradictions.h"

namespace crumb::analysis {
namespace {

std::string text_of(IntegerRange range) {
  return std::to_string(range.low) + ".." + std::to_string(range.high);
}

std::string text_of(const WorstSums& sums) {
  return std::to_string(sums.min) + ".." + std::to_string(sums.max);
}

/// "layer 'fc' (MatMul), channel 3, tile 1"; tiles and parts are named only where there are several.
std::string place_text(const ProductLayer& layer, std::size_t tile, std::size_t channel, std::size_t at,
                       std::size_t count) {
  std::string text = layer.text() + ", channel " + std::to_string(channel);
  if (count > 1 || tile > 0) text += ", tile " + std::to_string(at);
  return text;
}

std::string words_of(graph::BiasPlace place) {
  switch (place) {
    case graph::BiasPlace::kInside: return "inside the accumulator";
    case graph::BiasPlace::kAfter:
      return "after the accumulator (no codes at the scale of input times weights)";
    case graph::BiasPlace::kNone: break;
  }
  return "none";
}

/// What decides over a register's width.
std::int64_t magnitude(const WorstSums& sums) { return std::max(sums.max, sums.min < 0 ? ~sums.min : 0); }

struct Worst {
  WorstSums sums;
  int bits = 1;
  std::size_t channel = 0, at = 0, count = 1;  ///< the register that goes farthest
};

Worst worst_of(const std::vector<graph::ChannelSums>& all) {
  Worst worst;
  std::int64_t farthest = 0;
  for (std::size_t c = 0; c < all.size(); ++c) {
    for (std::size_t r = 0; r < all[c].size(); ++r) {
      const WorstSums& sums = all[c][r];
      worst.sums = {.max = std::max(worst.sums.max, sums.max), .min = std::min(worst.sums.min, sums.min)};
      if (magnitude(sums) > farthest) {
        farthest = magnitude(sums);
        worst = {worst.sums, accumulator_bits(sums), c, r, all[c].size()};
      }
    }
  }
  return worst;
}

class Checker {
 public:
  Checker(const graph::Graph& graph, const AccumulatorCheck& check)
      : layers_(graph, check.ranges), check_(check) {
    for (const graph::Contradiction& found : contradictions(graph))
      fail("value " + quote_text(found.value) + ": " + found.what);
    find_certificates(graph);
    for (std::size_t i = 0; i < layers_.size(); ++i)
      look_at(layers_.layer(i), layers_.has_constant_weight(i));
    for (const auto& [name, certificate] : certificates_) {
      fail("node " + quote_text(name) + " has a certificate, but is no product of a constant weight");
    }
  }

  AccumulatorReport take() { return std::move(report_); }

 private:
  void fail(std::string text) { report_.failures.push_back(std::move(text)); }

  void find_certificates(const graph::Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      auto found = certificate_of(node);
      any_ = any_ || node.metadata.contains(graph::kAccumulatorKey);
      if (!found.ok()) {
        fail(found.failure().message);
      } else if (found.value()) {
        if (!certificates_.emplace(node.name, std::move(*found.value())).second)
          fail("two nodes with a certificate are called " + quote_text(node.name));
      }
    }
    const auto left = graph.metadata.find(graph::kAccumulatorKey);
    if (left == graph.metadata.end()) return;
    any_ = true;
    const auto json = nlohmann::json::parse(left->second, nullptr, false);
    if (!json.is_object())
      return fail(std::string("the metadata's entry ") + graph::kAccumulatorKey + " is no JSON object");
    for (const auto& [name, one] : json.items())
      fail("a certificate names the node " + quote_text(name) +
           ", which the graph does not have, or has twice");
  }

  /// What a certificate says is about the products of a constant: of a node's first.
  void look_at(const ProductLayer& layer, bool has_constant_weight) {
    const auto found = has_constant_weight ? certificates_.find(layer.name) : certificates_.end();
    std::optional<graph::Certificate> certificate;
    if (found != certificates_.end()) {
      certificate = std::move(found->second);
      certificates_.erase(found);
    }
    const bool must_fit = certificate ? certificate->constrained : !any_;
    if (layer.is_float && !certificate) {
      if (!has_constant_weight) return;  // squares of floats
      ++report_.float_layers;
      if (must_fit) not_covered(layer);
      return;
    }
    AccumulatorRow row{.name = layer.name,
                       .op = layer.op,
                       .operands = layer.operands,
                       .input = layer.input_range,
                       .weight = layer.weight_range,
                       .assumed = layer.input_assumed,
                       .reason = layer.failure(),
                       .length = layer.length,
                       .channels = layer.channels,
                       .bias = layer.bias};
    if (layer.input_scale) row.input_step = *layer.input_scale * layer.input_unit;
    if (certificate) {
      row.tile = certificate->tile;
      row.bits_certified = certificate->bits;
      row.method = certificate->method;
      row.constrained = certificate->constrained;
    }
    count(layer, row, certificate, must_fit);
    if (certificate) hold_against(*certificate, layer);
    report_.layers.push_back(std::move(row));
  }

  /// A failure where bits are asked for.
  void not_covered(const ProductLayer& layer) {
    if (!check_.bits) return;
    fail(layer.text() + " is not covered: whether " + std::to_string(*check_.bits) +
         " bits are enough is not known: " + layer.failure());
  }

  void count(const ProductLayer& layer, AccumulatorRow& row,
             const std::optional<graph::Certificate>& certificate, bool must_fit) {
    if (!row.reason.empty()) {
      if (must_fit && !certificate) not_covered(layer);  // else hold_against() says so
      return;
    }
    const auto sums = layer.worst_sums(row.tile);
    if (!sums) {
      row.reason = "its worst sums do not fit 64 bits";
      return fail(layer.text() + ": " + row.reason);
    }
    const Worst worst = worst_of(*sums);
    row.worst = worst.sums;
    row.bits_needed = worst.bits;
    if (check_.bits && must_fit && worst.bits > *check_.bits) {
      fail(place_text(layer, row.tile, worst.channel, worst.at, worst.count) + ": its sums reach " +
           text_of((*sums)[worst.channel][worst.at]) + ", which takes " + std::to_string(worst.bits) +
           " bits, expected at most " + std::to_string(*check_.bits));
    }
  }

  void hold_against(const graph::Certificate& certificate, const ProductLayer& layer) {
    const std::string text = layer.text();
    if (!layer.weight_failure.empty())
      return fail(text + " has a certificate, but no codes: " + layer.weight_failure);
    if (!layer.input_range)
      return fail(text +
                  " has a certificate, but the range of its input is not known: " + layer.input_failure);
    const IntegerRange found = *layer.input_range, certified = certificate.input;
    if (found.low < certified.low || found.high > certified.high) {
      fail(text + ": its inputs are " + text_of(found) +
           (layer.range_from.empty() ? "" : " through " + layer.range_from) + ", certified for " +
           text_of(certified));
    }
    if (certificate.bias != layer.bias) {
      fail(text + ": its bias is " + words_of(layer.bias) + ", certified as " + words_of(certificate.bias));
    }
    const auto sums = layer.worst_sums(certified, certificate.tile);
    if (!sums) return fail(text + ": its worst sums do not fit 64 bits");
    compare_sums(certificate, *sums, layer);
  }

  void compare_sums(const graph::Certificate& certificate, const std::vector<graph::ChannelSums>& sums,
                    const ProductLayer& layer) {
    const std::string text = layer.text();
    if (sums.size() != certificate.worst.size()) {
      return fail(text + ": it has " + std::to_string(sums.size()) + " channels, its certificate " +
                  std::to_string(certificate.worst.size()));
    }
    for (std::size_t c = 0; c < sums.size(); ++c) {
      if (sums[c].size() != certificate.worst[c].size()) {
        return fail(text + ", channel " + std::to_string(c) + ": it has " + std::to_string(sums[c].size()) +
                    " registers, its certificate " + std::to_string(certificate.worst[c].size()));
      }
    }
    // Every channel that is wrong would be a long list: the first, and any that needs more bits.
    bool said = false;
    for (std::size_t c = 0; c < sums.size(); ++c) {
      for (std::size_t r = 0; r < sums[c].size(); ++r) {
        const WorstSums &found = sums[c][r], &certified = certificate.worst[c][r];
        const int bits = accumulator_bits(found);
        if (bits > certificate.bits) {
          fail(place_text(layer, certificate.tile, c, r, sums[c].size()) + ": its sums reach " +
               text_of(found) + ", certified " + text_of(certified) + "; that takes " + std::to_string(bits) +
               " bits, certified " + std::to_string(certificate.bits));
        } else if (found != certified && !said) {
          said = true;
          fail(place_text(layer, certificate.tile, c, r, sums[c].size()) + ": its sums reach " +
               text_of(found) + ", certified " + text_of(certified));
        }
      }
    }
  }

  const ProductLayers layers_;
  const AccumulatorCheck& check_;
  bool any_ = false;  ///< whether the graph claims anything
  std::map<std::string, graph::Certificate> certificates_;
  AccumulatorReport report_;
};

graph::Certificate certificate_for(const ProductLayer& layer, const CertificateRequest& requested) {
  const std::string text = layer.text();
  if (!layer.weight_failure.empty()) throw Error(text + " cannot be certified: " + layer.weight_failure);
  if (!layer.input_range) throw Error(text + " cannot be certified: " + layer.input_failure);
  graph::Certificate made{.method = requested.method,
                          .bits = requested.bits,
                          .input = *layer.input_range,
                          .tile = requested.tile,
                          .bias = layer.bias,
                          .rounding = requested.rounding,
                          .constrained = requested.constrained};
  auto sums = layer.worst_sums(made.input, made.tile);
  if (!sums) throw Error(text + " cannot be certified: its worst sums do not fit 64 bits");
  if (const Worst worst = worst_of(*sums); worst.bits > requested.bits) {
    throw Error(text + ", channel " + std::to_string(worst.channel) + " cannot be certified for " +
                std::to_string(requested.bits) + " bits: its sums reach " +
                text_of((*sums)[worst.channel][worst.at]) + ", which takes " + std::to_string(worst.bits));
  }
  made.worst = std::move(*sums);
  return made;
}

}  // namespace

AccumulatorReport check_accumulators(const graph::Graph& graph, const AccumulatorCheck& check) {
  return Checker(graph, check).take();
}

graph::Graph with_certificates(graph::Graph graph, const std::map<std::string, CertificateRequest>& requests,
                               const GivenRanges& ranges) {
  const ProductLayers layers(graph, ranges);
  std::set<std::string> left;
  for (const auto& [name, requested] : requests) left.insert(name);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string& name = layers.node(i).name;
    if (!layers.has_constant_weight(i) || left.erase(name) == 0) continue;
    const auto node = std::ranges::find(graph.nodes, name, &graph::Node::name);
    set_certificate(*node, certificate_for(layers.layer(i), requests.at(name)));
  }
  if (!left.empty())
    throw Error("no product of a constant weight is called " + quote_text(*left.begin()) +
                ": it cannot be certified");
  return graph;
}

}  // namespace crumb::analysis
