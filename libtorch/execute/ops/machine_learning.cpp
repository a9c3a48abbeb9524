// The ai.onnx.ml operators that scale, encode and weigh features: tensors in and out.
#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/ml_scores.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

Outputs binarizer(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  return like_input(call, x > call.float_or("threshold", 0));
}

/// An attribute with one number for all features or one for each, as a tensor; `otherwise` where it is left
/// out.
at::Tensor for_each_feature(const Call& call, const at::Tensor& x, const char* name, float otherwise) {
  const auto values = call.node().floats_or(name, {otherwise});
  const std::int64_t features = x.dim() == 0 ? 1 : x.size(-1);
  if (values.size() != 1) expect_length(call, name, values.size(), features);
  return at::tensor(values, x.options());
}

Outputs scaler(const Call& call) {
  const at::Tensor x = call.tensor(0).to(at::kFloat);
  return one((x - for_each_feature(call, x, "offset", 0)) * for_each_feature(call, x, "scale", 1),
             ElementType::kFloat);
}

Outputs normalizer(const Call& call) {
  const at::Tensor x = call.tensor(0).to(at::kFloat);
  if (x.dim() != 1 && x.dim() != 2) call.fail("expected rank 1 or 2, found " + text_of(call.in(0)));
  const std::string norm = call.text_or("norm", "MAX");
  at::Tensor by;
  if (x.numel() == 0) return one(x, ElementType::kFloat);
  if (norm == "MAX") by = x.abs().amax(-1, true);
  if (norm == "L1") by = x.abs().sum(-1, true);
  if (norm == "L2") by = x.square().sum(-1, true).sqrt();
  if (!by.defined()) call.fail("expected norm MAX, L1 or L2, found another");
  return one(x / by.clamp_min(1e-30), ElementType::kFloat);
}

Outputs imputer(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  expect_least_rank(call, 0, 1);
  const bool floats = x.is_floating_point();
  at::Tensor values, found;
  if (floats) {
    const auto given = call.node().floats_or("imputed_value_floats", {});
    values = at::tensor(given, at::kFloat).to(x.options());
    const float replaced = call.float_or("replaced_value_float", 0);
    found = replaced == replaced ? x == replaced : x.isnan();
  } else {
    const Ints given = call.node().ints_or("imputed_value_int64s", {});
    values = at::tensor(given, at::kLong).to(x.options());
    found = x == call.int_or("replaced_value_int64", 0);
  }
  if (values.numel() != 1) {
    expect_length(call, "imputed values", static_cast<std::size_t>(values.numel()), x.size(-1));
  }
  return like_input(call, at::where(found, values, x));
}

Outputs feature_vectorizer(const Call& call) {
  const Ints widths = call.node().ints_or("inputdimensions", {});
  expect_length(call, "inputdimensions", widths.size(), static_cast<std::int64_t>(call.inputs()));
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    at::Tensor x = call.tensor(i).to(at::kFloat);
    if (x.dim() == 1) x = x.unsqueeze(0);
    if (x.dim() != 2 || widths[i] < 0 || widths[i] > (1 << 30)) {
      call.fail("input " + std::to_string(i) + ": expected rank 1 or 2, found " + text_of(call.in(i)));
    }
    parts.push_back(at::constant_pad_nd(x, {0, widths[i] - x.size(1)}));
  }
  if (parts.empty()) call.fail("expected inputs, found none");
  return one(at::cat(parts, 1), ElementType::kFloat);
}

Outputs one_hot_encoder(const Call& call) {
  if (call.node().has("cats_strings")) call.fail("categories that are strings are not supported");
  const Ints categories = call.node().ints_or("cats_int64s", {});
  const at::Tensor x = call.tensor(0).to(at::kLong);
  const at::Tensor hot = x.unsqueeze(-1) == at::tensor(categories, at::kLong).to(x.device());
  if (call.int_or("zeros", 1) == 0 && !hot.any(-1).all().item<bool>()) {
    call.fail("an element is in none of the categories");
  }
  return one(hot.to(at::kFloat), ElementType::kFloat);
}

/// A list of LabelEncoder: keys, values or the default.
std::optional<TypedTensor> listed(const Call& call, const std::string& kind, bool several) {
  const auto& attributes = call.node().attributes;
  if (const auto held = attributes.find(kind + "_tensor"); held != attributes.end()) {
    if (const auto* tensor = std::get_if<graph::Tensor>(&held->second)) return to_typed(*tensor);
    call.fail("expected a tensor in " + kind + "_tensor");
  }
  if (!several) return std::nullopt;
  if (attributes.contains(kind + "_floats")) {
    return to_typed(
        graph::Tensor::floats({static_cast<std::int64_t>(call.node().floats_or(kind + "_floats", {}).size())},
                              call.node().floats_or(kind + "_floats", {})));
  }
  if (attributes.contains(kind + "_int64s")) {
    const Ints ints = call.node().ints_or(kind + "_int64s", {});
    return to_typed(graph::Tensor::ints({static_cast<std::int64_t>(ints.size())}, ints));
  }
  call.fail(kind + " that are strings, or none, are not supported");
}

/// What LabelEncoder makes of a key that it does not know.
TypedTensor default_label(const Call& call, ElementType type) {
  if (const auto given = listed(call, "default", false)) {
    expect_length(call, "default_tensor", static_cast<std::size_t>(given->tensor.numel()), 1);
    if (given->type != type) call.fail("default_tensor and the values differ in type");
    return *given;
  }
  const double number =
      graph::is_float(type) ? static_cast<double>(call.float_or("default_float", -0.0F)) : 0;
  if (graph::is_float(type)) return {at::scalar_tensor(number, carrier_of(type)), type};
  return {at::scalar_tensor(call.int_or("default_int64", -1), carrier_of(type)), type};
}

Outputs label_encoder(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const TypedTensor keys = *listed(call, "keys", true), values = *listed(call, "values", true);
  expect_length(call, "values", static_cast<std::size_t>(values.tensor.numel()), keys.tensor.numel());
  if (keys.type != call.type(0))
    call.fail("keys are " + text_of(keys) + ", the input is " + text_of(call.in(0)));
  const TypedTensor otherwise = default_label(call, values.type);
  // The last of equal keys counts; NaN is found since version 4.
  const at::Tensor wide = keys.tensor.reshape({-1}).to(graph::is_float(keys.type) ? at::kDouble : at::kLong);
  std::map<double, std::int64_t> by_float;
  std::map<std::int64_t, std::int64_t> by_int;
  std::int64_t of_nan = -1;
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    if (!graph::is_float(keys.type)) {
      by_int[wide.const_data_ptr<std::int64_t>()[i]] = i;
    } else if (const double key = wide.const_data_ptr<double>()[i]; key != key) {
      of_nan = call.version() >= 4 ? i : -1;
    } else {
      by_float[key] = i;
    }
  }
  const at::Tensor flat = x.detach().to(at::kCPU, wide.scalar_type()).reshape({-1}).contiguous();
  Ints places(static_cast<std::size_t>(flat.numel()), keys.tensor.numel());  // behind the values: the default
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    std::int64_t& place = places[static_cast<std::size_t>(i)];
    if (!graph::is_float(keys.type)) {
      const auto found = by_int.find(flat.const_data_ptr<std::int64_t>()[i]);
      if (found != by_int.end()) place = found->second;
    } else if (const double key = flat.const_data_ptr<double>()[i]; key != key) {
      if (of_nan >= 0) place = of_nan;
    } else if (const auto found = by_float.find(key); found != by_float.end()) {
      place = found->second;
    }
  }
  const at::Tensor all = at::cat({values.tensor.reshape({-1}), otherwise.tensor.reshape({1})});
  return one(all.index_select(0, at::tensor(places, at::kLong)).reshape(x.sizes()).to(x.device()),
             values.type);
}

/// x times the attribute coefficients, [targets, features], plus intercepts.
at::Tensor linear_scores(const Call& call, const at::Tensor& x, std::int64_t targets) {
  const auto coefficients = call.node().floats_or("coefficients", {});
  const auto intercepts = call.node().floats_or("intercepts", {});
  if (targets < 1 || targets > (1 << 30))
    call.fail("expected targets of 1 or more, found " + std::to_string(targets));
  expect_length(call, "coefficients", coefficients.size(), targets * x.size(1));
  at::Tensor scores = x.matmul(at::tensor(coefficients, x.options()).reshape({targets, x.size(1)}).t());
  if (!intercepts.empty()) {
    if (intercepts.size() != 1) expect_length(call, "intercepts", intercepts.size(), targets);
    scores = scores + at::tensor(intercepts, x.options());
  }
  return scores;
}

Outputs linear_regressor(const Call& call) {
  const at::Tensor scores = linear_scores(call, features_of(call), call.int_or("targets", 1));
  return one(post_transformed(call, scores, call.text_or("post_transform", "NONE")).to(at::kFloat),
             ElementType::kFloat);
}

Outputs linear_classifier(const Call& call) {
  if (call.node().has("classlabels_strings")) call.fail("labels that are strings are not supported");
  const at::Tensor x = features_of(call);
  const auto coefficients = static_cast<std::int64_t>(call.node().floats_or("coefficients", {}).size());
  const Ints labels = call.node().ints_or("classlabels_ints", {});
  const std::int64_t targets = x.size(1) > 0 ? coefficients / x.size(1) : 0;
  const std::string transform = call.text_or("post_transform", "NONE");
  at::Tensor scores = linear_scores(call, x, targets);
  if (targets == 1 && labels.size() == 2) scores = with_second_class(scores, SecondClass::kNegative);
  TypedTensor best;
  if (scores.size(1) > 1) {
    best = best_labels(call, scores, labels);
  } else {
    expect_length(call, "class labels", labels.size(), 1);
    const at::Tensor above = scores >= (transform == "NONE" ? 0 : 0.5);
    best = {above.reshape({-1}).to(at::kLong) * labels[0], ElementType::kInt64};
  }
  return {best, {post_transformed(call, scores, transform).to(at::kFloat), ElementType::kFloat}};
}

constexpr OperatorRow kMachineLearningRows[] = {
    {"Binarizer", binarizer, kMlDomain},
    {"Scaler", scaler, kMlDomain},
    {"Normalizer", normalizer, kMlDomain},
    {"Imputer", imputer, kMlDomain},
    {"FeatureVectorizer", feature_vectorizer, kMlDomain},
    {"OneHotEncoder", one_hot_encoder, kMlDomain},
    {"LabelEncoder", label_encoder, kMlDomain},
    {"LinearRegressor", linear_regressor, kMlDomain},
    {"LinearClassifier", linear_classifier, kMlDomain},
};

}  // namespace

std::span<const OperatorRow> machine_learning_operators() { return kMachineLearningRows; }

}  // namespace crumb::libtorch
