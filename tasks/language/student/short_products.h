// Computes products of float32 matrices as sums of shorter ones.
#pragma once

#include <ATen/Context.h>

#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// Does so during its lifetime, where the caller asks for it.
class ShortProducts {
 public:
  explicit ShortProducts(Products products) : backend_(backend_of(products)), before_(now()) {
    if (products == Products::kBfloat16) set(at::Float32Precision::BF16);
    if (products == Products::kTf32) set(at::Float32Precision::TF32);
  }
  ShortProducts(const ShortProducts&) = delete;
  ShortProducts& operator=(const ShortProducts&) = delete;
  ~ShortProducts() { set(before_); }

 private:
  static at::Float32Backend backend_of(Products products) {
    return products == Products::kTf32 ? at::Float32Backend::CUDA : at::Float32Backend::MKLDNN;
  }
  at::Float32Precision now() const {
    return at::globalContext().float32Precision(backend_, at::Float32Op::MATMUL);
  }
  void set(at::Float32Precision precision) const {
    at::globalContext().setFloat32Precision(backend_, at::Float32Op::MATMUL, precision);
  }

  at::Float32Backend backend_;
  at::Float32Precision before_;
};

}  // namespace crumb::tasks
