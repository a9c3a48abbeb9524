// What one run of a model takes of memory beside its constants, and where an arena puts it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/model.h"

namespace crumb::runtime {

struct MemoryUse {
  struct Value {
    std::string name;  ///< of the graph's value; empty: memory that the node takes for itself
    std::string node;  ///< that makes it
    Arena::Place place;
  };

  std::vector<Value> values;       ///< step by step; views of others' memory are none
  std::size_t steps = 0;           ///< of a run
  std::size_t block = 0;           ///< bytes that the arena's block has
  std::size_t most_at_a_time = 0;  ///< bytes of what is in the block: no plan takes less
  std::size_t outliving = 0;       ///< bytes of what is not, as outputs are
};

/// Found out by a run on the inputs, whose elements matter only where a graph makes shapes of them. Throws as
/// Model::run does.
MemoryUse memory_use(const Model& model, std::vector<Array> inputs, RunOptions options = {});

}  // namespace crumb::runtime
