// .crumb: blobs lie inside the file, the header prints back the same, every blob loads or says why not.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/checked_size.h"
#include "base/checksum.h"
#include "formats/crumb_file/crumb_file.h"
#include "quant/codes/code_layout.h"
#include "quant/packed/packed_check.h"
#include "quant/packed/packed_tensor.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_crumb.h"

namespace crumb::testing {
namespace {

constexpr std::uint64_t kMostFile = 1 << 20;
constexpr std::uint64_t kMostElements = 1 << 16;

/// That the preamble says, where it is one that is read.
std::uint32_t version_of(std::string_view file) { return file[8] == 1 ? 1 : kCrumbVersion; }

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kCrumbAlignment - 1) / kCrumbAlignment * kCrumbAlignment;
}

/// The number at `text[at...]`, after spaces.
std::uint64_t number_at(std::string_view text, std::size_t at) {
  at = std::min(text.find_first_not_of(' ', at), text.size());
  std::uint64_t number = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), number);
  return number;
}

/// The input with everything that a change would otherwise end at made right: lengths, offsets and the
/// preamble's checksums. What stood where a blob was follows it to its new place.
std::string made_consistent(std::string_view input) {
  if (input.size() < kCrumbPreamble) return {};
  const std::size_t last = input.find("]}\n", kCrumbPreamble);
  std::string header(
      input.substr(kCrumbPreamble, last == std::string_view::npos ? last : last + 3 - kCrumbPreamble));
  const std::uint64_t shift = aligned(kCrumbPreamble + header.size());
  std::uint64_t end = kCrumbPreamble + header.size();
  std::string blobs;
  for (std::size_t at = 0; (at = header.find("\"offset\":", at)) != std::string::npos;) {
    at += std::strlen("\"offset\":");
    const std::size_t comma = std::min(header.find(',', at), header.size());
    const std::uint64_t stored =
        number_at(header, header.find("\"stored\":", at) + std::strlen("\"stored\":"));
    const std::string offset = std::to_string(aligned(end));
    if (comma - at < offset.size() || stored > kMostFile || end > kMostFile) break;
    header.replace(at, comma - at, std::string(comma - at - offset.size(), ' ') + offset);
    end = aligned(end) + stored;
    blobs.resize(aligned(end - stored) - shift, '\0');
    if (const std::uint64_t from = end - stored; from < input.size()) blobs += input.substr(from, stored);
    blobs.resize(end - shift, '\0');
  }
  std::string file(kCrumbPreamble, '\0');
  file += header;
  if (!blobs.empty()) file.resize(shift, '\0');
  file += blobs;
  const auto preamble = write_crumb_preamble(header, file.size(), version_of(input));
  std::memcpy(file.data(), preamble.data(), preamble.size());
  return file;
}

/// The blob with the checksum of what lies there.
Blob with_checksum(Blob blob, std::span<const std::byte> file) {
  const auto stored = file.subspan(blob.offset, blob.stored);
  if (blob.crc_stored || blob.codec == Codec::kNone) {
    blob.crc = crc32_of(stored);
  } else if (blob.raw <= kMostFile) {
    blob.crc = 0;
    (void)is_ok(decompress(stored, blob.raw, "a blob", [&](std::span<const std::byte> slice) {
      blob.crc = crc32_of(slice, blob.crc);
      return Status();
    }));
  }
  return blob;
}

void check_blob(const CrumbFile& file, const Blob& blob) {
  if (blob.raw > kMostFile) return;
  std::string slices;
  const Status read = file.read_slices(blob, "a blob", [&](std::span<const std::byte> slice) {
    slices += text_of(slice);
    return Status();
  });
  const Result<BlobBytes> loaded = file.load(blob, "a blob");
  require(is_ok(loaded) == is_ok(read), "loading and reading in slices agree");
  if (!loaded.ok()) return;
  require(loaded.value().bytes().size() == blob.raw, "a blob has its raw size");
  require(text_of(loaded.value().bytes()) == slices, "slices are the blob");
}

void check_tensor(const CrumbFile& file, const PackedTensor& tensor) {
  const bool sound = is_ok(check_encoded(file, tensor));
  const auto size = require_ok(matrix_shape(tensor.shape), "a tensor has a shape").size();
  if (size > kMostElements) return;
  const Result<LoadedTensor> loaded = LoadedTensor::load(file, tensor);
  require(is_ok(loaded) || !sound, "a sound tensor loads");
  if (!loaded.ok()) return;
  std::vector<float> values(size);
  dequantize(loaded.value().view(), values, 1);
  if (!sound) return;
  const QuantizedView& view = loaded.value().view();
  for (std::uint64_t i = 0; i < (size == 0 ? 0 : view.layout.matrices); ++i) {
    std::vector<float> matrix(size / view.layout.matrices);
    dequantize(matrix_of(view, i), matrix, 1);
    require(std::memcmp(matrix.data(), values.data() + i * matrix.size(), matrix.size() * sizeof(float)) == 0,
            "a matrix of a stack has its values");
  }
  for (const CodeLayout codes : {CodeLayout::kRows, CodeLayout::kTiles}) {
    std::vector<float> again(size);
    const QuantizedTensor other = in_layout(view, "", codes, 1);
    dequantize(other.view(), again, 1);
    require(std::memcmp(again.data(), values.data(), size * sizeof(float)) == 0,
            "layouts have the same values");
  }
}

void check_consistent(std::span<const std::byte> bytes) {
  const Result<CrumbHeader> parsed = parse_crumb(bytes);
  if (!is_ok(parsed)) return;
  const CrumbHeader& header = parsed.value();
  std::uint64_t first_blob = 0;
  std::memcpy(&first_blob, &bytes[16], sizeof first_blob);
  first_blob += kCrumbPreamble;
  const std::string printed = write_crumb_header(header);
  const CrumbHeader again =
      require_ok(parse_crumb_header(bytes_of(printed), first_blob, bytes.size(), header.version),
                 "a printed header is read");
  require(write_crumb_header(again) == printed, "a header prints back the same");

  const MemoryFile memory(bytes);
  const CrumbFile file = require_ok(CrumbFile::open(memory.path()), "what parses opens");
  std::uint64_t end = first_blob;
  const auto visit = [&](Blob& blob) {
    require(blob.offset == aligned(end) && checked::fits(blob.offset, blob.stored, bytes.size()),
            "blobs lie in the file");
    end = blob.offset + blob.stored;
    blob = with_checksum(blob, bytes);
    check_blob(file, blob);
  };
  for (PackedTensor tensor : header.tensors) {
    require(file.find(tensor.name) != nullptr, "a tensor is found by its name");
    for (auto& part : tensor.parts)
      if (part) visit(*part);
    if (tensor.encoding) check_tensor(file, tensor);
  }
  for (PackedFile entry : header.files) visit(entry.blob);
  require(end == bytes.size(), "blobs end with the file");
  (void)is_ok(check_packed_file(file));
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  check_consistent(input);
  if (const std::string mended = made_consistent(text_of(input)); mended != text_of(input))
    check_consistent(bytes_of(mended));
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_packed_file, data, size, most, seed);
}
