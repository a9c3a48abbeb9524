// Reads a low-rank adapter of either format, which the path tells: a folder of PEFT's
// (formats/adapters/peft.h), or a GGUF file of llama.cpp's (formats/adapters/gguf_adapter.h).
#pragma once

#include <cstddef>
#include <filesystem>

#include "formats/adapters/adapter.h"
#include "formats/adapters/base_copy.h"

namespace crumb {

/// `head_size`: elements of a head of the base model, which reading llama.cpp's adapters of some
/// architectures takes; 0 where that is not known. `check` compares what the adapter's file repeats of the
/// base; without it such a file is refused. Throws Error, which names the path and says what it is where it
/// is no adapter.
Adapter read_adapter(const std::filesystem::path& path, std::size_t head_size = 0,
                     const CheckCopy& check = {});

}  // namespace crumb
