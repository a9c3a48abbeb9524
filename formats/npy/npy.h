// NumPy's array file (.npy), versions 1.0, 2.0 and 3.0.
//
// Layout: "\x93NUMPY", major and minor version, the header's length (16 bits little-endian in version 1, 32
// bits after), the header, the data. The header is a Python dict literal
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// padded with spaces and ended by a newline so that the data begins at a multiple of 64 (our writer; readers
// take any length). Read: booleans, integers and floats of one number each, and complex64, in either byte
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/dtype.h"

namespace crumb {

/// The most axes that numpy's arrays can have.
inline constexpr std::size_t kMaxNpyRank = 64;

struct NpyHeader {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
  std::uint64_t data_offset = 0;  ///< of the first element, from the start of the file
  std::uint64_t data_bytes = 0;
  /// What the array holds where Crumb has no such type: "Python objects ('|O')". Of the other members only
  /// data_offset is valid then.
  std::string foreign;
};

/// An array in row-major order and little-endian, whatever the file had.
struct NpyArray {
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> data;

  /// The elements as float32 (widen_to_float; throws for complex64).
  std::vector<float> to_floats() const;
};

/// Whether a file begins as .npy files do (6 bytes are enough).
bool looks_like_npy(std::span<const std::byte> start);

/// The number of bytes before the data, from the first kNpyStart bytes of a file of `total` bytes (or from
/// all of a shorter one).
inline constexpr std::size_t kNpyStart = 12;
Result<std::uint64_t> npy_header_bytes(std::span<const std::byte> start, std::uint64_t total);

/// Checks the header at the start of a file of `total` bytes, and that the file ends where the array does.
/// `start` holds npy_header_bytes() or more. Types that Crumb does not have are no Failure:
/// NpyHeader::foreign says them.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> start, std::uint64_t total);

/// The same for a whole file; types that Crumb does not have are a Failure.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> file);

/// A whole file's one array. Bytes after it are an error. Takes the memory of the data once.
Result<NpyArray> parse_npy(std::span<const std::byte> file);

/// Reads a file, whose path begins the message of a Failure.
Result<NpyArray> read_npy(const std::filesystem::path& path);

/// Everything before the data, version 1.0, for little-endian row-major data. Throws crumb::Error for types
/// that numpy does not have and more than kMaxNpyRank axes.
std::string npy_header(DType dtype, std::span<const std::uint64_t> shape);

/// Writes one array, little-endian and row-major, atomically (OutputFile). Throws crumb::Error, also where
/// data.size() is not what the shape takes and for types that numpy does not have.
void write_npy(const std::filesystem::path& path, DType dtype, std::span<const std::uint64_t> shape,
               std::span<const std::byte> data);

/// The same for float32 [rows, cols].
void write_npy(const std::filesystem::path& path, std::span<const float> values, std::uint64_t rows,
               std::uint64_t cols);

}  // namespace crumb
