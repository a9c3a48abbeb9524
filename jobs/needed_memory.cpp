#include "jobs/needed_memory.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files/process_memory.h"
#include "base/files/text.h"

namespace crumb::jobs {

std::uint64_t least_bytes(const graph::Graph& graph, const graph::QuantPlan& plan) {
  std::uint64_t codes = 0, largest = 0, floats = 0;
  for (const auto& [name, tensor] : graph.initializers) {
    largest = std::max(largest, tensor.byte_count());
    floats += tensor.byte_count();
  }
  for (const graph::PlannedConstant& constant : plan.constants) {
    const auto value = graph.initializers.find(constant.value);
    if (constant.spec && value != graph.initializers.end())
      codes += static_cast<std::uint64_t>(value->second.size());
  }
  return codes + (plan.edges.empty() ? largest : floats);
}

void expect_memory(const std::string& name, const graph::Graph& graph, const graph::QuantPlan& plan,
                   const Observer& observer) {
  const std::uint64_t needed = least_bytes(graph, plan);
  const std::optional<std::uint64_t> available = available_bytes();
  if (!available || needed <= *available) return;
  throw Error("quantizing " + quote_text(name) + " takes at least " + byte_text(needed) + " of memory, and " +
              byte_text(*available) + " can be had" +
              (plan.edges.empty() ? "; expected more memory, or " + observer.spelled("as: tensors") +
                                        ", which takes one weight at a time"
                                  : "; expected more memory, or " + observer.spelled("activations") +
                                        " keep, for which not all weights are held in floats"));
}

}  // namespace crumb::jobs
