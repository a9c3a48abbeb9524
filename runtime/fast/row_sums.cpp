#include "runtime/fast/row_sums.h"

#include <algorithm>

#include "base/processor.h"

namespace crumb::runtime {

PlaneRows PlaneRows::of(const ByteRows& x, int bits) {
  PlaneRows made{.bits = bits, .rows = x.rows, .terms = x.terms, .stride = 0, .q = {}};
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

LaneBlocks LaneBlocks::of(const PlaneRows& x, std::size_t block) {
  LaneBlocks made;
  const bool is_one = block >= x.terms;
  const std::size_t of_block = is_one ? x.chunks() * kChunkLanes : block / x.terms_of_lane();
  if (of_block % kChunkLanes == 0) made.chunks = of_block / kChunkLanes;
  made.each = of_block / made.chunks;
  made.blocks = is_one ? 1 : (x.terms + block - 1) / block;
  return made;
}

void weighted_rows_ref(const PlaneRows& x, const PackedRows& w, float* made) {
  const auto bits = static_cast<std::size_t>(x.bits);
  const std::size_t planes = x.planes();
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t i = 0; i < kRowsTogether; ++i) {
      const std::uint8_t* const row = w.codes + i * w.stride;
      float total = 0;
      for (std::size_t k = 0, b = 0; k < x.terms; ++b) {
        const auto origin = static_cast<std::uint32_t>(w.blocks.origins ? w.blocks.origins[b * kTileRows + i]
                                                                        : w.blocks.least);
        std::uint32_t sum = static_cast<std::uint32_t>(w.sums[r * w.sums_stride + b]) * origin;
        for (const std::size_t end = std::min(x.terms, k + w.blocks.block); k < end; ++k) {
          std::size_t code = 0;
          for (std::size_t bit = k * bits; bit < (k + 1) * bits; ++bit)
            code |= static_cast<std::size_t>((row[bit / 8] >> bit % 8) & 1) << (bit - k * bits);
          const std::size_t chunk = k / (planes * kChunkBytes), byte = k / planes % kChunkBytes;
          const std::int8_t q = x.q[r * x.stride + (chunk * planes + k % planes) * kChunkBytes + byte];
          sum += static_cast<std::uint32_t>(q * w.levels->above[code]);
        }
        const float weighted =
            static_cast<float>(static_cast<std::int32_t>(sum)) * w.blocks.scales[b * kTileRows + i];
        total += weighted;
      }
      made[r * kRowsTogether + i] = total;
    }
  }
}

void weighted_rows(const PlaneRows& x, const PackedRows& w, float* made) {
  if (may_use(Isa::kVnni)) return weighted_rows_vnni(x, w, made);
  if (may_use(Isa::kAvx2)) return weighted_rows_avx2(x, w, made);
  weighted_rows_ref(x, w, made);
}

}  // namespace crumb::runtime
