#include "runtime/ops/spread_image.h"

#include <algorithm>

#include "runtime/exact/term_products.h"
#include "runtime/ops/movement.h"
#include "runtime/phase_taps.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace crumb::runtime {
namespace {

/// Floats of a cache line. Channels are an odd number of them apart, or they would displace each other.
constexpr std::size_t kLine = 16;

/// Copies every second element, `count` of them.
void copy_every_second(const float* from, std::size_t count, float* to) {
  std::size_t i = 0;
#if defined(__x86_64__)
  constexpr std::size_t kStep = 8;
  for (; i + kStep < count; i += kStep) {  // reads one element behind the last that it takes
    const float* const at = from + 2 * i;
    const __m128 low = _mm_shuffle_ps(_mm_loadu_ps(at), _mm_loadu_ps(at + 4), 0x88);
    const __m128 high = _mm_shuffle_ps(_mm_loadu_ps(at + 8), _mm_loadu_ps(at + 12), 0x88);
    _mm_storeu_ps(to + i, low);
    _mm_storeu_ps(to + i + 4, high);
  }
#endif
  for (; i < count; ++i) to[i] = from[2 * i];
}

/// Copies neighbours; a call of memmove takes longer than a short row.
void copy_row(const float* from, std::size_t count, float* to) {
#if defined(__x86_64__)
  constexpr std::size_t kShort = 64, kStep = 4;
  if (count >= kStep && count <= kShort) {
    for (std::size_t i = 0; i + kStep < count; i += kStep) _mm_storeu_ps(to + i, _mm_loadu_ps(from + i));
    return _mm_storeu_ps(to + count - kStep, _mm_loadu_ps(from + count - kStep));
  }
#endif
  std::copy_n(from, count, to);
}

/// Copies `count` elements that are `apart`.
void copy_apart(const float* from, std::size_t count, std::size_t apart, float* to) {
  if (apart == 1) {
    copy_row(from, count, to);
  } else if (apart == 2) {
    copy_every_second(from, count, to);
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = from[apart * i];
  }
}

/// The indices c in [0, size) for which c * stride + shift is in [0, elements): [first, end).
struct Inside {
  std::int64_t first, end;
  Inside(std::int64_t size, std::int64_t stride, std::int64_t shift, std::int64_t elements) {
    first = shift >= 0 ? 0 : std::min(size, (-shift + stride - 1) / stride);
    end = shift >= elements ? first : std::max(first, std::min(size, (elements - 1 - shift) / stride + 1));
  }
};

}  // namespace

SpreadImage::SpreadImage(const Windows& windows, std::size_t channels)
    : windows_(windows), channels_(channels), steps_(windows.axes()) {
  const std::size_t axes = windows.axes();
  is_image_ = is_image(windows);
  std::size_t phases = 1, plane = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    Ints& taken = phases_.emplace_back();
    for (std::int64_t k = 0; k < windows.kernel[i]; ++k)
      taken.push_back(k * windows.dilations[i] % windows.strides[i]);
    std::ranges::sort(taken);
    taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
    phases *= taken.size();
    spread_.push_back(windows.output[i] +
                      (windows.kernel[i] - 1) * windows.dilations[i] / windows.strides[i]);
  }
  const Ints within = strides_of(is_image_ ? windows.input : spread_);
  for (std::size_t i = axes; i-- > 0;) {
    plane *= static_cast<std::size_t>(spread_[i]);
    steps_[i] = static_cast<std::size_t>(within[i] * (is_image_ ? windows.strides[i] : 1));
  }
  channel_ = is_image_ ? windows.elements() : phases * plane;
  if (!is_image_ && channels > 1) channel_ = (channel_ + kLine - 1) / kLine * kLine | kLine;
  place_taps(within, plane);
  if (is_image_) return;
  Ints counts(axes), index(axes), phase(axes);
  for (std::size_t i = 0; i < axes; ++i) counts[i] = static_cast<std::int64_t>(phases_[i].size());
  std::size_t at = 0;
  do {
    for (std::size_t i = 0; i < axes; ++i) phase[i] = phases_[i][static_cast<std::size_t>(index[i])];
    plan_rows(phase, at);
    at += plane;
  } while (next_index(index, counts));
}

bool SpreadImage::is_image(const Windows& w) {
  if (w.strides.back() != 1) return false;
  for (std::size_t i = 0; i < w.axes(); ++i) {
    const std::int64_t farthest =
        (w.output[i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] - w.begin[i];
    if (w.begin[i] > 0 || farthest >= w.input[i]) return false;
  }
  return true;
}

void SpreadImage::place_taps(const Ints& within, std::size_t plane) {
  const std::size_t axes = windows_.axes();
  Ints k(axes);
  std::vector<std::size_t> taps;
  do {
    std::int64_t phase = 0, at = 0;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t reach = k[i] * windows_.dilations[i], stride = windows_.strides[i];
      const auto found = std::ranges::find(phases_[i], reach % stride) - phases_[i].begin();
      phase = phase * static_cast<std::int64_t>(phases_[i].size()) + found;
      at += within[i] * (is_image_ ? reach - windows_.begin[i] : reach / stride);
    }
    taps.push_back(static_cast<std::size_t>(at) + (is_image_ ? 0 : static_cast<std::size_t>(phase) * plane));
  } while (next_index(k, windows_.kernel));
  const std::size_t terms = channels_ * taps.size();
  offsets_.resize(terms);
  for (std::size_t t = 0; t < terms; ++t)
    offsets_[exact::place_of_term(t, terms)] = t / taps.size() * channel_ + taps[t % taps.size()];
}

void SpreadImage::write(const float* x, float* to) const {
  const std::size_t elements = windows_.elements();
  const auto apart = static_cast<std::size_t>(windows_.strides.back());
  for (std::size_t c = 0; c < channels_; ++c, x += elements, to += channel_)
    for (const Row& row : rows_) copy_apart(x + row.from, row.count, apart, to + row.to);
}

/// The rows of one phase of each axis, which begins at `plane` in a channel's copy.
void SpreadImage::plan_rows(const Ints& phase, std::size_t plane) {
  const std::size_t last = windows_.axes() - 1;
  const auto inside = [&](std::size_t i) {
    return Inside(spread_[i], windows_.strides[i], phase[i] - windows_.begin[i], windows_.input[i]);
  };
  const Inside columns = inside(last);
  const auto count = static_cast<std::size_t>(columns.end - columns.first);
  if (count == 0) return;
  // Rows are those of the axes before the last one: [lowest, lowest + sizes).
  const Ints from = strides_of(windows_.input), at = strides_of(spread_);
  Ints sizes(last), row(last);
  std::int64_t source = columns.first * windows_.strides[last] + phase[last] - windows_.begin[last];
  std::int64_t target = columns.first;
  for (std::size_t i = 0; i < last; ++i) {
    const Inside rows = inside(i);
    if (rows.end == rows.first) return;
    sizes[i] = rows.end - rows.first;
    source += (rows.first * windows_.strides[i] + phase[i] - windows_.begin[i]) * from[i];
    target += rows.first * at[i];
  }
  do {
    std::int64_t x_at = source, to_at = target;
    for (std::size_t i = 0; i < last; ++i) {
      x_at += row[i] * windows_.strides[i] * from[i];
      to_at += row[i] * at[i];
    }
    rows_.push_back({static_cast<std::size_t>(x_at), plane + static_cast<std::size_t>(to_at), count});
  } while (next_index(row, sizes));
}

}  // namespace crumb::runtime
