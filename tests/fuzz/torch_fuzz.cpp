// PyTorch checkpoints. What is neither an archive nor a stream is taken for a pickle: it is put into an
// archive with a few storages, and into a stream with those that it names.
#include <map>
#include <string>

#include "formats/torch_pickle/torch_pickle.h"
#include "formats/torch_pickle/torch_stream.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_zip.h"
#include "tests/fuzz/listing.h"
#include "tests/fuzz/zip_input.h"

namespace crumb::testing {
namespace {

void check_lists(std::span<const std::byte> file) {
  check_listing(file, list_torch_checkpoint(file));
  check_listing(file, list_torch_checkpoint(file, {.key = "model"}));
}

void check(std::span<const std::byte> file) {
  check_zip(file);
  check_lists(file);
}

std::string little_endian(std::uint64_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 255u);
  return text;
}

/// The object with the storages that it names, where they are small, as torch.save would write them.
std::string stream_of(std::span<const std::byte> object) {
  constexpr std::uint64_t kMostBytes = 256, kMostStorages = 64;
  std::string stream("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.");
  stream += text_of(object);
  std::map<std::string, TorchStorageId> storages;
  if (const Result<PickleTree> read = read_leading_pickle(object, find_torch_global); read.ok()) {
    const PickleTree& tree = read.value();
    for (PickleId id = 0; id < tree.node_count() && storages.size() < kMostStorages; ++id) {
      if (!tree.is(id, PickleKind::kPersistent)) continue;
      const Result<TorchStorageId> storage = read_storage_id(tree, id, 6);
      if (storage.ok() && storage.value().bytes <= kMostBytes && storage.value().key.size() < 256)
        storages.emplace(storage.value().key, storage.value());
    }
  }
  std::string list = "\x80\x02](", bytes;
  for (const auto& [key, storage] : storages) {
    list += "U" + little_endian(key.size(), 1) + key;
    bytes += little_endian(storage.count, 8) + std::string(storage.bytes, '\x3C');
  }
  return stream + list + "e." + bytes;
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  (void)unread_torch_form(input);
  if (looks_like_torch_stream(input)) return check_lists(input);
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
  const std::string stream = stream_of(input);
  check_lists(bytes_of(stream));
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_zip, data, size, most, seed);
}
