// NumPy's archives (.npz): a zip (stored or deflated) of members NAME.npy, each an array file (npy.h). And
// both NumPy files as lists of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/npy/npy.h"
#include "formats/stored_tensor.h"

namespace crumb {

/// The arrays of an archive, named without ".npy". A member that is no .npy, or whose type Crumb does not
/// have (objects, strings, records, complex128), is skipped and listed with what it is.
Result<TensorListing> list_npz(std::span<const std::byte> file);

/// The one array of an .npy file, under the name given (the file's stem). Either byte order, C or Fortran.
Result<TensorListing> list_npy(std::span<const std::byte> file, std::string_view name);

/// An array to write: little-endian, row-major.
struct NamedArray {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> data;
};

/// Writes an archive atomically (OutputFile), deflated where asked. The same input gives the same bytes (the
/// zip's dates are 1980-01-01). Throws crumb::Error for types that numpy does not have, and duplicate names.
void write_npz(const std::filesystem::path& path, std::span<const NamedArray> arrays, bool deflate = false);

}  // namespace crumb
