// Processes that train one network together, each on a share of every step's samples, through LibTorch's own
// process group (c10d) over TCP (gloo). They find each other by what torchrun sets:
//
//   torchrun --no-python --nproc-per-node 2 crumb train lm ...
//
// They read RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment; without WORLD_SIZE, or with
// 1, a process is alone. GLOO_SOCKET_IFNAME names the network's interface where others cannot reach the
// machine by its own name.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace crumb::libtorch {

class Peers {
 public:
  /// Waits for the others. Throws usage Error where the environment is wrong or Crumb was built without
  /// gloo's headers, Error where the others do not come.
  static Peers of_environment();

  Peers(Peers&&) noexcept;
  ~Peers();

  int rank() const { return rank_; }
  int count() const { return count_; }
  bool is_first() const { return rank_ == 0; }
  bool is_alone() const { return count_ == 1; }

  /// Every element becomes the sum over all processes, with the same bits in all of them. All processes pass
  /// the same tensors in the same order: contiguous, of one type and device. Throws Error where another
  /// process is gone.
  void add_up(const std::vector<at::Tensor>& tensors) const;
  double add_up(double value) const;

  /// All processes get the tensors of the first one.
  void give_out(const std::vector<at::Tensor>& tensors) const;

 private:
  class Group;
  Peers();
  template <class Do>
  void in_portions(const std::vector<at::Tensor>& tensors, const Do& act) const;

  int rank_ = 0, count_ = 1;
  std::unique_ptr<Group> group_;
};

}  // namespace crumb::libtorch
