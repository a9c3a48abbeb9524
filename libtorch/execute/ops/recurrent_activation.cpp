#include "libtorch/execute/ops/recurrent_activation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cctype>

namespace crumb::libtorch {
namespace {

struct Row {
  const char* name;
  RecurrentActivation::Function function;
  bool has_alpha, has_beta;
  double alpha, beta;
};

constexpr Row kRecurrentActivationRows[] = {
    {"sigmoid", [](const at::Tensor& x, double, double) { return at::sigmoid(x); }, false, false, 0, 0},
    {"tanh", [](const at::Tensor& x, double, double) { return at::tanh(x); }, false, false, 0, 0},
    {"relu", [](const at::Tensor& x, double, double) { return at::relu(x); }, false, false, 0, 0},
    {"affine", [](const at::Tensor& x, double a, double b) { return x * a + b; }, true, true, 1, 0},
    {"leakyrelu", [](const at::Tensor& x, double a, double) { return at::leaky_relu(x, a); }, true, false,
     0.01, 0},
    {"thresholdedrelu",
     [](const at::Tensor& x, double a, double) { return at::where(x >= a, x, at::zeros_like(x)); }, true,
     false, 1, 0},
    {"scaledtanh", [](const at::Tensor& x, double a, double b) { return at::tanh(x * b) * a; }, true, true, 1,
     1},
    {"hardsigmoid", [](const at::Tensor& x, double a, double b) { return (x * a + b).clamp(0, 1); }, true,
     true, 0.2, 0.5},
    {"elu", [](const at::Tensor& x, double a, double) { return at::elu(x, a); }, true, false, 1, 0},
    {"softsign", [](const at::Tensor& x, double, double) { return x / (x.abs() + 1); }, false, false, 0, 0},
    {"softplus", [](const at::Tensor& x, double, double) { return at::softplus(x); }, false, false, 0, 0},
};

/// Takes the next number of a list for each function that has the parameter. A list as long as there are
/// functions has one for every function, whether it is looked at or not.
class Parameters {
 public:
  Parameters(std::vector<float> values, std::size_t functions)
      : values_(std::move(values)), one_each_(values_.size() == functions) {}

  double take(bool has, double otherwise) {
    const bool there = (has || one_each_) && next_ < values_.size();
    const double value = there ? values_[next_++] : otherwise;
    return has ? value : 0;
  }

 private:
  std::vector<float> values_;
  bool one_each_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<RecurrentActivation> recurrent_activations(const Call& call,
                                                       const std::vector<std::string>& usual,
                                                       std::size_t directions) {
  std::vector<std::string> names = call.node().texts_or("activations", {});
  if (names.empty()) {
    for (std::size_t i = 0; i < directions; ++i) names.insert(names.end(), usual.begin(), usual.end());
  }
  // RNN's default names two functions whatever the direction.
  const std::size_t wanted = usual.size() * directions;
  if (names.size() > wanted && usual.size() == 1) names.resize(wanted);
  if (names.size() != wanted) {
    call.fail("activations has " + std::to_string(names.size()) + " entries, expected " +
              std::to_string(wanted));
  }
  Parameters alphas(call.node().floats_or("activation_alpha", {}), wanted);
  Parameters betas(call.node().floats_or("activation_beta", {}), wanted);
  std::vector<RecurrentActivation> found;
  for (std::string name : names) {
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto row =
        std::ranges::find_if(kRecurrentActivationRows, [&](const Row& r) { return name == r.name; });
    if (row == std::end(kRecurrentActivationRows))
      call.fail("the activation function \"" + name + "\" is not known");
    found.push_back(
        {name, row->function, alphas.take(row->has_alpha, row->alpha), betas.take(row->has_beta, row->beta)});
  }
  return found;
}

}  // namespace crumb::libtorch
