// Images in which each term of a convolution is a run of positions, so that no windows are written.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/ops/windows.h"

namespace crumb::runtime {

/// A copy of an image with its padding around it, in which the elements that are a stride apart are
/// neighbours. Term t of the output at index (i, j, ...) is at
///   offsets()[exact::place_of_term(t, ...)] + i * step(0) + j * step(1) + ...,
/// where step() of the last axis is 1. Where there are neither padding nor strides on the last axis, the
/// image itself has that form, and nothing is copied.
class SpreadImage {
 public:
  /// Precondition: the windows have a position.
  SpreadImage(const Windows& windows, std::size_t channels);

  /// Whether the image itself has the form.
  static bool is_image(const Windows& windows);
  bool is_image() const { return is_image_; }
  std::size_t step(std::size_t axis) const { return steps_[axis]; }
  const std::vector<std::size_t>& offsets() const { return offsets_; }

  /// Floats of the copy; none where is_image().
  std::size_t size() const { return is_image_ ? 0 : channels_ * channel_; }
  /// Writes the channels. Padding is not written: `to` held zeros before, or another image of such windows.
  void write(const float* x, float* to) const;

 private:
  void place_taps(const Ints& within, std::size_t plane);
  void plan_rows(const Ints& phase, std::size_t plane);

  /// A row of a channel: `count` elements that are as far apart as the stride, to neighbours.
  struct Row {
    std::size_t from, to, count;
  };

  Windows windows_;
  std::size_t channels_, channel_ = 0;  ///< their number; floats of each
  std::vector<std::size_t> steps_, offsets_;
  std::vector<Ints> phases_;  ///< by axis, those of the stride that some tap takes
  Ints spread_;               ///< sizes of a phase
  std::vector<Row> rows_;     ///< of a channel
  bool is_image_ = false;
};

}  // namespace crumb::runtime
