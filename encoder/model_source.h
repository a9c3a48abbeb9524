// Where a model's weights come from: a float checkpoint or a packed file, behind one WeightSource.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/linear.h"

namespace crumb::encoder {

/// Opens a Hugging Face folder, a safetensors file or a packed file. Throws Error naming what is wrong.
/// Matrices of a packed file stay packed. The source must outlive the matrices it gave.
std::unique_ptr<runtime::WeightSource> open_model(const std::filesystem::path& path);

}  // namespace crumb::encoder
