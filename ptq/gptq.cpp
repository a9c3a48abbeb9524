#include "ptq/gptq.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/threads/parallel.h"
#include "ptq/descent.h"
#include "ptq/feedback.h"
#include "ptq/output_error.h"
#include "ptq/sample_stream.h"
#include "ptq/sampled_layers.h"
#include "ptq/weighed_scales.h"
#include "ptq/weight_rows.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using graph::QuantizedConstant;

/// What layers of the same input share, for each group of a convolution.
struct Inputs {
  SampledLayer like;
  std::vector<MatrixXd> moments, cross;
};

/// EXPERIMENT
std::vector<float> sample_weights(const SampleColumns& x) {
  static const char* how = getenv("SW");
  std::vector<float> w(x.samples, 1.0F);
  if (!how) return w;
  std::vector<double> n(x.samples);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t t = 0; t < x.samples; ++t)
      n[t] += double(x.values[i * x.samples + t]) * x.values[i * x.samples + t];
  std::vector<double> s = n;
  std::nth_element(s.begin(), s.begin() + s.size() / 2, s.end());
  const double med = s[s.size() / 2];
  if (how[0] == 'f') w[0] = 0;
  if (how[0] == 'n')
    for (std::size_t t = 0; t < x.samples; ++t) w[t] = n[t] > 0 ? float(std::sqrt(med / n[t])) : 0;
  if (how[0] == 'c')
    for (std::size_t t = 0; t < x.samples; ++t) w[t] = n[t] > med ? float(std::sqrt(med / n[t])) : 1;
  return w;
}
std::vector<float> weighed(const SampleColumns& x, const std::vector<float>& w) {
  std::vector<float> v(x.values.begin(), x.values.end());
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t t = 0; t < x.samples; ++t) v[i * x.samples + t] *= w[t];
  return v;
}

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

class Rounding {
 public:
  Rounding(const Stage& stage, Setting& setting)
      : setting_(setting),
        damping_(stage.value("damp")),
        sweeps_(static_cast<int>(stage.value("sweeps"))),
        by_size_(stage.value("order") != 0),
        own_scales_(stage.value("scales") != 0),
        float_inputs_(stage.value("float_inputs") != 0) {
    report_.stage = to_string(stage);
    report_.measure = "outputs";
  }

  StageReport run() {
    const std::vector<SampledLayer> layers = sampled_layers(setting_.graph, setting_.plan);
    if (layers.empty()) throw Error("the stage gptq finds no layer that becomes codes and has none yet");
    const std::vector<Station> stations = stations_of(setting_.graph, layers);
    const std::uint64_t memory =
        setting_.memory / (float_inputs_ ? 4 : 2);  // what comes and what goes, of each network
    SampleStream stream(setting_.graph, stations, *setting_.engine, memory);
    std::optional<SampleStream> floats;
    if (float_inputs_) floats.emplace(setting_.graph, stations, *setting_.engine, memory);
    for (const Station& station : stations) {
      stream.advance();
      if (floats) floats->advance();
      std::vector<Inputs> inputs = gather(station, stream, floats ? &*floats : nullptr);
      for (const SampledLayer& layer : station.layers) {
        check_interrupt();
        round(layer, of(inputs, layer), stream);
        if (setting_.progress) setting_.progress(report_.layers.size(), layers.size());
      }
    }
    return std::move(report_);
  }

 private:
  Inputs& of(std::vector<Inputs>& all, const SampledLayer& layer) const {
    return *std::ranges::find_if(
        all, [&](const Inputs& inputs) { return inputs.like.takes_like(layer, setting_.graph); });
  }

  std::vector<Inputs> gather(const Station& station, SampleStream& stream, SampleStream* floats) {
    std::vector<Inputs> all;
    for (const SampledLayer& layer : station.layers) {
      if (std::ranges::any_of(
              all, [&](const Inputs& inputs) { return inputs.like.takes_like(layer, setting_.graph); }))
        continue;
      const MatrixXd none =
          MatrixXd::Zero(static_cast<Index>(layer.columns), static_cast<Index>(layer.columns));
      all.push_back({.like = layer,
                     .moments = std::vector(layer.groups, none),
                     .cross = std::vector(float_inputs_ ? layer.groups : 0, none)});
    }
    setting_.samples([&](const std::vector<graph::Tensor>& sample) {
      check_interrupt();
      const auto brought = stream.run(sample);
      const auto meant = floats ? floats->run(sample) : std::map<std::string, graph::Tensor>();
      for (Inputs& inputs : all) add(inputs, brought, meant);
    });
    return all;
  }

  void add(Inputs& inputs, const std::map<std::string, graph::Tensor>& brought,
           const std::map<std::string, graph::Tensor>& meant) const {
    const graph::Node& node = setting_.graph.nodes[inputs.like.node];
    if (!float_inputs_) {
      visit_samples(node, setting_.graph, inputs.like, brought.at(inputs.like.input),
                    [&](std::size_t group, const SampleColumns& x) {
                      const auto v = weighed(x, sample_weights(x));
                      add_moments(inputs.moments[group], {v, x.samples}, setting_.threads);
                    });
      return;
    }
    // Both in the same order, a part of one at a time beside the whole of the other would be no less memory.
    struct Part {
      std::size_t group;
      std::vector<float> values;
      std::size_t samples;
    };
    std::vector<Part> parts;
    visit_samples(node, setting_.graph, inputs.like, meant.at(inputs.like.input),
                  [&](std::size_t group, const SampleColumns& y) {
                    parts.push_back({group, {y.values.begin(), y.values.end()}, y.samples});
                  });
    std::size_t next = 0;
    visit_samples(
        node, setting_.graph, inputs.like, brought.at(inputs.like.input),
        [&](std::size_t group, const SampleColumns& x) {
          const Part& part = parts.at(next++);
          const auto w = sample_weights(x);
          const auto v = weighed(x, w), u = weighed({part.values, part.samples}, w);
          add_moments(inputs.moments[group], {v, x.samples}, setting_.threads);
          add_cross_moments(inputs.cross[group], {u, part.samples}, {v, x.samples}, setting_.threads);
        });
  }

  void round(const SampledLayer& layer, const Inputs& inputs, SampleStream& stream) {
    graph::PlannedConstant& constant = setting_.plan.constants[layer.constant];
    const graph::Tensor& tensor = setting_.graph.initializers.at(constant.value);
    const WeightRows matrix = weight_rows(tensor, constant.output_axis);
    for (const MatrixXd& moments : inputs.moments)
      if (!moments.allFinite())
        throw Error("what " + constant.node + " takes, value " + quote_text(layer.input) +
                    ", holds inf or NaN on the samples: exclude that layer, or look at the data");
    const FixedScales by_spec(*constant.spec, matrix.values, matrix.shape, constant.value, setting_.threads);
    const std::vector<std::uint8_t> plain = nearest_codes(by_spec, matrix.values, setting_.threads);
    FixedScales scales = by_spec;
    std::vector<std::uint8_t> codes(plain.size());
    LayerReport line{.layer = constant.value};
    double all = 0, before = 0, after = 0;
    bool is_reached = true;
    std::vector<float> meant = matrix.values;
    for (std::size_t group = 0; group < layer.groups; ++group) {
      const MatrixXd& moments = inputs.moments[group];
      const RowRange rows{group * layer.rows, layer.rows};
      const std::size_t first = rows.first * layer.columns, count = rows.count * layer.columns;
      const auto feedback = Feedback::of(moments, damping_, by_size_);
      if (!feedback) {
        is_reached = false;
        std::copy_n(plain.begin() + static_cast<std::ptrdiff_t>(first), count,
                    codes.begin() + static_cast<std::ptrdiff_t>(first));
        continue;
      }
      if (feedback->damping() > damping_)
        report_.notes.push_back(constant.value + ": what it takes needs a damping of " +
                                short_text(feedback->damping()));
      const std::span<float> own(meant.data() + first, count);
      if (float_inputs_) shift(own, moments, inputs.cross[group], feedback->damping());
      if (own_scales_) find_scales(scales, rows, own, moments.diagonal(), setting_.threads);
      std::vector<std::uint8_t> chosen = codes_with_feedback(scales, rows, own, *feedback, setting_.threads);
      if (sweeps_ > 0) {
        MatrixXd damped = moments;
        damped.diagonal().array() += feedback->damping() * moments.diagonal().mean();
        descend(scales, rows, own, chosen, damped, sweeps_, setting_.threads);
      }
      std::ranges::copy(chosen, codes.begin() + static_cast<std::ptrdiff_t>(first));
      const std::span<const std::uint8_t> nearest(plain.data() + first, count);
      all += output_squares(own, moments, setting_.threads);
      before += output_error(by_spec, rows, own, nearest, moments, setting_.threads);
      after += output_error(scales, rows, own, chosen, moments, setting_.threads);
    }
    line.before = all > 0 ? before / all : 0;
    line.after = all > 0 ? after / all : 0;
    const bool is_better = after < before;
    if (!is_reached)
      report_.notes.push_back(constant.value + ": no sample reaches " +
                              (layer.groups > 1 ? "some of its groups" : "it") + ", which keeps rounding");
    if (!is_better) {
      if (is_reached)
        report_.notes.push_back(constant.value + ": rounding loses less (" + short_text(line.before) +
                                ", gptq " + short_text(line.after) + "), and stays");
      line.after = line.before;
    }
    QuantizedConstant made{.tensor = std::make_shared<const QuantizedTensor>(
                               is_better ? scales.with_codes(codes) : by_spec.with_codes(plain)),
                           .axes = matrix.axes};
    constant.rounded = made;
    stream.set_constant(constant.value, std::move(made));
    report_.layers.push_back(std::move(line));
  }

  /// W to W (G + d) (H + d)^-1, rows of W.
  void shift(std::span<float> rows, const MatrixXd& moments, const MatrixXd& cross, double damping) const {
    const Index size = moments.rows();
    MatrixXd damped = moments, target = cross;
    const double share = damping * moments.diagonal().mean();
    damped.diagonal().array() += share;
    target.diagonal().array() += share;
    const Eigen::LLT<MatrixXd> factor(damped);
    const auto count = rows.size() / static_cast<std::size_t>(size);
    parallel_for(count, 32, setting_.threads, [&](std::size_t begin, std::size_t end) {
      using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
      Eigen::Map<Rows> part(rows.data() + begin * static_cast<std::size_t>(size),
                            static_cast<Index>(end - begin), size);
      const MatrixXd wanted = (part.cast<double>() * target).transpose();
      part = factor.solve(wanted).transpose().cast<float>();
    });
  }

  Setting& setting_;
  double damping_;
  int sweeps_;
  bool by_size_, own_scales_, float_inputs_;
  StageReport report_;
};

}  // namespace

StageReport gptq(const Stage& stage, Setting& setting) {
  if (!setting.engine || !setting.samples)
    throw usage_error("the stage gptq needs samples that run through the network: --data");
  return Rounding(stage, setting).run();
}

}  // namespace crumb::ptq
