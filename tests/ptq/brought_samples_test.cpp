// What a value brings to a layer comes in blocks: any of them is a part of the whole, and the sums are those of all.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph/window.h"
#include "ptq/samples/layer_moments.h"
#include "ptq/samples/sampled_layers.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"

namespace {

using crumb::graph::Tensor;
using crumb::ptq::BroughtSamples;
using crumb::ptq::SampledLayer;
using Sizes = std::vector<std::int64_t>;

/// A convolution over one to three axes and what it takes, or a product.
struct DrawnLayer {
  crumb::graph::Graph graph;
  SampledLayer layer;
  Tensor value;
};

DrawnLayer drawn_layer(std::mt19937& random) {
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  DrawnLayer made;
  crumb::graph::NodeBuilder build;
  if (below(4) == 0) {
    const std::int64_t columns = 1 + below(40);
    const std::string x = build.input("x", {2, 1 + below(30), columns});
    const std::string w = build.constant("w", crumb::ptq::test::drawn_tensor(random, {columns, 3}));
    build.node("MatMul", {x, w});
    made.value = crumb::ptq::test::drawn_tensor(random, {2, 1 + below(30), columns});
    made.layer = {.input = x, .rows = 3, .columns = static_cast<std::size_t>(columns)};
  } else {
    const std::int64_t axes = 1 + below(3), groups = 1 + below(3), channels = 1 + below(3);
    Sizes kernel, strides, dilations, pads, sizes, weight = {2 * groups, channels};
    for (std::int64_t i = 0; i < axes; ++i) {
      kernel.push_back(1 + below(3));
      strides.push_back(1 + below(3));
      dilations.push_back(1 + below(2));
      sizes.push_back(5 + below(7));
    }
    for (std::int64_t i = 0; i < 2 * axes; ++i) pads.push_back(below(3));
    weight.insert(weight.end(), kernel.begin(), kernel.end());
    Sizes shape = {1 + below(3), channels * groups};
    shape.insert(shape.end(), sizes.begin(), sizes.end());
    const std::string x = build.input("x", shape);
    const std::string w = build.constant("w", crumb::ptq::test::drawn_tensor(random, weight));
    build.node("Conv", {x, w},
               {{"group", groups}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}});
    made.value = crumb::ptq::test::drawn_tensor(random, shape);
    std::int64_t columns = channels;
    for (const std::int64_t size : kernel) columns *= size;
    made.layer = {.input = x,
                  .groups = static_cast<std::size_t>(groups),
                  .rows = 2,
                  .columns = static_cast<std::size_t>(columns),
                  .is_window = true};
  }
  made.graph = build.graph;
  return made;
}

/// Row i of sample t of one part and group, by the definition.
class Definition {
 public:
  explicit Definition(const DrawnLayer& drawn) : drawn_(drawn), values_(drawn.value.to_floats()) {
    if (!drawn.layer.is_window) return;
    const Sizes& shape = drawn.value.shape();
    const Sizes weight = drawn.graph.initializers.at("w").shape();
    channels_ = weight[1];
    window_ = crumb::graph::window_of(drawn.graph.nodes[0], std::span(shape).subspan(2),
                                      Sizes(weight.begin() + 2, weight.end()));
  }

  float at(std::size_t part, std::size_t group, std::size_t i, std::size_t t) const {
    if (!drawn_.layer.is_window) return values_[t * drawn_.layer.columns + i];
    const Sizes& shape = drawn_.value.shape();
    auto tap = static_cast<std::int64_t>(i), place = static_cast<std::int64_t>(t);
    std::int64_t offset = 0, stride = 1;
    for (std::size_t axis = window_.axes(); axis-- > 0;) {
      const std::int64_t in = place % window_.output[axis] * window_.strides[axis] - window_.begin[axis] +
                              tap % window_.kernel[axis] * window_.dilations[axis];
      place /= window_.output[axis];
      tap /= window_.kernel[axis];
      if (in < 0 || in >= shape[axis + 2]) return 0;
      offset += in * stride;
      stride *= shape[axis + 2];
    }
    const std::int64_t channel = static_cast<std::int64_t>(group) * channels_ + tap;
    return values_[static_cast<std::size_t>((static_cast<std::int64_t>(part) * shape[1] + channel) * stride +
                                            offset)];
  }

 private:
  const DrawnLayer& drawn_;
  std::vector<float> values_;
  std::int64_t channels_ = 0;
  crumb::graph::Window window_;
};

}  // namespace

TEST_CASE("brought samples: any block is what the definition says") {
  std::mt19937 random(7);
  for (int round = 0; round < 120; ++round) {
    const DrawnLayer drawn = drawn_layer(random);
    const Definition meant(drawn);
    BroughtSamples brought(drawn.graph.nodes[0], drawn.graph, drawn.layer, drawn.value);
    if (brought.samples() == 0) continue;
    std::vector<float> columns;
    for (int i = 0; i < 6; ++i) {
      const std::size_t part = random() % brought.parts(), group = random() % drawn.layer.groups,
                        begin = random() % brought.samples(),
                        count = 1 + random() % (brought.samples() - begin);
      const crumb::ptq::SampleColumns x = brought.read(part, group, begin, count, columns);
      REQUIRE(x.samples == count);
      REQUIRE(x.size() == drawn.layer.columns);
      for (std::size_t k = 0; k < x.size(); ++k)
        for (std::size_t t = 0; t < count; ++t)
          REQUIRE(x.values[k * count + t] == meant.at(part, group, k, begin + t));
    }
  }
}

TEST_CASE("brought samples: second moments are those of all windows, however many blocks they come in") {
  std::mt19937 random(8);
  // A window of 2 numbers, whose blocks are of two million: more of them than one block holds.
  const std::int64_t length = static_cast<std::int64_t>(BroughtSamples::block_of(2)) + 700;
  crumb::graph::NodeBuilder build;
  const std::string x = build.input("x", {1, 1, length}),
                    w = build.constant("w", crumb::ptq::test::drawn_tensor(random, {3, 1, 2}));
  build.node("Conv", {x, w});
  const SampledLayer layer{.input = x, .rows = 3, .columns = 2, .is_window = true};
  const crumb::ptq::Station station{.layers = {layer}, .kept = {}};
  const Tensor value = crumb::ptq::test::drawn_tensor(random, {1, 1, length}),
               other = crumb::ptq::test::drawn_tensor(random, {1, 1, length});
  crumb::ptq::StationMoments moments(build.graph, station, true);
  moments.add({{x, value}}, {{x, other}}, 2);
  const std::vector<float> a = value.to_floats(), b = other.to_floats();
  // Of (u, v) over all windows, u[i] v[j]; two million times, and not compiled for speed: no matrices.
  const auto summed = [](const float* u, const float* v, std::size_t count) {
    double sum[4] = {};
    for (std::size_t t = 0; t + 1 < count; ++t) {
      const auto u0 = static_cast<double>(u[t]), u1 = static_cast<double>(u[t + 1]);
      const auto v0 = static_cast<double>(v[t]), v1 = static_cast<double>(v[t + 1]);
      sum[0] += u0 * v0;
      sum[1] += u0 * v1;
      sum[2] += u1 * v0;
      sum[3] += u1 * v1;
    }
    Eigen::Matrix2d made;
    made << sum[0], sum[1], sum[2], sum[3];
    return made;
  };
  const Eigen::Matrix2d own = summed(a.data(), a.data(), a.size()),
                        cross = summed(b.data(), a.data(), a.size()),
                        others = summed(b.data(), b.data(), a.size());
  const Eigen::Matrix2d apart = others - cross - cross.transpose() + own;
  const crumb::ptq::LayerMoments& sums = moments.of(layer);
  CHECK(sums.samples == a.size() - 1);
  // Sums of 512 products in float32: each within 512 * 2^-24 of the sum of magnitudes, which own(0, 0) bounds.
  const double bound = 512 * 0x1p-24 * 2 * own(0, 0);
  CHECK((sums.moments[0] - own).cwiseAbs().maxCoeff() < bound);
  CHECK((sums.cross[0] - cross).cwiseAbs().maxCoeff() < bound);
  CHECK((sums.apart[0] - apart).cwiseAbs().maxCoeff() < 2 * bound);
}
