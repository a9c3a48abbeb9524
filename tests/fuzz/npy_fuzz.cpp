// .npy: the array lies inside the file, and the header that we write for it reads back the same.
#include <algorithm>

#include "formats/npy/npy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_arrays.h"

namespace crumb::testing {
namespace {

void check(std::span<const std::byte> file) {
  const Result<NpyHeader> parsed = parse_npy_header(file);
  (void)is_ok(parse_npy(file));
  if (!is_ok(parsed)) return;
  const NpyHeader& header = parsed.value();
  require(looks_like_npy(file), "what parses looks like .npy");
  require(header.data_offset <= file.size() && header.data_bytes <= file.size() - header.data_offset,
          "the array lies inside the file");
  require(is_exact_size(header.dtype, header.shape, header.data_bytes),
          "the array's bytes are what its shape takes");

  const NpyArray array =
      require_ok(parse_npy(file.first(header.data_offset + header.data_bytes)), "the array is read");
  require(
      array.dtype == header.dtype && array.shape == header.shape && array.data.size() == header.data_bytes,
      "the array is what the header says");
  if (array.dtype != DType::kC64) (void)array.to_floats();
  std::string again = npy_header(array.dtype, array.shape);
  require(again.size() % 64 == 0, "data begins at a multiple of 64");
  again += text_of(array.data);
  const NpyArray same = require_ok(parse_npy(bytes_of(again)), "what was written is read");
  require(same.dtype == array.dtype && same.shape == array.shape && same.data == array.data,
          "an array reads back the same");
}

/// The input with a header length that reaches to its first line's end, and 512 bytes of data at least.
std::string made_consistent(std::string_view input) {
  std::string file(input);
  if (file.size() < 12) return file;
  const std::size_t text = file[6] == '\1' ? 10 : 12;
  const std::size_t length = std::min(file.find('\n', text), file.size() - 1) + 1 - text;
  for (std::size_t i = 8; i < text; ++i) file[i] = static_cast<char>(length >> (8 * (i - 8)) & 255u);
  file.resize(std::max(file.size(), text + length + 512), '\x5A');
  return file;
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  check(input);
  if (const std::string mended = made_consistent(text_of(input)); mended != text_of(input))
    check(bytes_of(mended));
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_npy, data, size, most, seed);
}
