// The exponential moving average of a module's parameters, which at low bits scores better than the
// parameters of the last step.
//
//   qat::WeightAverage average(network);
//   for (...) { ...; optimizer.step(); average.update(); }
//   {
//     const auto averaged = average.use();         // inside, the module has the averages
//     graph = network.freeze();
//   }
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

namespace crumb::qat {

class WeightAverage {
 public:
  /// Starts from the current parameters. `decay` in [0, 1): the share of the old average that stays in a
  /// step; the first steps keep less, min(decay, (1 + n) / (10 + n)) in step n. Throws Error for other
  /// decays. The module must outlive this; its parameters may move to another device.
  explicit WeightAverage(torch::nn::Module& module, double decay = 0.999);

  void update();  ///< after each of the optimizer's steps

  /// While it lives, the module has the averages; after that, its own parameters.
  class Use {
   public:
    ~Use();
    Use(Use&& other) noexcept = default;
    Use& operator=(Use&&) = delete;

   private:
    friend class WeightAverage;
    explicit Use(std::vector<at::Tensor> parameters, const std::vector<at::Tensor>& averages);
    std::vector<at::Tensor> parameters_, kept_;
  };
  [[nodiscard]] Use use() const { return Use(parameters_, averages_); }

  const std::vector<at::Tensor>& averages() const { return averages_; }  ///< in the order of parameters()
  std::int64_t steps() const { return steps_; }

  /// Continues from averages of the same parameters after `steps` steps. Throws Error where their shapes
  /// differ.
  void restore(const std::vector<at::Tensor>& averages, std::int64_t steps);

 private:
  std::vector<at::Tensor> parameters_, averages_;
  double decay_;
  std::int64_t steps_ = 0;
};

}  // namespace crumb::qat
