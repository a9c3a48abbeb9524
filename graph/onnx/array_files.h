// Tensors from and to NumPy's files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// The array of an .npy file, or a TensorProto (.pb, as ONNX keeps test data). Throws Error naming the path.
Tensor read_array(const std::filesystem::path& path);

/// Writes an .npy; types that NumPy has not are widened: floats to float32, integers to 8 bits.
void write_array(const std::filesystem::path& path, const Tensor& tensor);

/// A value's name as a file name: what cannot stand there becomes '_'.
std::string file_name_of(const std::string& value);

}  // namespace crumb::graph
