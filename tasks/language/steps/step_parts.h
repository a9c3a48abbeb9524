// Divides a step's samples into parts that run one after the other. Free of LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace crumb::tasks {

/// Returns what a part costs by itself, in tokens: weights go through their quantizers forward and backward,
/// and gradients are added up; a GPU also waits for its host.
constexpr std::int64_t part_cost_on(bool is_cpu) { return is_cpu ? 128 : 4096; }

/// Samples that run together are filled up to the longest of them, so lines of similar length belong
/// together; but each part also has a cost of its own, `part_cost`, in the same unit as lengths. Returns the
/// parts of least cost, of at most `most` samples, as the samples' indices, the shortest first. Samples of
/// equal length keep their order, and parts are as large as they may be.
std::vector<std::vector<std::int64_t>> parts_of_step(const std::vector<std::int64_t>& samples,
                                                     const std::vector<std::int64_t>& lengths,
                                                     std::int64_t most, std::int64_t part_cost);

}  // namespace crumb::tasks
