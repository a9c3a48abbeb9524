#include "runtime/memory/memory_use.h"

#include <utility>

#include "runtime/memory/memory_plan.h"

namespace crumb::runtime {

MemoryUse memory_use(const Model& model, std::vector<Array> inputs, RunOptions options) {
  options.arena = nullptr;
  model.run(inputs, options);  // the first run makes what kernels keep
  Arena arena;
  options.arena = &arena;
  const std::vector<Array> outputs = model.run(std::move(inputs), options);
  MemoryUse use{.values = {}, .steps = model.steps(), .block = arena.bytes()};
  std::vector<Lifetime> in_block;
  for (const Arena::Place& place : arena.places()) {
    if (place.outlives) {
      use.outliving += place.bytes;
    } else {
      in_block.push_back({.bytes = place.bytes, .first = place.first, .last = place.last});
    }
    const graph::Node& node = model.node_of(place.first);
    use.values.push_back(
        {.name = place.output ? node.outputs[*place.output] : "", .node = node.name, .place = place});
  }
  use.most_at_a_time = most_bytes_at_a_time(in_block);
  return use;
}

}  // namespace crumb::runtime
