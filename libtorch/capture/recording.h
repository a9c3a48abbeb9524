// What LibTorch's tracer recorded in one or two runs: operators, and every number and size at both batch
// sizes.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace crumb::libtorch {

/// A whole number at the first and at the second batch size. Where both are equal, it does not follow the
/// batch.
struct Number {
  std::int64_t first = 0, second = 0;
  bool fixed() const { return first == second; }
  bool is(std::int64_t value) const { return fixed() && first == value; }
  bool operator==(const Number&) const = default;
};

/// A tensor that was recorded.
struct Seen {
  at::ScalarType type = at::kFloat;
  std::vector<Number> sizes;
  std::int64_t rank() const { return static_cast<std::int64_t>(sizes.size()); }
};

struct NamedState {
  std::string name;
  at::Tensor tensor;
  bool trains = false;
};

struct Runs {
  std::vector<std::vector<at::Tensor>> inputs;  ///< of one run, or of two
  Number batch;                                 ///< the batch of both; where there is one run, not used
};

class Recording {
 public:
  using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
  using Value = torch::jit::Value;

  /// Runs the function under the tracer, once for each set of inputs. Throws Error where LibTorch cannot
  /// record it, and where the runs differ in their operators.
  Recording(const Forward& forward, const Runs& runs, const std::vector<NamedState>& states);

  const torch::jit::Graph& graph() const { return *first_; }
  std::size_t inputs() const { return inputs_; }  ///< the graph's inputs behind these are the states

  Seen seen(const Value* value) const;                     ///< of a tensor
  std::vector<c10::IValue> constants(const Value*) const;  ///< at both; empty where it is none
  Number number(const Value* value) const;                 ///< an int that is constant

 private:
  std::shared_ptr<torch::jit::Graph> first_, second_;
  std::map<const Value*, const Value*> twins_;
  std::size_t inputs_ = 0;
};

}  // namespace crumb::libtorch
