#include "qat/distillation.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace crumb::qat {
namespace {

void expect_one_shape(const at::Tensor& student, const at::Tensor& teacher, const char* what) {
  if (student.sizes() == teacher.sizes()) return;
  throw Error(std::string(what) + ": the student's have shape " + c10::str(student.sizes()) +
              ", the teacher's " + c10::str(teacher.sizes()));
}

}  // namespace

at::Tensor distillation_loss(const at::Tensor& student_logits, const at::Tensor& teacher_logits,
                             double temperature) {
  expect_one_shape(student_logits, teacher_logits, "logits");
  if (!(temperature > 0))
    throw Error("the temperature is " + std::to_string(temperature) + ", expected more than 0");
  const std::int64_t classes = student_logits.dim() - 1;
  const at::Tensor student = (student_logits / temperature).log_softmax(classes);
  const at::Tensor teacher = (teacher_logits.detach() / temperature).log_softmax(classes);
  const at::Tensor each = (teacher.exp() * (teacher - student)).sum(classes);
  return each.mean() * (temperature * temperature);
}

at::Tensor hidden_state_loss(const std::vector<at::Tensor>& student, const std::vector<at::Tensor>& teacher) {
  if (student.size() != teacher.size() || student.empty()) {
    throw Error("hidden states: the student has " + std::to_string(student.size()) + ", the teacher " +
                std::to_string(teacher.size()) + "; expected as many, at least one");
  }
  at::Tensor sum;
  for (std::size_t i = 0; i < student.size(); ++i) {
    expect_one_shape(student[i], teacher[i], "hidden states");
    const at::Tensor target = teacher[i].detach();
    const at::Tensor one = (student[i] - target).square().mean() / target.square().mean().clamp_min(1e-12);
    sum = sum.defined() ? sum + one : one;
  }
  return sum / static_cast<double>(student.size());
}

}  // namespace crumb::qat
