// A row of attention's scores becomes weights (attention.h), by the compiler's own vectors. The bits are the
// same on every processor.
#pragma once

#include <cstddef>

namespace crumb::runtime {

/// Adds a mask's numbers to the scores of its keys; a number of -inf, or `allowed` that is false, makes them
/// -inf. Precondition: one of both is null.
void mask_scores(const float* added, const bool* allowed, std::size_t keys, float* scores);

/// Makes w_j of the scores of the first `seen` keys, and zeros of the others up to `keys`. All become NaN
/// where no score is above -inf, or where one is NaN.
void weigh_scores(std::size_t seen, std::size_t keys, float* scores);

/// For any processor.
void mask_scores_portable(const float* added, const bool* allowed, std::size_t keys, float* scores);
void weigh_scores_portable(std::size_t seen, std::size_t keys, float* scores);
/// Precondition: may_use(Isa::kAvx2).
void mask_scores_avx2(const float* added, const bool* allowed, std::size_t keys, float* scores);
void weigh_scores_avx2(std::size_t seen, std::size_t keys, float* scores);
/// Precondition: may_use(Isa::kAvx512).
void mask_scores_avx512(const float* added, const bool* allowed, std::size_t keys, float* scores);
void weigh_scores_avx512(std::size_t seen, std::size_t keys, float* scores);

}  // namespace crumb::runtime
