// Losses against a teacher, mostly the float network. All are means over a batch and free of state.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace crumb::qat {

/// Returns the Kullback-Leibler divergence of the student's probabilities from the teacher's, both softened
/// by a temperature, times the temperature's square, so that gradients keep their size (Hinton et al.,
/// arXiv:1503.02531). Logits [..., classes] of one shape; no gradient reaches the teacher. Throws Error where
/// shapes differ or the temperature is not positive.
at::Tensor distillation_loss(const at::Tensor& student_logits, const at::Tensor& teacher_logits,
                             double temperature = 1);

/// Returns the mean over pairs of hidden states of their squared difference over the teacher's mean square:
/// layers of any size count the same. The two states of a pair have one shape; no gradient reaches the
/// teacher. Throws Error where shapes or numbers of states differ.
at::Tensor hidden_state_loss(const std::vector<at::Tensor>& student, const std::vector<at::Tensor>& teacher);

}  // namespace crumb::qat
