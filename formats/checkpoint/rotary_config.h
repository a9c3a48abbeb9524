// Rotary position embeddings (RoPE, Su et al. 2021, arXiv:2104.09864) by the configuration of a Hugging Face
// checkpoint.
//
// The first `size` elements of a head are rotated: element k with element k + size / 2, by the angle p *
// frequencies[k] of position p (one float32 product); cosine and sine are multiplied by `factor`.
//
//   default   frequencies[k] = theta^(-2 k / size)
//   linear    that / factor
//   llama3    (Llama 3.1) with wavelength w = 2 pi / frequency and O = original_max_position_embeddings:
//             frequency / factor where w > O / low_freq_factor, unchanged where w < O / high_freq_factor,
//             between them
//             (1 - s) * frequency / factor + s * frequency with s = (O / w - low) / (high - low)
//   yarn      (Peng et al. 2023, arXiv:2309.00071) a ramp from the one to frequency / factor over k; factor
//             0.1 ln(f) + 1
//   longrope  (Ding et al. 2024, arXiv:2402.13753) frequency / short_factor[k], or / long_factor[k] for all
//             positions where the sequence is longer than O; factor sqrt(1 + ln(f) / ln(O)), f being how many
//             times longer contexts may be
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json/json_file.h"

namespace crumb {

struct RotaryEmbedding {
  std::vector<float> frequencies;       ///< size / 2
  std::vector<float> long_frequencies;  ///< of longrope; else empty
  std::size_t switch_at = 0;            ///< longer sequences take long_frequencies
  float factor = 1;
  double theta = 0;  ///< rope_theta

  bool operator==(const RotaryEmbedding&) const = default;
};

/// The defaults of a configuration that says nothing about rotations.
struct RotationDefaults {
  double theta = 10000;
  std::size_t size = 0;           ///< elements that are rotated; even
  std::size_t max_positions = 0;  ///< max_position_embeddings
};

/// `scaling` is the object "rope_scaling" or "rope_parameters" of the file, or null. Throws Error, which
/// names file and key, for a type that is not above and for missing or invalid parameters.
RotaryEmbedding parse_rotation(const JsonFile& file, const nlohmann::json* scaling,
                               const RotationDefaults& defaults);

}  // namespace crumb
