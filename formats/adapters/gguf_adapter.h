// Low-rank adapters of llama.cpp, each one GGUF file:
//
//   general.type "adapter", adapter.type "lora", general.architecture as the model's, adapter.lora.alpha
//   (f32)
//   NAME.lora_a [rank, in], NAME.lora_b [out, rank]   of the model's tensor NAME ("blk.3.attn_q.weight")
//
// The scale of each is alpha / rank, in float32, or 1 where alpha is 0 or missing. Modules get the names of
// the Hugging Face checkpoint that the model came from (formats/gguf/architecture.h). Where the model's rows
// of q and k are interleaved within heads, so are those of their lora_b. Reordering them takes the size of a
// head, which llama.cpp's own files do not state; Crumb writes it ("llama.attention.key_length"), which
// llama.cpp ignores.
//
// Refused by name: updates of embeddings, norms that are saved whole (which llama.cpp ignores silently),
// activated adapters, unknown architectures and tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"
#include "formats/adapters/adapter.h"
#include "formats/dtype.h"

namespace crumb {

/// `head_size`: elements of a head of the base model, 0 where that is not known. A Failure where it is needed
/// and neither given nor in the file, or where the two differ.
Result<Adapter> parse_gguf_adapter(std::span<const std::byte> file, std::size_t head_size = 0);

/// Throws Error, which names the path.
Adapter read_gguf_adapter(const std::filesystem::path& path, std::size_t head_size = 0);

struct GgufAdapterOptions {
  std::string model_type;       ///< of the base model's config.json: "llama", "mistral", "qwen3"
  std::size_t head_size = 0;    ///< of the base model; needed where rows of q and k are interleaved
  DType dtype = DType::kF32;    ///< F32, F16 or BF16, to which the matrices are rounded
  std::string base_model = {};  ///< its name; empty: Adapter::base, none where that is empty
};

/// Gives all updates one alpha, as GGUF needs: the one that fits the scales of most updates. The second
/// matrix of the others is multiplied by the rest, rounded to float32. Precondition: there are updates.
Adapter with_common_alpha(Adapter adapter);

/// Writes updates with a common alpha. Throws Error: check_adapter()'s; no updates; a module without a name
/// in GGUF; rows that are not whole heads; numbers beyond the type; those of OutputFile.
void write_gguf_adapter(const Adapter& adapter, const std::filesystem::path& path,
                        const GgufAdapterOptions& options);

}  // namespace crumb
