// A format of packed weights without codes of its own: blocks of R x C weights that decode as a whole, as
// those of textures do.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/row_source.h"

namespace crumb::testing {

/// Blocks of `height` x `width` weights from the left and the top; those at the right and the bottom reach
/// beyond the matrix. A block is its least value, the step between levels, and a level of 4 bits a weight:
/// least + level * step.
class BlockRows final : public RowSource {
 public:
  BlockRows(uint64_t rows, uint64_t cols, uint64_t height, uint64_t width, std::span<const float> values)
      : rows_(rows), cols_(cols), height_(height), width_(width), across_((cols + width - 1) / width) {
    for (uint64_t top = 0; top < rows; top += height) {
      for (uint64_t left = 0; left < cols; left += width) encode(top, left, values);
    }
  }

  uint64_t rows() const override { return rows_; }
  uint64_t cols() const override { return cols_; }
  uint64_t rows_together() const override { return height_; }
  uint64_t bytes() const override {
    uint64_t all = 0;
    for (const Block& block : blocks_) all += 2 * sizeof(float) + block.levels.size();
    return all;
  }
  void decode(uint64_t first, std::span<float> out) const override {
    if (cols_ == 0) return;
    const uint64_t end = first + out.size() / cols_;
    std::vector<float> whole(height_ * width_);
    for (uint64_t top = first / height_ * height_; top < end; top += height_) {
      for (uint64_t left = 0; left < cols_; left += width_) {
        decode_block(blocks_[top / height_ * across_ + left / width_], whole);
        for (uint64_t row = std::max(first, top); row < std::min(end, top + height_); ++row) {
          std::copy_n(whole.begin() + static_cast<ptrdiff_t>((row - top) * width_),
                      std::min(width_, cols_ - left),
                      out.begin() + static_cast<ptrdiff_t>((row - first) * cols_ + left));
        }
      }
    }
  }

  /// Blocks that were decoded so far.
  uint64_t decoded() const { return decoded_; }
  uint64_t blocks() const { return blocks_.size(); }

  std::vector<float> values() const {
    std::vector<float> all(rows_ * cols_);
    decode(0, all);
    return all;
  }

 private:
  struct Block {
    float least = 0, step = 0;
    std::vector<uint8_t> levels;  ///< two a byte
  };

  void encode(uint64_t top, uint64_t left, std::span<const float> values) {
    const auto value = [&](uint64_t i) {
      return values[std::min(top + i / width_, rows_ - 1) * cols_ + std::min(left + i % width_, cols_ - 1)];
    };
    Block& block = blocks_.emplace_back();
    float most = block.least = value(0);
    for (uint64_t i = 0; i < height_ * width_; ++i) {
      block.least = std::min(block.least, value(i));
      most = std::max(most, value(i));
    }
    block.step = (most - block.least) / 15;
    block.levels.resize((height_ * width_ + 1) / 2);
    for (uint64_t i = 0; i < height_ * width_; ++i) {
      const float level = block.step > 0 ? (value(i) - block.least) / block.step : 0;
      block.levels[i / 2] |=
          static_cast<uint8_t>(static_cast<unsigned>(std::min(level, 15.0F)) << (i % 2 * 4));
    }
  }

  void decode_block(const Block& block, std::vector<float>& whole) const {
    ++decoded_;
    for (uint64_t i = 0; i < whole.size(); ++i) {
      const auto level = static_cast<float>(block.levels[i / 2] >> (i % 2 * 4) & 15);
      whole[i] = block.least + level * block.step;
    }
  }

  uint64_t rows_, cols_, height_, width_, across_;
  std::vector<Block> blocks_;
  mutable std::atomic<uint64_t> decoded_{0};
};

}  // namespace crumb::testing
