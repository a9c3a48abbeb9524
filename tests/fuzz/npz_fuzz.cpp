// .npz archives; what is none is taken for one .npy member, and put into an archive.
#include "formats/npy/npz.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_arrays.h"
#include "tests/fuzz/hostile_zip.h"
#include "tests/fuzz/listing.h"
#include "tests/fuzz/zip_input.h"

namespace crumb::testing {
namespace {

void check(std::span<const std::byte> file) {
  check_zip(file);
  check_listing(file, list_npz(file));
}

/// Of the archive, or of an array by itself.
std::string hostile(std::string_view file, Random& random) {
  return file.starts_with("PK") ? hostile_zip(file, random) : hostile_npy(file, random);
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  if (text_of(input).starts_with("PK")) {
    check(input);
    if (const std::string mended = zip_made_consistent(text_of(input)); mended != text_of(input))
      check(bytes_of(mended));
    return;
  }
  const Result<TensorListing> alone = list_npy(input, "x");
  check_listing(input, alone);
  const std::string archive = zip_of({{"x.npy", text_of(input)}, {"y", "other"}});
  const Result<TensorListing> packed = list_npz(bytes_of(archive));
  check_listing(bytes_of(archive), packed);
  if (!alone.ok()) return;
  const TensorListing listing = require_ok(packed, "an array that reads alone reads in an archive");
  require(listing.skipped.size() == 1 && listing.tensors.size() == 1, "an archive lists its members");
  const StoredTensor &a = listing.tensors[0], &b = alone.value().tensors.at(0);
  require(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.place.strides == b.place.strides,
          "an array is the same alone and in an archive");
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile, data, size, most, seed);
}
