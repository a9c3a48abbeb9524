// The stream that torch.save wrote before version 1.6, and still does with
// _use_new_zipfile_serialization=False:
//
//   four pickles: the number 0x1950a86a20f9469cfc6c; the version 1001; a dictionary that describes the
//     system; the saved object, with persistent ids ('storage', TYPE, KEY, DEVICE, elements, VIEW), where
//     VIEW is None or (KEY, first element, elements) of a part
//   a pickled list of storage keys
//   for each key a count of elements, in 64 bits, and the elements, all little-endian
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/torch_pickle/pickle.h"
#include "formats/torch_pickle/torch_storages.h"

namespace crumb {

/// Whether a file begins with the pickled number (32 bytes are enough to tell).
bool looks_like_torch_stream(std::span<const std::byte> start);

class TorchStream final : public TorchStorages {
 public:
  /// `file` must outlive this. A Failure names where in the file it is cut short or damaged, or what a pickle
  /// asks for that is not on the allow-list; storages of the object that two places describe differently, or
  /// that the list has twice; and bytes behind the last storage. Precondition: looks_like_torch_stream(file).
  static Result<TorchStream> open(std::span<const std::byte> file);

  /// The saved object.
  const PickleTree& tree() const { return tree_; }

  bool big_endian() const override { return false; }
  std::uint32_t id_size() const override { return kIdSize; }
  Result<TorchStoragePlace> storage(std::string_view key) const override;

 private:
  static constexpr std::uint32_t kIdSize = 6;

  /// A storage as the object describes it, and where the file holds it.
  struct Held {
    TorchStorageId id;
    std::uint64_t offset = 0;
    bool is_placed = false;
  };

  Status collect_storages();
  Status add_id(const TorchStorageId& id);
  Status place_storages(std::span<const std::byte> file, const std::vector<std::string_view>& keys,
                        std::uint64_t at);

  PickleTree tree_;
  std::map<std::string_view, Held> storages_;         ///< by the key of the whole
  std::map<std::string_view, TorchStorageId> views_;  ///< by the key of the view
};

}  // namespace crumb
