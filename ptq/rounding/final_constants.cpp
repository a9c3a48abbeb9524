#include "ptq/rounding/final_constants.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/quantize/apply.h"

namespace crumb::ptq {
namespace {

using graph::PlannedConstant;
using graph::Tensor;

/// Unread values are still those of the file.
bool are_alike(const Tensor& a, const Tensor& b) {
  if (a.is_unread() || b.is_unread()) return a.is_unread() == b.is_unread() && a.shape() == b.shape();
  return a.bytes().data() == b.bytes().data() || a == b;
}

}  // namespace

bool has_codes(const Setting& setting, const std::string& constant) {
  return std::ranges::any_of(setting.plan.constants, [&](const PlannedConstant& planned) {
    return planned.value == constant && planned.rounded;
  });
}

Tensor numbers_of(const Setting& setting, const std::string& constant) {
  const auto planned = std::ranges::find(setting.plan.constants, constant, &PlannedConstant::value);
  if (planned != setting.plan.constants.end() && planned->rounded) return planned->rounded->value();
  const auto floats = setting.plan.final_floats.find(constant);
  return floats != setting.plan.final_floats.end() ? floats->second : setting.graph.initializers.at(constant);
}

void set_final_values(Setting& setting, const std::string& constant, Tensor numbers) {
  const auto planned = std::ranges::find(setting.plan.constants, constant, &PlannedConstant::value);
  if (planned == setting.plan.constants.end() || !planned->spec) {
    setting.plan.final_floats.insert_or_assign(constant, std::move(numbers));
    return;
  }
  graph::Graph alone;
  alone.initializers.emplace(constant, std::move(numbers));
  planned->rounded.reset();
  planned->rounded = graph::codes_of(*planned, alone, setting.threads);
}

void finish_constants(Setting& setting, graph::Graph& network) {
  for (graph::PlannedConstant& constant : setting.plan.constants) {
    if (!constant.spec) continue;
    constant.rounded = graph::codes_of(constant, setting.graph, setting.threads);
    graph::set_codes(network, constant.value, *constant.rounded);
  }
  for (const auto& [name, numbers] : setting.plan.final_floats) network.initializers.at(name) = numbers;
}

FinalConstants::FinalConstants(const Setting& setting) {
  for (const PlannedConstant& planned : setting.plan.constants) {
    const auto found = setting.graph.initializers.find(planned.value);
    if (planned.rounded && found != setting.graph.initializers.end())
      final_.insert({planned.value, {.numbers = found->second, .codes = planned.rounded->tensor}});
  }
  for (const auto& [name, numbers] : setting.plan.final_floats)
    final_.insert({name, {.numbers = setting.graph.initializers.at(name), .codes = nullptr}});
}

void FinalConstants::expect_good(const Setting& setting, const Stage& stage) const {
  const auto expect_floats = [&](const std::string& name, const Tensor& before, const char* what) {
    const auto now = setting.graph.initializers.find(name);
    if (now == setting.graph.initializers.end() || !are_alike(before, now->second))
      throw Error("the stage " + stage.name + " changes " + quote_text(name) + " in floats, whose " + what +
                  ": it has to come before that");
  };
  for (const PlannedConstant& planned : setting.plan.constants) {
    const auto before = final_.find(planned.value);
    if (before == final_.end() || !planned.rounded || planned.rounded->tensor != before->second.codes)
      continue;
    expect_floats(planned.value, before->second.numbers, "codes an earlier stage chose");
  }
  for (const auto& [name, before] : final_)
    if (!before.codes) expect_floats(name, before.numbers, "numbers an earlier stage settled");
}

}  // namespace crumb::ptq
