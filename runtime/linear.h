// Products with weight matrices: what is behind a Matrix (float32 memory, packed codes) is not the network's business,
// so a float folder and a packed file run through one code path.
//
// All arrays are row-major and contiguous. A Matrix is immutable: calls on one object from several threads
// are safe, and the result of a call depends on nothing but its arguments.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace crumb::runtime {

/// A weight matrix W of rows() output features by cols() input features.
class Matrix {
 public:
  virtual ~Matrix() = default;

  virtual size_t rows() const = 0;
  virtual size_t cols() const = 0;

  /// y[batch, rows] = x[batch, cols] * W^T. A row of y depends on its own row of x only, bit for bit: the
  /// same vector gives the same answer in any batch. Sizes that do not fit throw Error.
  virtual void multiply(std::span<const float> x, size_t batch, std::span<float> y) const = 0;

  /// Writes row `row` as float32 values to `out` (cols() of them): an embedding table's look-up.
  virtual void gather_row(size_t row, std::span<float> out) const = 0;

 protected:
  /// The checks that every implementation of multiply and gather_row makes first.
  void check_multiply(size_t x_size, size_t batch, size_t y_size) const;
  void check_gather(size_t row, size_t out_size) const;
};

/// How FloatMatrix multiplies. Kernels differ by rounding only (a bound is derived in the tests).
enum class FloatKernel {
  kReference,  ///< scalar: one running sum per output, in index order; kept for ever
  kPortable,   ///< four lanes, on any processor
  kAvx2,       ///< AVX2 and FMA
};

/// The fastest kernel that this processor can run; found once.
FloatKernel best_float_kernel();
bool float_kernel_available(FloatKernel kernel);

/// float32 weights, owned or borrowed.
class FloatMatrix final : public Matrix {
 public:
  /// Owns its values. Throws Error when values.size() != rows * cols.
  FloatMatrix(size_t rows, size_t cols, std::vector<float> values);
  /// Borrows them: they must outlive the matrix.
  FloatMatrix(size_t rows, size_t cols, std::span<const float> values);

  // Immobile: values_ may point into owned_.
  FloatMatrix(const FloatMatrix&) = delete;
  FloatMatrix& operator=(const FloatMatrix&) = delete;

  size_t rows() const override { return rows_; }
  size_t cols() const override { return cols_; }
  std::span<const float> values() const { return values_; }

  void multiply(std::span<const float> x, size_t batch, std::span<float> y) const override;
  void gather_row(size_t row, std::span<float> out) const override;

  /// multiply with a kernel of the caller's choice, which must be available: for tests and timing.
  void multiply_with(FloatKernel kernel, std::span<const float> x, size_t batch, std::span<float> y) const;

 private:
  size_t rows_;
  size_t cols_;
  std::vector<float> owned_;
  std::span<const float> values_;
};

}  // namespace crumb::runtime
