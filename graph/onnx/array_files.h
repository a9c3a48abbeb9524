// Reads tensors from NumPy's files and writes them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Reads an .npy file, or a TensorProto (.pb, as ONNX stores test data). Throws Error, which names the path.
Tensor read_array(const std::filesystem::path& path);

/// Writes an .npy file. Types that NumPy does not have are widened: floats to float32, integers to 8 bits.
void write_array(const std::filesystem::path& path, const Tensor& tensor);

/// Returns a value's name as a file name: characters that a file name cannot have become '_'.
std::string file_name_of(const std::string& value);

}  // namespace crumb::graph
