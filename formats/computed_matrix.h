// A tensor without a storage of its own: a matrix whose values are computed from several tensors, as in
// checkpoints that other tools quantized (formats/checkpoint/quantized). formats/checkpoint/tensor_reader.h
// reads it like any other, a tile at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace crumb {

/// A part of a matrix.
struct MatrixTile {
  std::uint64_t row = 0, rows = 0;
  std::uint64_t col = 0, cols = 0;

  std::uint64_t size() const { return rows * cols; }
  bool holds(std::uint64_t r, std::uint64_t c) const {
    return r >= row && r - row < rows && c >= col && c - col < cols;
  }
};

/// Thread-safe.
class ComputedMatrix {
 public:
  virtual ~ComputedMatrix() = default;

  /// Reads the tile's values, row-major; out.size() is tile.size(). Tiles are inside the matrix and begin at
  /// columns that are multiples of kTileStep; where they have several rows, at such rows too. A Failure says
  /// what was wrong with the bytes.
  virtual Status read(const MatrixTile& tile, std::span<float> out) const = 0;

  static constexpr std::uint64_t kTileStep = 32;

  /// For people: "int4:group=32", "e4m3fn".
  virtual std::string stored_as() const = 0;
};

}  // namespace crumb
