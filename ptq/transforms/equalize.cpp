#include "ptq/transforms/equalize.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "ptq/matrices/float_values.h"
#include "ptq/rounding/rounding_errors.h"
#include "ptq/transforms/open_sites.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Tensor;

constexpr double kNothing = 1e-9;  // of the largest range, or of 1: a smaller channel is left alone
constexpr double kClose = 0.05;    // distance from 1 of factors that need no further iteration

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Returns how much less biases count than weights: they are few, and of 32 bits, but large ones determine
/// the layer's range (Vitis AI).
double shrink_of(const std::vector<double>& weights, const std::vector<double>& biases) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0) ratios.push_back(biases[i] / weights[i]);
  if (ratios.empty()) return 2;
  const double median = median_of(ratios), most = std::ranges::max(biases);
  double mean = 0;
  for (const double ratio : ratios) mean += ratio / static_cast<double>(ratios.size());
  if (most < 10 && most < 20 * std::ranges::max(weights)) return median > 100 || mean > 1000 ? 5 : 2;
  if (median > 30 || mean > 500) return 20;
  return median > 15 || mean > 250 ? 10 : 5;
}

std::vector<double> range_of_sources(const Graph& graph, const ScalingSite& site) {
  std::vector<double> range =
      channel_magnitudes(graph.initializers.at(site.sources[0].name), site.sources[0].axis);
  std::vector<double> biases(range.size());
  for (std::size_t i = 1; i < site.sources.size(); ++i) {
    const std::vector<double> one =
        channel_magnitudes(graph.initializers.at(site.sources[i].name), site.sources[i].axis);
    for (std::size_t c = 0; c < one.size(); ++c) biases[c] += one[c];
  }
  if (site.sources.size() == 1) return range;
  const double shrink = shrink_of(range, biases);
  for (std::size_t c = 0; c < range.size(); ++c) range[c] = std::max(range[c], biases[c] / shrink);
  return range;
}

std::vector<double> range_of_sinks(const Graph& graph, const ScalingSite& site) {
  std::vector<double> range(site.channels);
  for (const ScaledConstant& sink : site.sinks) {
    const std::vector<double> one = channel_magnitudes(graph.initializers.at(sink.name), sink.axis);
    for (std::size_t c = 0; c < range.size(); ++c) range[c] = std::max(range[c], one[c]);
  }
  return range;
}

StageReport report_of(const Stage& stage, const Setting& setting, const std::vector<ScalingSite>& sites,
                      const std::map<std::string, double>& before) {
  std::set<std::string> touched;
  for (const ScalingSite& site : sites) {
    touched.insert(site.sources[0].name);
    for (const ScaledConstant& sink : site.sinks) touched.insert(sink.name);
  }
  return report_of_matrices(stage, setting, touched, before);
}

/// Returns the largest magnitude of each channel of the sinks' inputs, over samples.
std::map<std::string, std::vector<double>> ranges_of_samples(const Setting& setting,
                                                             const std::vector<ScalingSite>& sites) {
  std::map<std::string, const ScalingSite*> wanted;
  std::vector<std::string> names;
  for (const ScalingSite& site : sites)
    for (const std::string& value : site.taken) {
      wanted[value] = &site;
      names.push_back(value);
    }
  std::map<std::string, std::vector<double>> seen;
  visit_float_values(setting, names, [&](const std::map<std::string, Tensor>& values) {
    for (const auto& [name, site] : wanted) {
      const Tensor& value = values.at(name);
      // Images have their channels on axis 1, other values on the last axis.
      const bool is_image = setting.graph.constant(site->sinks[0].name)->rank() > 2;
      const std::vector<double> one = channel_magnitudes(value, is_image ? 1 : value.shape().size() - 1);
      std::vector<double>& most = seen[name];
      most.resize(one.size());
      for (std::size_t c = 0; c < one.size(); ++c) {
        if (!std::isfinite(one[c]))
          throw Error("value " + quote_text(name) + " holds inf or NaN on the samples");
        most[c] = std::max(most[c], one[c]);
      }
    }
  });
  if (seen.empty()) throw Error("the stage smooth has no sample");
  return seen;
}

}  // namespace

StageReport equalize(const Stage& stage, Setting& setting) {
  const std::vector<ScalingSite> sites = open_sites(stage, setting, false);
  const auto before = rounding_errors(setting);
  const int iterations = static_cast<int>(stage.value("iterations"));
  for (int iteration = 0; iteration < iterations; ++iteration) {
    double most = 0;
    for (const ScalingSite& site : sites) {
      check_interrupt();
      const std::vector<double> rows = range_of_sources(setting.graph, site),
                                columns = range_of_sinks(setting.graph, site);
      const double least_row = kNothing * std::min(1.0, std::ranges::max(rows)),
                   least_column = kNothing * std::min(1.0, std::ranges::max(columns));
      std::vector<double> factors(site.channels, 1.0);
      for (std::size_t c = 0; c < factors.size(); ++c) {
        if (rows[c] <= least_row || columns[c] <= least_column) continue;
        factors[c] = std::sqrt(columns[c] / rows[c]);
        most = std::max(most, std::fabs(1 - factors[c]));
      }
      scale_site(setting.graph, site, factors);
    }
    if (most < kClose) break;
  }
  return report_of(stage, setting, sites, before);
}

double smoothing_factor(double x, double w, double alpha) {
  if (x <= kNothing || w <= kNothing) return 1;
  return std::pow(w, 1 - alpha) / std::pow(x, alpha);
}

StageReport smooth(const Stage& stage, Setting& setting) {
  const std::vector<ScalingSite> sites = open_sites(stage, setting, true);
  const auto before = rounding_errors(setting);
  std::map<std::string, std::vector<double>> seen = ranges_of_samples(setting, sites);
  const double alpha = stage.value("alpha");
  for (const ScalingSite& site : sites) {
    const std::vector<double> columns = range_of_sinks(setting.graph, site);
    std::vector<double> factors(site.channels, 1.0);
    for (std::size_t c = 0; c < factors.size(); ++c) {
      double most = 0;
      for (const std::string& value : site.taken) most = std::max(most, seen.at(value)[c]);
      factors[c] = smoothing_factor(most, columns[c], alpha);
      for (const std::string& value : site.taken)
        seen.at(value)[c] *= factors[c];  // two sites can have the same value
    }
    scale_site(setting.graph, site, factors);
  }
  return report_of(stage, setting, sites, before);
}

}  // namespace crumb::ptq
