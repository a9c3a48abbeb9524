// A step's samples in parts that run one after the other. Free of LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace crumb::tasks {

/// What a part costs by itself, in tokens: weights go through their quantizers forth and back, and gradients are added up; a GPU
/// waits for its host, too.
constexpr std::int64_t part_cost_on(bool is_cpu) { return is_cpu ? 128 : 4096; }

/// Samples that run side by side are filled up to the longest of them, so that lines of a like length belong together; but
/// each part costs something by itself, `part_cost`, in the same measure as lengths. Gives the parts that cost least, of `most`
/// samples at most, by the samples' numbers, the shortest first; of equal lengths those that stand first come first, and parts
/// are as large as they may be.
std::vector<std::vector<std::int64_t>> parts_of_step(const std::vector<std::int64_t>& samples,
                                                     const std::vector<std::int64_t>& lengths,
                                                     std::int64_t most, std::int64_t part_cost);

}  // namespace crumb::tasks
