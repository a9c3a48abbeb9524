// Storages, as a saved object names them and as a file holds them, whatever the form of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/stored_tensor.h"
#include "formats/torch_pickle/pickle.h"
#include "formats/torch_pickle/torch_globals.h"

namespace crumb {

/// What a saved object has in place of what torch.save writes there, for people.
Failure damaged_pickle(const std::string& what);

/// What a persistent id says: ('storage', TYPE, KEY, DEVICE, elements[, view]).
struct TorchStorageId {
  /// A part of the storage, as torch had before version 0.4: (KEY of its own, first element, elements).
  struct View {
    std::string_view key;
    std::uint64_t first = 0, count = 0;
  };
  std::string_view key;  ///< of the whole storage
  const TorchGlobal* type = nullptr;
  std::uint64_t count = 0;  ///< elements of the whole storage
  std::uint64_t bytes = 0;  ///< that they take
  std::optional<View> view;
};

/// `size`: how many values a persistent id has in this form of file, 5 or 6. A Failure says what about the id
/// is damaged, and where a view leaves its storage.
Result<TorchStorageId> read_storage_id(const PickleTree& tree, PickleId persistent, std::uint32_t size);

/// Where a storage's bytes lie in the file.
struct TorchStoragePlace {
  std::uint64_t offset = 0, stored = 0;  ///< bytes in the file
  std::uint64_t size = 0;                ///< bytes once decoded
  StorageCoding coding = StorageCoding::kPlain;
  std::uint32_t crc = 0;  ///< zlib's CRC-32 of the decoded bytes; 0: none
};

/// The storages of a file.
class TorchStorages {
 public:
  virtual ~TorchStorages() = default;
  virtual bool big_endian() const = 0;
  /// How many values a persistent id has.
  virtual std::uint32_t id_size() const = 0;
  /// A Failure where the storage is not there: the rest of a sentence that begins with it.
  virtual Result<TorchStoragePlace> storage(std::string_view key) const = 0;
};

}  // namespace crumb
