#include "ptq/settled_codes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/quantize/apply.h"

namespace crumb::ptq {
namespace {

using graph::PlannedConstant;
using graph::Tensor;

/// Numbers that nobody read are those of the file.
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

void change_constant(Setting& setting, const std::string& constant, Tensor numbers) {
  setting.graph.initializers.at(constant) = std::move(numbers);
  const auto planned = std::ranges::find(setting.plan.constants, constant, &PlannedConstant::value);
  if (planned == setting.plan.constants.end() || !planned->rounded) return;
  planned->rounded.reset();
  planned->rounded = graph::codes_of(*planned, setting.graph, setting.threads);
}

void settle_codes(Setting& setting, graph::Graph& network) {
  for (graph::PlannedConstant& constant : setting.plan.constants) {
    if (!constant.spec) continue;
    constant.rounded = graph::codes_of(constant, setting.graph, setting.threads);
    network.initializers.erase(constant.value);
    network.quantized[constant.value] = *constant.rounded;
  }
}

SettledCodes::SettledCodes(const Setting& setting) {
  for (const PlannedConstant& planned : setting.plan.constants) {
    const auto found = setting.graph.initializers.find(planned.value);
    if (planned.rounded && found != setting.graph.initializers.end())
      settled_.insert({planned.value, {.numbers = found->second, .codes = planned.rounded->tensor}});
  }
}

void SettledCodes::expect_good(const Setting& setting, const Stage& stage) const {
  for (const PlannedConstant& planned : setting.plan.constants) {
    const auto before = settled_.find(planned.value);
    if (before == settled_.end() || !planned.rounded || planned.rounded->tensor != before->second.codes)
      continue;
    const auto now = setting.graph.initializers.find(planned.value);
    if (now == setting.graph.initializers.end() || !are_alike(before->second.numbers, now->second))
      throw Error("the stage " + stage.name + " changes " + quote_text(planned.value) +
                  " in floats, whose codes an earlier stage chose: it has to come before that");
  }
}

}  // namespace crumb::ptq
