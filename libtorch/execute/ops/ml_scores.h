// What the classifiers and regressors of ai.onnx.ml have in common.
#pragma once

#include <string>
#include <vector>

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

inline constexpr std::string_view kMlDomain = "ai.onnx.ml";

/// The attribute post_transform on the last axis of the scores; throws Error for a name that ONNX does not
/// know.
at::Tensor post_transformed(const Call& call, const at::Tensor& scores, const std::string& name);

/// Input 0 as [rows, features], floats: double where it is double, single otherwise.
at::Tensor features_of(const Call& call);

/// Scores of two classes from the score of one, as classifiers write it down: what is below, what is above.
enum class SecondClass { kComplement, kNegative };
at::Tensor with_second_class(const at::Tensor& score, SecondClass second);

/// The labels of the columns with the highest scores; columns beyond the labels throw Error.
TypedTensor best_labels(const Call& call, const at::Tensor& scores, const std::vector<std::int64_t>& labels);

/// The numbers of an attribute, or of the same with _as_tensor behind its name.
std::vector<double> numbers_of(const Call& call, const std::string& name);

}  // namespace crumb::libtorch
