// Products of float32 matrices as sums of bfloat16 ones.
#pragma once

#include <ATen/Context.h>

#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// While it lives, where that is asked for.
class ShortProducts {
 public:
  explicit ShortProducts(Products products) {
    if (products == Products::kBfloat16) set(at::Float32Precision::BF16);
  }
  ShortProducts(const ShortProducts&) = delete;
  ShortProducts& operator=(const ShortProducts&) = delete;
  ~ShortProducts() { set(before_); }

 private:
  static void set(at::Float32Precision precision) {
    at::globalContext().setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, precision);
  }

  at::Float32Precision before_ =
      at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
};

}  // namespace crumb::tasks
