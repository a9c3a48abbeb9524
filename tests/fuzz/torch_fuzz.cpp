// PyTorch checkpoints; what is no archive is taken for a pickle, and put into one with a few storages.
#include "formats/torch_pickle/torch_pickle.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_zip.h"
#include "tests/fuzz/listing.h"
#include "tests/fuzz/zip_input.h"

namespace crumb::testing {
namespace {

void check(std::span<const std::byte> file) {
  check_zip(file);
  check_listing(file, list_torch_checkpoint(file));
  check_listing(file, list_torch_checkpoint(file, {.key = "model"}));
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  (void)looks_like_old_torch(input);
  if (text_of(input).starts_with("PK")) {
    check(input);
    if (const std::string mended = zip_made_consistent(text_of(input)); mended != text_of(input))
      check(bytes_of(mended));
    return;
  }
  // The storages that the seeds' pickles expect (make_corpus.py).
  static const std::string kStorage(64, '\x3C');
  const std::string_view storage = kStorage;
  check(bytes_of(zip_of({{"a/data.pkl", text_of(input)},
                         {"a/byteorder", "little"},
                         {"a/data/0", storage.substr(0, 24)},
                         {"a/data/1", storage.substr(0, 8)},
                         {"a/data/2", storage},
                         {"a/data/3", storage.substr(0, 3)},
                         {"a/data/4", storage.substr(0, 2)},
                         {"a/data/5", ""},
                         {"a/version", "3\n"}})));
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_zip, data, size, most, seed);
}
