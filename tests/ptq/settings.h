// What stages work on, put together by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/engine.h"
#include "ptq/stages.h"
#include "quant/quant_spec.h"

namespace crumb::ptq::test {

/// The constant is to become codes.
inline void will_be(Setting& setting, const std::string& name, std::size_t axis, const std::string& spec) {
  setting.plan.constants.push_back({.value = name,
                                    .node = "node of " + name,
                                    .axes = axis,
                                    .spec = QuantSpec::parse(spec),
                                    .kept_because = "",
                                    .rounded = {}});
}

/// Samples of one input.
inline void feed(Setting& setting, const graph::Engine& engine, std::vector<graph::Tensor> samples) {
  setting.engine = &engine;
  setting.samples = [samples = std::move(samples)](const auto& batch) {
    for (const graph::Tensor& sample : samples) batch({sample});
  };
}

inline StageReport run_one(const std::string& stage, Setting& setting) {
  return run_stages({parse_stage(stage)}, setting).at(0);
}

}  // namespace crumb::ptq::test
