#include "ptq/matrices/finite_constants.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"

namespace crumb::ptq {

void require_finite(std::string_view stage, const graph::Graph& graph, const std::string& name) {
  const graph::Tensor* constant = graph.constant(name);
  if (!constant) return;
  const std::vector<float> values = constant->to_floats();
  const auto is_no_number = [](float value) { return !std::isfinite(value); };
  const auto first = std::ranges::find_if(values, is_no_number);
  if (first == values.end()) return;
  const auto count = static_cast<std::size_t>(std::ranges::count_if(values, is_no_number));
  throw Error("the stage " + std::string(stage) + ": tensor " + quote_text(name) + " holds " +
              count_text(count, "value that is", "values that are") + " inf or NaN, the first (" +
              number_text(*first) + ") at index " + std::to_string(first - values.begin()) +
              "; expected finite numbers");
}

}  // namespace crumb::ptq
