// What of a decoder's files goes into GGUF's metadata, and whether what came out of a GGUF file is the same
// decoder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint/decoder_config.h"
#include "formats/gguf/architecture.h"
#include "formats/gguf/gguf_metadata.h"
#include "formats/gguf/writer.h"
#include "quant/tensor_source.h"

namespace crumb::exporting {

/// A source's small files, empty where it has none of the name.
std::string file_text(const TensorSource& source, const std::string& path);

struct GgufNetwork {
  const GgufArchitecture* architecture = nullptr;
  DecoderConfig config;
  std::vector<GgufPair> metadata;
  std::vector<RopeTensor> rope_tensors;
  std::vector<std::string> notes;
};

/// Throws Error on what to_gguf.h says of architectures and tokenizers.
GgufNetwork read_network_for_gguf(const TensorSource& source);

/// Throws Error that says which setting of the decoder GGUF, read back, does not have as it was. Frequencies
/// may differ by rounding.
void expect_same_decoder(const DecoderConfig& meant, const DecoderConfig& found);

}  // namespace crumb::exporting
