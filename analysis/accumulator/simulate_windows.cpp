// Which inputs meet a result's terms, and in which register.
#include <algorithm>
#include <map>
#include <mutex>

#include "analysis/accumulator/simulate.h"
#include "base/files/interrupt.h"
#include "base/threads/parallel.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::size_t kGrain = 64;  // rows, or places of a result
constexpr std::int64_t kAbsent = -1;

std::size_t product(std::span<const std::int64_t> sizes) {
  std::size_t all = 1;
  for (const std::int64_t size : sizes) all *= static_cast<std::size_t>(size);
  return all;
}

Ints place_of(std::size_t index, std::span<const std::int64_t> sizes) {
  Ints place(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {
    place[i] = static_cast<std::int64_t>(index % static_cast<std::size_t>(sizes[i]));
    index /= static_cast<std::size_t>(sizes[i]);
  }
  return place;
}

}  // namespace

/// For an output position, the inputs under the kernel's taps.
class SimulatedLayer::Windows {
 public:
  Windows(const SimulatedLayer& layer, const WindowSteps& steps)
      : transposed_(layer.kind_ == ProductLayer::Kind::kTransposed),
        steps_(steps),
        kernel_(layer.weight_shape_.begin() + (transposed_ ? 3 : 2), layer.weight_shape_.end()),
        taps_(product(kernel_)) {
    for (std::size_t tap = 0; tap < taps_; ++tap) tap_places_.push_back(place_of(tap, kernel_));
    for (std::size_t tap = 0; tap < taps_ && !layer.part_.empty(); ++tap) {
      Ints phase(kernel_.size());
      for (std::size_t i = 0; i < phase.size(); ++i) {
        phase[i] = tap_places_[tap][i] * steps.dilations[i] % steps.strides[i];
      }
      part_of_phase_.emplace(std::move(phase), layer.part_[tap]);
    }
    parts_ = layer.parts_.size();
  }

  std::size_t taps() const { return taps_; }

  /// Offsets into one channel of the input, kAbsent for padding and between strides; the part of the result.
  std::size_t look(std::size_t index, std::vector<std::int64_t>& offsets) const {
    const Ints place = place_of(index, steps_.output);
    offsets.assign(taps_, 0);
    for (std::size_t tap = 0; tap < taps_; ++tap) offsets[tap] = offset(place, tap_places_[tap]);
    if (part_of_phase_.empty()) return 0;
    Ints phase(place.size());
    for (std::size_t i = 0; i < phase.size(); ++i) {
      const std::int64_t stride = steps_.strides[i], at = (place[i] + steps_.begin[i]) % stride;
      phase[i] = at < 0 ? at + stride : at;
    }
    const auto found = part_of_phase_.find(phase);
    return found == part_of_phase_.end() ? parts_ : found->second;
  }

 private:
  std::int64_t offset(const Ints& place, const Ints& tap) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const std::int64_t reach = tap[i] * steps_.dilations[i], stride = steps_.strides[i];
      std::int64_t at = place[i] * stride - steps_.begin[i] + reach;
      if (transposed_) {
        const std::int64_t from = place[i] + steps_.begin[i] - reach;
        at = from >= 0 && from % stride == 0 ? from / stride : kAbsent;
      }
      if (at < 0 || at >= steps_.input[i]) return kAbsent;
      offset = offset * steps_.input[i] + at;
    }
    return offset;
  }

  bool transposed_;
  const WindowSteps& steps_;
  Ints kernel_;
  std::size_t taps_, parts_ = 0;
  std::vector<Ints> tap_places_;
  std::map<Ints, std::size_t> part_of_phase_;
};

void SimulatedLayer::run(std::size_t count, int threads, const Work& work) {
  std::mutex mutex;
  OverflowReport all;
  const auto merge = [](OverflowReport& into, const OverflowReport& piece) {
    into.results += piece.results;
    into.overflowed += piece.overflowed;
    into.additions += piece.additions;
  };
  parallel_for(count, kGrain, threads, [&](std::size_t begin, std::size_t end) {
    OverflowReport piece;
    for (std::size_t i = begin; i < end; ++i) {
      check_interrupt();
      work(i, piece);
    }
    const std::lock_guard lock(mutex);
    merge(all, piece);
    if (piece.first && (!all.first || piece.first->result < all.first->result)) all.first = piece.first;
  });
  merge(report_, all);
  if (!report_.first) report_.first = all.first;
}

void SimulatedLayer::multiply(std::span<const std::int64_t> inputs, std::size_t first, std::size_t channels,
                              std::span<std::int64_t> sums, int threads) {
  const std::size_t rows = channels == 0 ? 0 : sums.size() / channels;
  run(rows, threads, [&](std::size_t row, OverflowReport& report) {
    std::vector<std::int64_t> ordered(length_);
    for (std::size_t i = 0; i < length_; ++i) ordered[i] = inputs[row * length_ + order_[i]];
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t result = row * channels + c;
      sums[result] = sum(first + c, 0, ordered, result, report);
    }
  });
}

void SimulatedLayer::convolve(std::span<const std::int64_t> inputs, const WindowSteps& steps,
                              std::span<std::int64_t> sums, int threads) {
  const Windows windows(*this, steps);
  const std::size_t plane = product(steps.input), places = product(steps.output), taps = windows.taps();
  const std::size_t deep = taps == 0 ? 0 : length_ / taps, outputs = channels_ / groups_;
  if (places == 0 || channels_ == 0) return;
  const std::size_t samples = sums.size() / (channels_ * places);
  run(samples * places, threads, [&](std::size_t at, OverflowReport& report) {
    const std::size_t sample = at / places, place = at % places;
    std::vector<std::int64_t> offsets, ordered(length_);
    const std::size_t part = windows.look(place, offsets);
    for (std::size_t group = 0; group < groups_; ++group) {
      const std::size_t channel = (sample * groups_ + group) * deep;  // of the input, the group's first
      for (std::size_t i = 0; i < length_; ++i) {
        const std::int64_t offset = offsets[order_[i] % taps];
        const std::size_t from = (channel + order_[i] / taps) * plane;
        ordered[i] = offset == kAbsent ? 0 : inputs[from + static_cast<std::size_t>(offset)];
      }
      for (std::size_t c = group * outputs; c < (group + 1) * outputs; ++c) {
        const std::size_t result = (sample * channels_ + c) * places + place;
        sums[result] = sum(c, part, ordered, result, report);
      }
    }
  });
}

}  // namespace crumb::analysis
