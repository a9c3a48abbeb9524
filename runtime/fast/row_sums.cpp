#include "runtime/fast/row_sums.h"

#include <algorithm>

#include "base/processor.h"

namespace crumb::runtime {

PlaneRows PlaneRows::of(const ByteRows& x, int bits) {
  PlaneRows made{.bits = bits, .rows = x.rows, .stride = 0, .q = {}};
  const std::size_t planes = made.planes(), terms = planes * kChunkBytes;
  made.stride = (x.terms + terms - 1) / terms * terms;
  made.q.assign(made.rows * made.stride, 0);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const std::int8_t* const from = x.row(r);
    std::int8_t* const to = made.q.data() + r * made.stride;
    for (std::size_t chunk = 0; chunk < x.terms; chunk += terms) {
      const std::size_t count = std::min(terms, x.terms - chunk);
      for (std::size_t p = 0; p < planes; ++p) {
        std::int8_t* const plane = to + chunk + p * kChunkBytes;
        for (std::size_t i = 0, k = p; k < count; ++i, k += planes) plane[i] = from[chunk + k];
      }
    }
  }
  return made;
}

void lane_sums_ref(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  const std::size_t planes = x.planes(), terms = planes * kChunkBytes;
  for (std::size_t n = 0; n < w.rows; ++n) {
    for (std::size_t r = 0; r < x.rows; ++r) {
      std::int32_t* const to = lanes.at + r * lanes.x_stride + n * lanes.row_stride;
      std::fill_n(to, x.chunks() * kChunkLanes, 0);
      for (std::size_t at = 0; at < w.bytes; ++at) {
        for (std::size_t p = 0; p < planes; ++p) {
          const int code =
              (w.codes[n * w.stride + at] >> (p * static_cast<std::size_t>(x.bits))) & ((1 << x.bits) - 1);
          const int above = w.levels ? w.levels->above[static_cast<std::size_t>(code)] : code;
          const std::int8_t q =
              x.q[r * x.stride + at / kChunkBytes * terms + p * kChunkBytes + at % kChunkBytes];
          to[at / 4] += q * above;
        }
      }
    }
  }
}

void lane_sums(const PlaneRows& x, const PackedRows& w, const Lanes& lanes) {
  if (may_use(Isa::kVnni)) return lane_sums_vnni(x, w, lanes);
  if (may_use(Isa::kAvx2)) return lane_sums_avx2(x, w, lanes);
  lane_sums_ref(x, w, lanes);
}

void add_lanes_ref(const std::int32_t* lanes, std::size_t count, std::size_t each, std::int32_t* sums) {
  for (std::size_t b = 0; b < count / each; ++b) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < each; ++i) sum += lanes[b * each + i];
    sums[b] = sum;
  }
}

void add_lanes(std::int32_t* lanes, std::size_t count, std::size_t each, std::int32_t* sums) {
  if (may_use(Isa::kAvx2)) return add_lanes_avx2(lanes, count, each, sums);
  add_lanes_ref(lanes, count, each, sums);
}

void weighted_sums_ref(const std::int32_t* sums, const std::int32_t* starts, const float* scales,
                       std::size_t rows, std::size_t count, float* made) {
  for (std::size_t r = 0; r < rows; ++r) {
    made[r] = 0;
    for (std::size_t b = 0; b < count; ++b) {
      const float weighted = static_cast<float>(sums[r * count + b] + starts[b]) * scales[r * count + b];
      made[r] += weighted;
    }
  }
}

void weighted_sums(const std::int32_t* sums, const std::int32_t* starts, const float* scales,
                   std::size_t rows, std::size_t count, float* made) {
  if (may_use(Isa::kAvx2)) return weighted_sums_avx2(sums, starts, scales, rows, count, made);
  weighted_sums_ref(sums, starts, scales, rows, count, made);
}

}  // namespace crumb::runtime
