// The memory that one run of a model takes in addition to its constants, and where an arena puts it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/model.h"

namespace crumb::runtime {

struct MemoryUse {
  struct Value {
    std::string name;  ///< the graph's value; empty: memory that the node takes for itself
    std::string node;  ///< the node that makes it
    Arena::Place place;
  };

  std::vector<Value> values;       ///< step by step; without views of other values' memory
  std::size_t steps = 0;           ///< of a run
  std::size_t block = 0;           ///< bytes that the arena's block has
  std::size_t most_at_a_time = 0;  ///< bytes of what is in the block: no plan takes less
  std::size_t outliving = 0;       ///< bytes outside the block, as outputs are
};

/// Measured by a run on the inputs. Their elements matter only where the graph computes shapes from them.
/// Throws as Model::run does.
MemoryUse memory_use(const Model& model, std::vector<Array> inputs, RunOptions options = {});

}  // namespace crumb::runtime
