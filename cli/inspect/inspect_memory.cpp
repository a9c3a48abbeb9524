#include "cli/inspect/inspect_memory.h"

#include <iostream>
#include <numeric>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/facts/bind_shapes.h"
#include "jobs/engines/graph_inputs.h"

namespace crumb::cli {
namespace {

using runtime::MemoryUse;

std::uint64_t one_after_the_other(const MemoryUse& use) {
  return std::accumulate(
      use.values.begin(), use.values.end(), std::uint64_t{0},
      [](std::uint64_t sum, const MemoryUse::Value& value) { return sum + value.place.bytes; });
}

}  // namespace

MemoryUse memory_of(const graph::Graph& graph,
                    const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  const graph::Graph bound = graph::bind_shapes(graph, shapes);
  std::vector<runtime::Array> inputs;
  for (const std::string& name : bound.inputs) {
    const auto shape = bound.shape_of(name);
    if (!shape)
      throw usage_error("input " + quote_text(name) + " has no shape; give --shape " + name + "=...");
    std::vector<std::int64_t> sizes;
    for (const graph::Dim& dim : *shape) sizes.push_back(dim.size);
    inputs.push_back(runtime::Array::of(jobs::drawn_input(bound, name, sizes, "--input")));
  }
  return runtime::memory_use(runtime::Model(jobs::for_runtime(graph)), std::move(inputs));
}

Json memory_json(const MemoryUse& use) {
  Json json{{"steps", use.steps},
            {"arena", use.block},
            {"most_at_a_time", use.most_at_a_time},
            {"one_after_the_other", one_after_the_other(use)},
            {"outliving", use.outliving}};
  json["values"] = Json::array();
  for (const MemoryUse::Value& value : use.values) {
    const runtime::Arena::Place& place = value.place;
    json["values"].push_back({{"name", value.name.empty() ? Json(nullptr) : Json(value.name)},
                              {"node", value.node},
                              {"bytes", place.bytes},
                              {"first_step", place.first},
                              {"last_step", place.last},
                              {"offset", place.outlives ? Json(nullptr) : Json(place.offset)}});
  }
  return json;
}

void print_memory(const MemoryUse& use) {
  std::cout << "\nmemory of a run, beside the file: " << count_text(use.steps, "step") << "; "
            << count_text(use.values.size(), "value") << " of " << short_bytes(one_after_the_other(use))
            << ", at most " << short_bytes(use.most_at_a_time) << " at a time, in an arena of "
            << short_bytes(use.block) << " and outputs of " << short_bytes(use.outliving) << "\n";
  std::vector<std::vector<std::string>> rows{{"value", "bytes", "from step", "until", "at"}};
  for (const MemoryUse::Value& value : use.values) {
    const runtime::Arena::Place& place = value.place;
    rows.push_back({value.name.empty() ? "(" + value.node + ")" : value.name, std::to_string(place.bytes),
                    std::to_string(place.first), std::to_string(place.last),
                    place.outlives ? "output" : std::to_string(place.offset)});
  }
  print_table(rows);
}

}  // namespace crumb::cli
